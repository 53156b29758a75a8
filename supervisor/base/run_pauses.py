"""The time in which a run's work waited for other runs: it counts against no limit of time.

Times are of Trio's clock.
"""

import trio


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


class RunPauses:
    """One per run. Whoever makes agents wait says so; whoever bounds time asks."""

    def __init__(self) -> None:
        self._of_agents: dict[str, WaitMeter] = {}
        self._of_run = WaitMeter()
        self._is_run_waiting = False

    def begin_wait(self, path: str) -> None:
        """A command of this agent waits for its turn."""
        self._of_agents.setdefault(path, WaitMeter()).begin(trio.current_time())

    def end_wait(self, path: str) -> None:
        """It waits no longer."""
        self._of_agents[path].end(trio.current_time())

    def waited_s(self, path: str) -> float:
        """How long commands of this agent waited so far."""
        meter = self._of_agents.get(path)
        return 0.0 if meter is None else meter.total_s(trio.current_time())

    def note_run(self, *, waits_for_others: bool) -> None:
        """Whether the run's commands wait while none of its own has its turn."""
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
