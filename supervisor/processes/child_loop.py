"""Starts, watches, restarts and stops one child by its `ChildSpec`.

The gateway, the network proxy and the fork-server all run in this loop. An agent's restart takes
`RestartCounter` from here, because an agent also ends on purpose and starts again on demand.
"""

import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import trio

from swarm.mailbox.base.errors import SwarmError

from .child_spec import (
    DEFAULT_RESTART,
    ChildSpec,
    GiveUp,
    Restart,
    RestartPolicy,
    decide_restart,
)
from .process_types import ProcessEnd, RunningProcess, SpawnError

_ASK_SHARE = 0.7  # of the grace: exiting on request takes longer than dying of SIGTERM
_KILL_LIMIT_S = 2.0  # for the kernel; a process needs more only in an uninterruptible wait
_T = TypeVar("_T")


class RestartCounter:
    """Counts the deaths of one child."""

    def __init__(self, policy: RestartPolicy = DEFAULT_RESTART) -> None:
        self._policy = policy
        self._deaths: list[float] = []

    def record_death(self) -> Restart | GiveUp:
        """Count a death now; say whether and when the child starts again."""
        now = trio.current_time()
        self._deaths = [at for at in self._deaths if now - at < self._policy.period_s] + [now]
        return decide_restart(self._deaths, now=now, policy=self._policy)

    async def start(
        self, start: Callable[[], Awaitable[_T]], *, retries: Callable[[SpawnError], bool]
    ) -> _T:
        """Call `start` until it succeeds; waits between two tries.

        A failed start that `retries` accepts counts as a death. Raises the last SpawnError when it
        accepts none, or when there were too many deaths.
        """
        while True:
            try:
                return await start()
            except SpawnError as error:
                if not retries(error) or isinstance(verdict := self.record_death(), GiveUp):
                    raise
            await trio.sleep(verdict.after_s)


class ChildLoop:
    """One child of the supervisor. `run` runs as a task, after `start` or instead of it."""

    def __init__(self, spec: ChildSpec) -> None:
        self._spec = spec
        self._restarts = RestartCounter(spec.restart)
        self.end_expected = False
        self.child: RunningProcess | None = None  # None before its start and between two processes

    async def start(self) -> None:
        """Start it for the first time. Raises SpawnError; the loop then has not begun."""
        self.child = await self._restarts.start(self._spec.start, retries=self._spec.retries)
        if self._spec.after_start is not None:
            await self._spec.after_start()

    async def run(self) -> None:
        """Watch it and restart it until its end is expected, it is given up, or cancelled."""
        while not self.end_expected:
            if (delay_s := await self._run_process()) is None:
                return
            await trio.sleep(delay_s)

    async def _run_process(self) -> float | None:
        """Watch one process to its end. Returns the delay before the next one; None: no other."""
        spec = self._spec
        try:
            if self.child is None:
                await self.start()
        except SpawnError as error:
            spec.on_end()
            if not self.end_expected:
                spec.on_give_up(error)
            return None
        assert self.child is not None
        ended = await self.child.wait_ended()
        spec.on_end()
        if self.end_expected:
            return None
        self.child = None
        spec.on_crash(ended)
        verdict = self._restarts.record_death()
        if isinstance(verdict, GiveUp):
            spec.on_give_up(ended)
            return None
        return verdict.after_s

    def expect_end(self) -> None:
        """From now on an end is no crash, and nothing is restarted."""
        self.end_expected = True

    def kill(self) -> None:
        """SIGKILL the present process, if there is one; it is replaced."""
        if self.child is not None:
            self.child.kill_group()

    async def stop(self) -> None:
        """End it for good, by `stop_child` within the spec's grace."""
        self.expect_end()
        if self.child is not None:
            await stop_child(self.child, self._spec.ask_to_stop, grace_s=self._spec.grace_s)


async def stop_child(
    child: RunningProcess, ask: Callable[[], Awaitable[None]] | None, *, grace_s: float
) -> ProcessEnd:
    """Ask, wait, SIGTERM to its group, wait, SIGKILL to all descendants; by `grace_s` + 2 s.

    The deadline covers all steps, also for a child that ignores every request.

    Args:
        child: The process; one that has ended already takes no time.
        ask: Asks it to exit by itself, for example by a Shutdown op. A SwarmError from it (it
            cannot be reached) leads to the next step at once. None: begin with SIGTERM.
        grace_s: Time for asking and SIGTERM together; 0 kills at once.

    Returns:
        How it ended. `exit_code` and `signal` are None, with a reason, if even SIGKILL did not end
            it.
    """
    with trio.move_on_after(grace_s) as grace:
        if ask is not None and grace_s > 0:
            with trio.move_on_after(grace_s * _ASK_SHARE), suppress(SwarmError):
                await ask()
                return await child.wait_ended()
        if not grace.cancel_called:
            child.signal_group(signal.SIGTERM)
        return await child.wait_ended()
    child.kill_group()
    with trio.move_on_after(_KILL_LIMIT_S):
        return await child.wait_ended()
    return ProcessEnd(reason=f"process {child.pid} did not die of SIGKILL in {_KILL_LIMIT_S:g} s")
