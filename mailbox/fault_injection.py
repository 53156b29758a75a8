"""The way of a frame from a desk to its socket: sound, unless this very process was disturbed.

A rehearsal of bad luck (`scripts/chaos`) calls `disturb` before the command begins, and what is
forked from it inherits that. The rule it guards: no variable, setting, argument or message switches
it on, so nobody who writes a task, a configuration or a model's answer can.
"""

from collections.abc import Callable

import trio

from .endpoint import Transmit

FrameDelays = Callable[[], tuple[float, ...]]
"""For each frame the delays in seconds of its copies, as `pair.SimulatedFaults`: (0.0,) is a sound
wire, ()
drops it, (0.0, 0.0) doubles it, (0.5,) delays it, so that later ones overtake it."""


class _InjectedFaults:
    def __init__(self) -> None:
        self.delays: FrameDelays | None = None


_injected = _InjectedFaults()


def inject_faults(disturbance: FrameDelays | None) -> None:
    """Every mailbox that this process opens from now on has this wire; None: a sound one again."""
    _injected.delays = disturbance


def with_injected_faults(carry: Transmit, nursery: trio.Nursery) -> Transmit:
    """`carry` itself, or where the wire is disturbed one that does to frames what it is told.

    Late frames wait in `nursery`: they are gone with the mailbox.
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
