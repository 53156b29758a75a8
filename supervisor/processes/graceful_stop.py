"""Ends one process in steps: ask, wait, SIGTERM to its group, wait, SIGKILL to all descendants.

The deadline covers all steps, also for a child that ignores every request.
"""

import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import trio

from swarm.mailbox.errors import SwarmError

from .process_types import Child, ProcessEnd

_ASK_SHARE = 0.7  # of the grace: exiting on request takes longer than dying of SIGTERM
_KILL_LIMIT_S = 2.0  # for the kernel; a process needs more only in an uninterruptible wait


async def stop_child(
    child: Child, ask: Callable[[], Awaitable[None]] | None, *, grace_s: float
) -> ProcessEnd:
    """Take the steps until the process has ended; by `grace_s` + 2 s at the latest.

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
