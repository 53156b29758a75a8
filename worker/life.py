"""One life of an agent over any mailbox: from Hello to Goodbye.

Rule guarded: at Shutdown the turn is aborted, commands are ended, and what was said is delivered,
each under a deadline; then nothing of the agent runs.
"""

import os
from pathlib import Path
from typing import Protocol

import trio

from swarm.mailbox.post import Mailbox
from swarm.mailbox.protocol.base import PROTOCOL_VERSION
from swarm.mailbox.protocol.events import Goodbye, Heartbeat, Hello
from swarm.mailbox.protocol.spec import AgentSpec

from .reporter import Reporter
from .sampler import Dial
from .session import Chances, Session
from .submission import serve
from .tools.orchestrator import Orchestrator
from .tools.registry import Registry
from .tools.team import Team

HEARTBEAT_S = 2.0
_END_COMMANDS_S = 5.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STATM = Path("/proc/self/statm")


class Hands(Protocol):
    """What an agent acts with: its tools, and the commands that they started."""

    def make_registry(self, reporter: Reporter, team: Team) -> Registry:
        """The tools, once a life; some say things of their own, or ask about the team."""
        ...

    @property
    def live_commands(self) -> int:
        """Commands that run now."""
        ...

    async def warm(self) -> None:
        """Get ready for the first call; called once, beside the first request."""
        ...

    async def end_commands(self) -> None:
        """End all commands; bounded."""
        ...


async def live(
    spec: AgentSpec,
    post: Mailbox,
    dial: Dial,
    hands: Hands,
    chances: Chances | None = None,
) -> None:
    """One life, from Hello to Goodbye, over any mailbox.

    Args:
        spec: The agent.
        post: The mailbox to the supervisor; owned by the caller.
        dial: Opens a mailbox to a gateway's endpoint; used again whenever it has moved.
        hands: Its tools and commands; owned by the caller, its commands are ended here.
        chances: Ids, noise and the wall clock.
    """
    reporter = Reporter(post)
    reporter.say(Hello(secret=spec.secret, pid=os.getpid(), protocol_version=PROTOCOL_VERSION))
    session = Session(spec, reporter, dial, chances)
    session.use(Orchestrator(hands.make_registry(reporter, session.team), reporter))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reporter.pump)
        nursery.start_soon(reporter.pulse)
        nursery.start_soon(_beat, session, hands)
        nursery.start_soon(session.sampler.stay_connected)
        nursery.start_soon(session.drive)
        nursery.start_soon(_warm, session, hands)
        shutdown = await serve(session, post)
        with trio.move_on_after(_END_COMMANDS_S):
            await session.close()
            await hands.end_commands()
        reporter.say(Goodbye())
        with trio.move_on_after(max(0.1, shutdown.grace_s)):
            await reporter.flush()
        nursery.cancel_scope.cancel()


async def _beat(session: Session, hands: Hands) -> None:
    """Tell every two seconds that the loop runs, and whether anything moves."""
    while True:
        await trio.sleep(HEARTBEAT_S)
        session.reporter.pass_on(
            Heartbeat(
                progress=session.reporter.progress,
                busy=session.turn is not None,
                rss_bytes=_resident_bytes(),
                live_commands=hands.live_commands,
            )
        )


async def _warm(session: Session, hands: Hands) -> None:
    """Prepare the tools beside the first request, if its model calls any."""
    await session.begun.wait()
    if session.has_tools:
        await hands.warm()


def _resident_bytes() -> int:
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
