"""Fault injection between an endpoint and its socket; off unless code in this process turns it on.

The chaos tests (`scripts/chaos`) call `inject_faults` before the command begins; forked processes
inherit it. No variable, setting, argument or message turns it on, so no task, configuration or
model output can.
"""

from collections.abc import Callable

import trio

from .endpoint import Transmit

FrameDelays = Callable[[], tuple[float, ...]]
"""Returns for each frame the delays in seconds of its copies, as `pair.SimulatedFaults`: (0.0,)
delivers it, () drops it, (0.0, 0.0) duplicates it, (0.5,) delays it so that later frames overtake
it.
"""


class _InjectedFaults:
    def __init__(self) -> None:
        self.delays: FrameDelays | None = None


_injected = _InjectedFaults()


def inject_faults(disturbance: FrameDelays | None) -> None:
    """Apply these faults to all mailboxes opened from now on; None: no faults."""
    _injected.delays = disturbance


def with_injected_faults(carry: Transmit, nursery: trio.Nursery) -> Transmit:
    """`carry` itself, or a wrapper that applies the injected faults.

    Delayed frames wait in `nursery`; they are lost when the mailbox closes.
    """
    disturbance = _injected.delays
    if disturbance is None:
        return carry

    def carry_badly(peer: bytes, frame: bytes) -> bool:
        arrives = True
        for delay_s in disturbance():
            if delay_s:
                nursery.start_soon(_transmit_late, carry, peer, frame, delay_s)
            else:
                arrives = carry(peer, frame) and arrives
        return arrives

    return carry_badly


async def _transmit_late(carry: Transmit, peer: bytes, frame: bytes, delay_s: float) -> None:
    await trio.sleep(delay_s)
    carry(peer, frame)
