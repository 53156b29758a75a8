"""Whether an agent's process is who it says it is, and that it lives: its Hello and heartbeats."""

import logging

import trio

from swarm.mailbox.protocol.control import MemoryUsed
from swarm.mailbox.protocol.events import Heartbeat, Hello, LockGap, Warned

from ..agents.agent_record import Agent
from ..agents.life.agent_manager import AgentManager
from ..context.run_context import RunContext
from ..parts.undo.live.file_history import FileHistory

_log = logging.getLogger("swarm.agent_presence")
# For people, when read-only agents cannot lock their own processes with Landlock.
_LOCK_ADVICE = (
    "; --require-sandbox fs refuses such a machine, and `swarm doctor` says how to fix it"
)
_LANDLOCK_WARNINGS: dict[LockGap, str] = {
    "all": "agents of read-only roles (explorer, the reviewer) run UNLOCKED: this kernel has no "
    "Landlock, so nothing confines their own processes; their commands are in the sandbox"
    + _LOCK_ADVICE,
    "truncation": "agents of read-only roles (explorer, the reviewer) are locked only in part: the "
    "Landlock of this kernel (before ABI 3) does not keep their own processes from truncating "
    "files" + _LOCK_ADVICE,
}


class AgentPresence:
    """Takes these two messages of all agents. Never waits."""

    def __init__(self, running: RunContext, agents: AgentManager, history: FileHistory) -> None:
        self._run = running
        self._agents = agents
        self._history = history
        self._warned_of_landlock = False

    def greet(self, agent: Agent, hello: Hello) -> None:
        """Accept the first Hello with this process's secret and pid; kill the process on others."""
        process = agent.process
        is_ours = self._run.is_proven(agent.identity, hello)
        is_other = process.child is not None and process.child.pid != hello.pid
        if process.hello.is_set() or not is_ours or is_other:
            _log.warning("%s said a hello that is not its own; it is ended", agent.path)
            self._agents.kill_for_restart(agent, "it said a hello that was not its own")
        else:
            process.hello.set()
            self._warn_of_landlock(hello)

    def _warn_of_landlock(self, hello: Hello) -> None:
        """Warn once per run: all its processes are on one machine."""
        if hello.lock_gap and not self._warned_of_landlock:
            self._warned_of_landlock = True
            self._run.note(Warned(message=_LANDLOCK_WARNINGS[hello.lock_gap]))

    def note_beat(self, agent: Agent, beat: Heartbeat) -> None:
        """It lives; a process that uses more memory than it may is killed."""
        if agent.process.take_heartbeat(beat, now=trio.current_time()):
            self._history.change_watcher.commands_ended()
        if agent.process.note_memory(beat.rss_bytes):
            self._run.broadcast.show(agent.path, MemoryUsed(rss_bytes=beat.rss_bytes))
        limit_bytes = self._run.request.inherited.resources.agent_memory_bytes
        if limit_bytes is not None and beat.rss_bytes > limit_bytes:
            used, allowed = beat.rss_bytes >> 20, limit_bytes >> 20
            reason = f"its process used {used} MiB of {allowed} MiB (limits.agent_memory)"
            self._agents.kill_for_restart(agent, reason)
