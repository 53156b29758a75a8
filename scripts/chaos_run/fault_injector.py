"""Throws the planned faults at a living run, and takes back those that last.

Each fault that was thrown is noted, with whom it hit: evidence, and what excuses an end.
"""

import os
import signal
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

import trio
from chaos_testbed import ChaosTestbed, RunProcess
from fault_plan import FaultTarget, PlannedFault

_MOST_DEATHS = 3  # of one agent: at the fourth it is given up, rightly, with all below it
_DEADLY_STOP_S = 10.0  # who is silent for so long counts as dead
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNALS = {"kill": signal.SIGKILL, "segv": signal.SIGSEGV, "stop": signal.SIGSTOP}


class InjectedFault(NamedTuple):
    """One fault as it was thrown, `at_s` seconds after the play began."""

    at_s: float
    what: str


def process_role(living: RunProcess) -> FaultTarget:
    """What part of a run a process is, by its title."""
    title = living.title
    if not title.startswith("swarm: "):
        return "mcp-server" if _MCP_SERVER in title else "command"
    words = title.removeprefix("swarm: ")
    for start, role in _TITLES:
        if words.startswith(start):
            return role
    return ""


_MCP_SERVER = "counting_server.py"
_TITLES: tuple[tuple[str, FaultTarget], ...] = (
    ("launcher of mcp hub", "hub-launcher"), ("launcher of ", "launcher"),
    ("/root [", "root"), ("/root/", "agent"),
    ("/guardian", "guardian"), ("mcp hub", "hub"), ("gateway", "gateway"),
    ("fork-server", "fork-server"),
)  # fmt: skip


class FaultInjector:
    """One a play. `supervisor` is the pid of the present start, None between two."""

    def __init__(self, stage: ChaosTestbed, nursery: trio.Nursery) -> None:
        self._stage, self._nursery = stage, nursery
        self._began = trio.current_time()
        self.supervisor: int | None = None
        self.injected: list[InjectedFault] = []
        self.supervisor_killed = self.disk_filled = self.ended = False  # since the present start
        self._stopped: set[int] = set()  # pidfds
        self._deaths = Counter[str]()  # of agents, by title

    async def inject_all(self, strikes: tuple[PlannedFault, ...]) -> None:
        """Throw all of them in time, then make everything sound again."""
        for strike in strikes:
            await trio.sleep_until(self._began + strike.at_s)
            await self._inject(strike)

    def reset(self) -> None:
        """Everything that lasts is taken back at once."""
        self._stage.controls.reset()
        self._stage.free_disk()
        for pidfd in tuple(self._stopped):
            self._continue(pidfd)

    async def _inject(self, strike: PlannedFault) -> None:
        knobs = self._stage.controls
        match strike.kind:
            case "kill" | "segv" | "stop":
                self._signal(strike)
            case "lose":
                if self.supervisor is not None and self._stage.run_id:
                    self._note(f"lose {self.supervisor}")
                    self.supervisor_killed = True
                    os.kill(self.supervisor, signal.SIGKILL)
            case "end":
                if self.supervisor is not None and self._stage.run_id:
                    number = _ENDS[strike.target_number % len(_ENDS)]
                    self._note(f"end by {number.name} {self.supervisor}")
                    self.ended = True
                    os.kill(self.supervisor, number)
            case "suspend":
                self._suspend(strike)
            case "clock":
                knobs.clock_s += strike.level
                self._note(f"clock {strike.level:+g}")
            case "wire":
                knobs.drop_share = knobs.duplicate_share = knobs.delay_share = strike.level
                knobs.max_delay_s = 0.3
                self._lasting(strike, f"wire {strike.level:g}")
            case "provider":
                knobs.provider = strike.provider  # type: ignore[assignment]
                self._lasting(strike, f"provider {strike.provider}")
            case "disk_slow":
                knobs.disk_s = strike.level
                self._lasting(strike, f"disk_slow {strike.level:g}")
            case "disk_full":
                if self._stage.has_disk and self._stage.run_id:
                    self.disk_filled = True
                    await trio.to_thread.run_sync(self._stage.fill_disk)
                    self._lasting(strike, "disk_full")

    def _signal(self, strike: PlannedFault) -> None:
        if self.supervisor is None:
            return  # who lives may be the next supervisor, that nobody knows by its pid yet
        living = self._stage.list_processes(self.supervisor)
        if strike.target == "supervisor":
            pids = [RunProcess(self.supervisor, "supervisor")]
        else:
            pids = sorted(one for one in living if process_role(one) == strike.target)
        is_deadly = strike.kind != "stop" or strike.lasts_s >= _DEADLY_STOP_S
        if is_deadly:
            pids = [one for one in pids if self._deaths[_agent_of(one)] < _MOST_DEATHS]
        if pids:
            chosen = pids[strike.target_number % len(pids)]
            ends_life = process_role(chosen) in ("root", "agent", "launcher")
            self._deaths[_agent_of(chosen)] += is_deadly and ends_life
            self._note(f"{strike.kind} {_short(chosen.title)} ({chosen.pid})")
            self._send(chosen.pid, strike)

    def _suspend(self, strike: PlannedFault) -> None:
        """Everybody sleeps, as on a machine whose lid was closed."""
        if self.supervisor is None:
            return
        self._note(f"suspend {strike.lasts_s:g} s")
        for pid in (
            self.supervisor,
            *(one.pid for one in self._stage.list_processes(self.supervisor)),
        ):
            self._send(pid, strike._replace(kind="stop"))

    def _send(self, pid: int, strike: PlannedFault) -> None:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, _SIGNALS[strike.kind])
        if strike.kind != "stop":
            os.close(pidfd)
            return
        self._stopped.add(pidfd)
        self._nursery.start_soon(self._continue_later, pidfd, strike.lasts_s)

    async def _continue_later(self, pidfd: int, seconds: float) -> None:
        await trio.sleep(seconds)
        self._continue(pidfd)

    def _continue(self, pidfd: int) -> None:
        if pidfd in self._stopped:
            self._stopped.discard(pidfd)
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGCONT)
            os.close(pidfd)

    def _lasting(self, strike: PlannedFault, what: str) -> None:
        self._note(f"{what} for {strike.lasts_s:.1f} s")
        self._nursery.start_soon(self._end_later, strike)

    async def _end_later(self, strike: PlannedFault) -> None:
        await trio.sleep(strike.lasts_s)
        knobs = self._stage.controls
        match strike.kind:
            case "wire":
                knobs.drop_share = knobs.duplicate_share = knobs.delay_share = 0.0
            case "provider":
                knobs.provider = "sound"
            case "disk_slow":
                knobs.disk_s = 0.0
            case _:
                self._stage.free_disk()

    def _note(self, what: str) -> None:
        self.injected.append(InjectedFault(round(trio.current_time() - self._began, 3), what))


def _agent_of(living: RunProcess) -> str:
    """Whose life ends with it: with a launcher its agent's does."""
    return living.title.replace("swarm: launcher of ", "swarm: ", 1)


def _short(title: str) -> str:
    """A sandboxed command by its own words."""
    return title.rpartition(" -- ")[2][:80]
