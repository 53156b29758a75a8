"""Where an agent's tools work: its folder, its rights, its commands, and which files it has seen.

Rule guarded: a tool that acts inside this process (a patch, a listing) keeps to the same limits as
a command in the sandbox; they are taken from the same plan.
"""

import os
from pathlib import Path

from swarm.mailbox.protocol.limits import DangerFullAccess
from swarm.mailbox.protocol.spec import AgentSpec

from ..exec.sessions import ExecSessions
from ..sandbox.plan import SandboxPlan, SandboxUnavailable, is_below
from ..sandbox.probe import probe_sandbox


class Site:
    """Shared by the tools of one agent."""

    def __init__(self, spec: AgentSpec, commands: ExecSessions) -> None:
        self.spec, self.limits, self.commands = spec, spec.limits, commands
        self.cwd = Path(spec.cwd)
        self._hidden = tuple(os.path.realpath(path) for path in spec.hidden_paths)
        # Absolute path → digest of its contents as our last patch left them (None: gone). A command
        # of ours may change or show any file, so it clears this.
        self.seen: dict[str, str | None] = {}

    @property
    def is_confined(self) -> bool:
        return not isinstance(self.limits.sandbox, DangerFullAccess)

    @property
    def stack(self) -> str:
        """What confines commands here: bwrap, landlock, none."""
        return probe_sandbox().stack if self.is_confined else "none"

    def folder(self, workdir: str) -> str:
        """A working directory as the model gave it; empty means the agent's own."""
        return os.path.normpath(self.cwd / workdir)

    def may_read(self, path: Path) -> bool:
        """False for the run's own sockets and folders."""
        real = os.path.realpath(path)
        return not any(is_below(real, hidden) for hidden in self._hidden)

    def write_plan(self) -> SandboxPlan | None:
        """What may be written now; None where the policy cannot be enforced."""
        try:
            return self.commands.plan(self.limits.sandbox, self.spec.cwd)
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
        closed = (*plan.protected, *plan.missing, *plan.links, *links, *plan.hidden)
        spoken = str(Path(os.path.realpath(path.parent)) / path.name)  # a link itself
        if any(is_below(one, shut) for one in (real, spoken) for shut in closed):
            return False
        return any(is_below(real, root) for root in plan.writable)
