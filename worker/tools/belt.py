"""All tools of an agent, in the order in which models are told of them."""

from swarm.mailbox.protocol.rules import Rules
from swarm.mailbox.protocol.spec import AgentSpec

from ..exec.sessions import EnvironmentSource, ExecSessions
from ..policy.words import plain_commands
from ..reporter import Reporter
from .apply_patch import ApplyPatch
from .csv_job import ReportAgentJobResult, SpawnAgentsOnCsv
from .directory import ListDir
from .exec_command import ExecCommand
from .image import ViewImage
from .plan import UpdatePlan
from .registry import Registry
from .request_permissions import RequestPermissions
from .request_user_input import RequestUserInput
from .site import Site
from .spawn_agent import SpawnAgent
from .spec import Tool
from .team import Team
from .team_control import CloseTeam, InterruptAgent, ListTeam
from .team_mail import FollowupTask, SendMessage
from .wait_agent import WaitAgent
from .write_stdin import WriteStdin


class Toolbelt:
    """The real `Hands`."""

    def __init__(self, spec: AgentSpec, commands: ExecSessions) -> None:
        self._site, self._commands = Site(spec, commands), commands

    def make_registry(self, reporter: Reporter, team: Team | None = None) -> Registry:
        site = self._site
        site.report_to(reporter)
        own: tuple[Tool, ...] = (
            ExecCommand(site),
            WriteStdin(site),
            UpdatePlan(),
            RequestUserInput(site),
            RequestPermissions(site),
            ApplyPatch(site),
            ListDir(site),
            ViewImage(site, reporter),
        )
        tools = own if team is None else (*own, *team_tools(site, team))
        return Registry(tools, on_turn=site.enter_turn)

    @property
    def live_commands(self) -> int:
        return self._commands.live_count()

    def take_environment_from(self, source: EnvironmentSource) -> None:
        """Whom the commands' environment comes from."""
        self._commands.take_environment_from(source)

    def adopt(self, spec: AgentSpec) -> None:
        """Its settings have changed; no call runs."""
        self._site.adopt(spec)
        self._commands.adopt(spec)

    def learn(self, rules: Rules) -> None:
        """Commands are judged by these rules from now on."""
        self._site.learn(rules)

    async def warm(self) -> None:
        """Get ready for the first command while the model is still thinking."""
        await self._commands.warm()
        plain_commands("true")  # loads the parser, some milliseconds

    async def end_commands(self) -> None:
        await self._commands.terminate_all()


def team_tools(site: Site, team: Team) -> tuple[Tool, ...]:
    """The tools that concern other agents; each knows by itself whether it is offered."""
    return (
        SpawnAgent(team),
        SendMessage(team),
        FollowupTask(team),
        WaitAgent(team),
        ListTeam(team),
        InterruptAgent(team),
        CloseTeam(team),
        SpawnAgentsOnCsv(team, site),
        ReportAgentJobResult(team),
    )
