"""`python -P swarm_with_one_fault.py STEP SIGNAL VICTIM run …`: the real command, with one fault.

Everything is the real thing. The supervisor sends one signal itself, in the very moment in which it
learns that the step is reached: no sleep decides what is hit. Long limits are made short.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping

import msgspec

from swarm.mailbox.protocol.events import CallBegan, TurnStarted
from swarm.mailbox.protocol.items import Message
from swarm.mailbox.protocol.records import AgentSpawned, AnyRecordBody, ItemRecorded
from swarm.mailbox.protocol.spec import AgentSpec, AnySpec
from swarm.supervisor.agents.life import agent_start, heartbeat_monitor
from swarm.supervisor.clients.cli.entry import main
from swarm.supervisor.context import service_process
from swarm.supervisor.journal.journal import Journal
from swarm.supervisor.processes import process_manager
from swarm.supervisor.processes.process_manager import ProcessManager
from swarm.supervisor.processes.process_types import Child
from swarm.worker.agent import agent_lifecycle

TARGET = "/root/a"
# Which record tells that the step is reached; `mute` is reached when the process exists.
STEPS: Mapping[str, Callable[[AnyRecordBody], bool]] = {
    "mute": lambda body: False,
    "started": lambda body: isinstance(body, AgentSpawned),
    "turn": lambda body: isinstance(body, TurnStarted),
    "tool": lambda body: isinstance(body, CallBegan),
    "answer": lambda body: (
        isinstance(body, ItemRecorded) and body.source == "model" and isinstance(body.item, Message)
    ),
}


class Fault:
    """Strikes once."""

    def __init__(self, step: str, number: int, victim: str) -> None:
        self._step, self._number, self._victim = step, number, victim
        self._struck = False
        self._pids = {"supervisor": os.getpid()}
        self._home: ProcessManager | None = None

    def arm(self) -> None:
        """Watch what is written and who is started."""
        write, start = Journal.write, ProcessManager.start

        def watched(journal, body, *, agent="", **more):
            record = write(journal, body, agent=agent, **more)
            if isinstance(body, AgentSpawned) and agent == TARGET:
                self._pids["agent"] = body.pid
            if agent == TARGET and STEPS[self._step](body):
                self._inject()
            return record

        async def starting(home: ProcessManager, spec: AnySpec, *, title: str, keys=None) -> Child:
            self._home = home
            is_mute = self._step == "mute" and title.startswith(TARGET) and not self._struck
            if is_mute and isinstance(spec, AgentSpec):  # its Hello goes where nobody listens
                spec = msgspec.structs.replace(spec, endpoint=f"{spec.endpoint}.nobody")
            child = await start(home, spec, title=title, keys=keys)
            if title == "gateway":
                self._pids["gateway"] = child.pid
            if is_mute:
                self._pids["agent"] = child.pid
                self._inject()
            return child

        Journal.write, ProcessManager.start = watched, starting

    def _inject(self) -> None:
        if self._struck:
            return
        self._struck = True
        if self._victim == "fork-server" and self._home is not None:
            self._pids["fork-server"] = self._home.server_pid or 0
        os.kill(self._pids[self._victim], self._number)


def shorten() -> None:
    """Before anything is forked, so that what is forked has it too; 2 s are a cold one's beats."""
    agent_lifecycle.HEARTBEAT_S = 0.2
    heartbeat_monitor._HEARTBEAT_TIMEOUT_S = service_process.HEARTBEAT_TIMEOUT_S = 3.5
    process_manager.START_LIMIT_S = 1.0
    if sys.argv[1] == "mute":
        agent_start.HELLO_TIMEOUT_S = 2.0


if __name__ == "__main__":
    shorten()
    step, name, victim = sys.argv[1:4]
    Fault(step, signal.Signals[name], victim).arm()
    sys.argv[1:4] = []
    main()
