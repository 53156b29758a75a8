"""What a run knows of its heavy commands: their past, and the time in which it waited for leases.

Times are of Trio's clock.
"""

from pathlib import Path

import msgspec
import trio

from swarm.mailbox.protocol.leases import HeavyCommandEnded, LeaseRules, LeaseSettings

from .command_costs import CommandCosts, add_cost, learned_heads, read_costs


class WaitMeter:
    """Adds up the time in which something waits, however many wait at once."""

    def __init__(self) -> None:
        self._waiting, self._since, self._total_s = 0, 0.0, 0.0

    def begin(self, now: float) -> None:
        """One more waits."""
        if self._waiting == 0:
            self._since = now
        self._waiting += 1

    def end(self, now: float) -> None:
        """One waits no longer."""
        self._waiting -= 1
        if self._waiting == 0:
            self._total_s += now - self._since

    def total_s(self, now: float) -> float:
        return self._total_s + (now - self._since if self._waiting else 0.0)


class LeaseLedger:
    """One per run."""

    def __init__(self, folder: Path, settings: LeaseSettings, *, cwd: str) -> None:
        """`folder`: that of all runs; `cwd`: the folder in which this run works."""
        self._folder, self._settings, self._cwd = folder, settings, cwd
        self.costs = read_costs(folder) if settings.enabled else CommandCosts()
        self._of_agents: dict[str, WaitMeter] = {}
        self._of_run = WaitMeter()
        self._is_run_waiting = False

    def rules_for_agents(self) -> LeaseRules:
        """What a new agent process is told."""
        learned = learned_heads(self.costs, folder=self._cwd)
        return msgspec.convert(
            {**msgspec.structs.asdict(self._settings), "learned": learned}, LeaseRules
        )

    async def add(self, ended: HeavyCommandEnded) -> None:
        """Remember what a command used. Raises OSError: this run alone knows it."""
        self.costs = await trio.to_thread.run_sync(add_cost, self._folder, ended)

    def begin_wait(self, path: str) -> None:
        """A command of this agent waits for its lease."""
        self._of_agents.setdefault(path, WaitMeter()).begin(trio.current_time())

    def end_wait(self, path: str) -> None:
        """It waits no longer."""
        self._of_agents[path].end(trio.current_time())

    def waited_s(self, path: str) -> float:
        """How long commands of this agent waited so far."""
        meter = self._of_agents.get(path)
        return 0.0 if meter is None else meter.total_s(trio.current_time())

    def note_run(self, *, waits_for_others: bool) -> None:
        """Whether the run's commands wait while none of its own holds a lease."""
        if waits_for_others == self._is_run_waiting:
            return
        self._is_run_waiting = waits_for_others
        now = trio.current_time()
        if waits_for_others:
            self._of_run.begin(now)
        else:
            self._of_run.end(now)

    def paused_s(self) -> float:
        """How long the run waited for the commands of other runs: its deadline stops meanwhile."""
        return self._of_run.total_s(trio.current_time())
