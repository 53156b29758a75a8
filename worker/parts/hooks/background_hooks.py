"""Hooks that nothing waits for: those of events that only tell something, and `async` ones."""

from collections.abc import Awaitable, Callable

import trio

Job = Callable[[], Awaitable[object]]
_SIDE_BY_SIDE = 8
_MOST_WAITING = 64


class BackgroundHooks:
    """Jobs of one agent, at most 8 at once; they end with the block that runs `run`."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[Job](_MOST_WAITING)
        self._open = 0
        self._idle = trio.Event()

    def start(self, job: Job) -> bool:
        """Start a job soon. Never waits. False: 64 wait already, and it is not run."""
        try:
            self._send.send_nowait(job)
        except trio.WouldBlock:
            return False
        self._open += 1
        return True

    async def wait_idle(self) -> None:
        """Return when every job has ended; the caller sets the deadline."""
        while self._open:
            await self._idle.wait()

    async def run(self) -> None:
        """Run jobs, for ever. No job may raise but for cancellation."""
        limiter = trio.CapacityLimiter(_SIDE_BY_SIDE)
        async with trio.open_nursery() as nursery:
            async for job in self._receive:
                await nursery.start(self._run_one, job, limiter)

    async def _run_one(
        self,
        job: Job,
        limiter: trio.CapacityLimiter,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            async with limiter:
                task_status.started()
                await job()
        finally:
            self._open -= 1
            if not self._open:
                self._idle.set()
                self._idle = trio.Event()
