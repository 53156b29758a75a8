"""Shared context of an agent's tools: folder, permissions, commands, and digests of patched files.

A tool that acts inside this process (a patch, a listing) has the same limits as a command in the
sandbox; both take them from the same plan.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.base.held_programs import (
    find_writable_places,
)
from swarm.mailbox.base.path_rules import is_explicitly_denied, is_within, may_read
from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.mailbox.parts.tool_names import TOOL_NAMES
from swarm.mailbox.protocol.approvals import Cause, CommandAction
from swarm.mailbox.protocol.requests import FilesKept, KeepFiles, RequestRefused
from swarm.mailbox.protocol.rules import RuleSet
from swarm.mailbox.protocol.spec import AgentSpec
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, ProfilePolicy

from ...base.current_spec import CurrentSpec
from ...base.reporter import Reporter
from ...exec.command_plan import NOT_IN_COPY, is_in_copy
from ...exec.exec_sessions import ExecSessions
from ...policy.approval_offers import ToolStanding, is_usable
from ...policy.command_decision import ROLE_LOCKED
from ...policy.command_facts import (
    AgentStanding,
    CommandFacts,
    EscalationRequest,
    MatchRules,
    WhyUnheld,
    gather_facts,
    no_rules,
)
from ...policy.program_judge import judge_in
from ...policy.rule_coverage import Surroundings, why_beyond
from ...sandbox.file_policy import names_protected
from ...sandbox.sandbox_plan import SandboxPlan, SandboxUnavailable, Stack
from ...sandbox.sandbox_probe import probe_sandbox
from .begin_task import ChangeGate
from .permission_arguments import GrantedPermissions
from .tool_interface import ToolFailed
from .tool_parts import ToolParts


class StartedCommand(Value):
    """A command that continues as a session, and why it needed approval, if it did."""

    action: CommandAction
    asked: Cause | None = None


class ToolContext:
    """Shared by the tools of one agent."""

    def __init__(
        self, current: CurrentSpec, commands: ExecSessions, reporter: Reporter | None = None
    ) -> None:
        self._reporter = reporter  # requests copies of files; None: nobody makes any
        self._current, self.commands = current, commands
        self.parts = ToolParts(current, reporter)
        spec = current.spec
        self._hidden = tuple(os.path.realpath(path) for path in spec.guarded.hidden_paths)
        # Absolute path → digest of the contents after the agent's last patch (None: deleted). A
        # command of the agent may change or show any file, so it clears this.
        self.patched_digests: dict[str, str | None] = {}
        self.granted = GrantedPermissions(spec.granted)
        self._started: dict[int, StartedCommand] = {}  # by session
        self._matcher: tuple[RuleSet, MatchRules] | None = None  # made for these rules
        self._places: tuple[object, WritablePlaces] | None = None  # as of these facts
        self._turn_id = ""
        self._offered = frozenset(TOOL_NAMES)
        self.gate = ChangeGate(lambda: current.spec.limits)

    @property
    def spec(self) -> AgentSpec:
        """The agent's spec with the settings that hold now."""
        return self._current.spec

    @property
    def limits(self) -> Limits:
        """What its calls are held to now: less than the agent's own limits while it only reads."""
        return self.gate.limits

    @property
    def cwd(self) -> Path:
        return Path(self.spec.cwd)

    @property
    def is_locked(self) -> bool:
        """True: nothing of it may get more than its sandbox gives; `lock_reason` says why."""
        return self.spec.role.locked or self.gate.only_reads

    @property
    def lock_reason(self) -> str:
        """Why nothing of it gets more than its sandbox gives; "" if something may."""
        return ROLE_LOCKED if self.spec.role.locked else self.gate.reason

    @property
    def is_root(self) -> bool:
        """True for the agent that received the person's task."""
        return self.spec.depth == 0

    @property
    def standing(self) -> ToolStanding:
        """What decides which tools this agent can use at all."""
        spec = self.spec
        return ToolStanding(
            limits=spec.limits,
            is_locked=spec.role.locked,
            is_root=self.is_root,
            has_hooks=bool(spec.inherited.hooks),
        )

    def can_use(self, tool: str) -> bool:
        """False for a tool whose every call would be refused."""
        return is_usable(tool, self.standing)

    def enter_turn(self, turn_id: str) -> None:
        """Note the turn of the next calls; permissions granted for an earlier turn end."""
        self._turn_id = turn_id
        self.granted.enter_turn(turn_id)

    def note_offered(self, names: frozenset[str]) -> None:
        """Note which tools the model is offered."""
        self._offered = names

    def offers(self, name: str) -> bool:
        """True if the model can call this tool."""
        return name in self._offered

    async def keep_files(self, call_id: str, paths: tuple[str, ...]) -> None:
        """Have the supervisor copy the files that the call is about to delete.

        Raises ToolFailed if the copy is not complete; then the call must not run.
        """
        request = KeepFiles(turn_id=self._turn_id, call_id=call_id, paths=paths)
        reply = None if self._reporter is None else await self._reporter.request(request)
        if isinstance(reply, FilesKept) and not reply.message:
            return
        why = "nobody keeps files here"
        if isinstance(reply, FilesKept | RequestRefused):
            why = reply.message
        raise ToolFailed(f"Not run: what it throws away could not be copied first: {why}")

    @property
    def may_leave_sandbox(self) -> bool:
        """True if a command of this agent may ever run outside of its sandbox."""
        bound = self.is_confined and not self.is_locked
        return bound and not self.spec.inherited.sandbox_required

    def writable_places(self) -> WritablePlaces:
        """Where agents of this run, and this one by what it was granted, may write."""
        spec, held = self.spec, self.granted.now
        key = (spec.limits.sandbox, held.write, spec.guarded.run_places, spec.guarded.protected)
        if self._places is None or self._places[0] != key:
            own = find_writable_places(
                spec.limits.sandbox,
                spec.cwd,
                extra=(*held.write, spec.copy.tree, *(one.path for one in spec.copy.mounts)),
                shut=spec.guarded.protected,
            )
            self._places = key, own.joined(spec.guarded.run_places)
        return self._places[1]

    def _why_unheld(self, folder: str) -> WhyUnheld:
        """Judge programs as a command in this folder, outside of the sandbox, would find them."""
        return judge_in(self.commands.outside_environment(), folder, self.writable_places())

    def command_facts(
        self, argv: Sequence[str], escalation: EscalationRequest, *, folder: str = ""
    ) -> CommandFacts:
        """Return the facts by which a command in this folder is judged now."""
        folder = folder or self.spec.cwd
        facts = self._facts(argv, escalation, folder)
        if self.is_locked or not any(one.rules for one in facts.commands):
            return facts
        beyond = why_beyond(facts.commands, self.surroundings(folder))
        return msgspec.structs.replace(facts, beyond=beyond)

    def surroundings(self, folder: str) -> Surroundings:
        """Where a command in this folder would run, and where agents may write."""
        home = self.spec.environment.get("HOME", "")
        return Surroundings(folder, self.writable_places(), home)

    def _facts(
        self, argv: Sequence[str], escalation: EscalationRequest, folder: str
    ) -> CommandFacts:
        return gather_facts(
            argv,
            self.limits,
            escalation,
            match_rules=self._rules(),
            why_unheld=self._why_unheld(folder) if self.may_leave_sandbox else None,
            standing=AgentStanding(
                held=self.granted.now,
                is_locked=self.is_locked,
                lock_reason=self.lock_reason,
                rules_broken=self.spec.rules.broken,
                may_commit=self.spec.inherited.allow_commit,
            ),
        )

    def record_started(
        self, session_id: int, action: CommandAction, *, asked: Cause | None
    ) -> None:
        """Note a command that continues as a session; `asked`: why it needed approval."""
        is_open = self.commands.is_open
        self._started = {one: noted for one, noted in self._started.items() if is_open(one)}
        leaves = self.is_confined and not action.sandboxed
        self._started[session_id] = StartedCommand(
            action=action, asked="escalation" if leaves else asked
        )

    def started_command(self, session_id: int) -> "StartedCommand | None":
        """Return the command of this session; None if it has ended."""
        return self._started.get(session_id) if self.commands.is_open(session_id) else None

    def _rules(self) -> MatchRules:
        rules = self.spec.rules
        if not rules.prefixes:
            return no_rules
        if self._matcher is None or self._matcher[0] is not rules:
            # Imported late: most runs have no rules.
            from ...policy.rule_matching import rule_matcher

            self._matcher = rules, rule_matcher(rules)
        return self._matcher[1]

    @property
    def is_confined(self) -> bool:
        return not isinstance(self.limits.sandbox, DangerFullAccess)

    @property
    def sandbox_stack(self) -> Stack:
        """The sandbox of commands here: bwrap, landlock, none."""
        return probe_sandbox().stack if self.is_confined else "none"

    def resolve_folder(self, workdir: str) -> str:
        """Return the working directory for the model's argument; empty means the agent's own."""
        return os.path.normpath(self.cwd / workdir)

    def may_read(self, path: Path) -> bool:
        """False for the run's own sockets and folders, and what a permission profile denies."""
        real = os.path.realpath(path)
        if any(is_within(real, hidden) for hidden in self._hidden):
            return False
        policy = self.limits.sandbox
        return not isinstance(policy, ProfilePolicy) or self._profile_allows_reading(policy, real)

    def _profile_allows_reading(self, policy: ProfilePolicy, real: str) -> bool:
        if may_read(policy, real):
            return True
        held = self.granted.now
        given = not self.is_locked and any(is_within(real, p) for p in (*held.read, *held.write))
        return given and not is_explicitly_denied(policy, real)

    def find_past_copy(self, paths: Sequence[str]) -> str:
        """What to say if a write to these canonical paths misses the agent's copy; "" if not."""
        past = (path for path in paths if not is_in_copy(self.spec, path))
        return next((f"{path} {NOT_IN_COPY}" for path in past), "")

    def write_plan(self) -> SandboxPlan | None:
        """Return what may be written now; None where the policy cannot be enforced."""
        held = None if self.is_locked else self.granted.now
        try:
            return self.commands.plan(self.limits.sandbox, self.spec.cwd, held)
        except SandboxUnavailable:
            return None

    def may_write(self, path: Path, plan: SandboxPlan) -> bool:
        """True if the plan lets a command write this path (symlinks are resolved here)."""
        real = os.path.realpath(path)
        if not self.may_read(path):
            return False
        if not plan.is_sandboxed:
            return not self.is_confined
        links = tuple(os.path.realpath(link) for link in plan.links)
        closed = (*plan.missing, *plan.links, *links, *plan.hidden)
        if isinstance(self.limits.sandbox, ProfilePolicy):
            shut = (*plan.protected, *(set(plan.readable) - set(plan.writable)))
            deepest = max((p for p in shut if is_within(real, p)), key=len, default="")
            if not any(is_within(real, p) and len(p) > len(deepest) for p in plan.writable):
                return False
        else:
            closed += plan.protected
        spoken = str(Path(os.path.realpath(path.parent)) / path.name)  # a link itself
        if any(is_within(one, shut) for one in (real, spoken) for shut in closed):
            return False
        if any(names_protected(one, plan.writable) for one in (real, spoken)):
            return False
        return any(is_within(real, root) for root in plan.writable)
