"""All tools of an agent, in the order in which models are told of them."""

from swarm.mailbox.protocol.spec import AgentSpec

from ..exec.sessions import EnvironmentSource, ExecSessions
from ..policy.words import plain_commands
from ..reporter import Reporter
from .apply_patch import ApplyPatch
from .directory import ListDir
from .exec_command import ExecCommand
from .image import ViewImage
from .plan import UpdatePlan
from .registry import Registry
from .site import Site
from .write_stdin import WriteStdin


class Toolbelt:
    """The real `Hands`."""

    def __init__(self, spec: AgentSpec, commands: ExecSessions) -> None:
        self._site, self._commands = Site(spec, commands), commands

    def make_registry(self, reporter: Reporter) -> Registry:
        site = self._site
        return Registry(
            (
                ExecCommand(site),
                WriteStdin(site),
                UpdatePlan(),
                ApplyPatch(site),
                ListDir(site),
                ViewImage(site, reporter),
            )
        )

    @property
    def live_commands(self) -> int:
        return self._commands.live_count()

    def take_environment_from(self, source: EnvironmentSource) -> None:
        """Whom the commands' environment comes from."""
        self._commands.take_environment_from(source)

    async def warm(self) -> None:
        """Get ready for the first command while the model is still thinking."""
        await self._commands.warm()
        plain_commands("true")  # loads the parser, some milliseconds

    async def end_commands(self) -> None:
        await self._commands.terminate_all()
