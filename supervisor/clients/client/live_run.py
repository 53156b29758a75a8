"""A run, as a client holds it: its events, and every request that a person may make of it.

A `LiveRun` keeps no connection. Each request opens the control socket for itself, and each reader
of events has the feed for itself, so any number of tasks may use one `LiveRun` at once.
"""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import anyio
import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import ROOT_PATH, new_uuid7, short_id
from swarm.mailbox.protocol.approvals import PendingApproval, Scope
from swarm.mailbox.protocol.control import (
    AnyControl,
    AnyControlReply,
    Approvals,
    Done,
    GetSnapshot,
    InterruptAgent,
    KillAgent,
    ListApprovals,
    Recorded,
    Refused,
    ResolveApproval,
    RunView,
    SendText,
    Snapshot,
    decode_control_reply,
    encode_control,
)
from swarm.mailbox.protocol.records import RunCompleted, RunStarted

from ...runs.client_errors import ControlRequestRefused, RunEnding, RunNotAlive, RunVanished
from ...runs.paths import RunPaths, find_run, find_user_paths, paths_of_run
from ...runs.run_metadata import is_run_alive
from .client_sockets import NobodyListens, request_reply
from .run_events import Event, RunEvents, open_events
from .turn_tracking import TurnResult, TurnTracker

REPLY_TIMEOUT_S = 10.0
_POLL_S = 0.05


class LiveRun:
    """One run, alive or ended. Made by `open_run` and `attach_run`."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths

    @property
    def run_id(self) -> str:
        return self.paths.folder.name

    @property
    def is_alive(self) -> bool:
        """True if a supervisor holds the run right now."""
        return is_run_alive(self.paths)

    # --- reading -----------------------------------------------------------------------------

    async def events(self, *, after: int | None = 0) -> AsyncGenerator[Event, None]:
        """All events in order, from the record behind number `after` until the run ends.

        Args:
            after: 0 for everything from the run's beginning; None for what happens from now on.

        Close it (`contextlib.aclosing`) if you leave the loop before the run has ended.
        """
        async with open_events(self.paths, after=after) as events:
            while (event := await events.receive()) is not None:
                yield event

    async def view(self) -> RunView:
        """The whole run as it is now: its agents, figures and pending approvals."""
        reply = await self.request(GetSnapshot())
        if not isinstance(reply, Snapshot):
            raise SwarmError("the run answered something else than a snapshot")
        return reply.view

    async def result(self) -> RunCompleted:
        """Wait for the run's end; its status, final answer and usage.

        Raises RunVanished if its supervisor ended without a result.
        """
        completed: RunCompleted | None = None
        async with aclosing(self.events()) as events:
            async for event in events:
                match event:
                    case Recorded(record=record) if isinstance(record.body, RunCompleted):
                        completed = record.body
                    case Recorded(record=record) if isinstance(record.body, RunStarted):
                        completed = None  # a resumed run has several ends
                    case _:
                        pass
        if completed is None:
            raise RunVanished(self.run_id)
        return completed

    # --- steering ----------------------------------------------------------------------------

    async def send(
        self,
        text: str,
        *,
        agent: str = ROOT_PATH,
        wake: bool = True,
        images: Sequence[str | Path] = (),
        input_id: str = "",
    ) -> str:
        """Send input to an agent and return its id. A turn that runs reads it before its end.

        Args:
            text: At most 512 KiB.
            agent: A path, or its last step if only one agent has it.
            wake: Start a turn if none runs; otherwise it is left as mail.
            images: Files that the agent sees with the text.
            input_id: The id that it gets; "": a new one.
        """
        input_id = input_id or new_uuid7()
        files = tuple(_canonical(image) for image in images)
        await self.request(
            SendText(agent=agent, text=text, wake=wake, input_id=input_id, images=files)
        )
        return input_id

    async def ask(
        self, text: str, *, agent: str = ROOT_PATH, images: Sequence[str | Path] = ()
    ) -> TurnResult:
        """Send input to an agent and wait for the end of the turn that reads it."""
        async with open_events(self.paths, after=None) as events:
            input_id = await self.send(text, agent=agent, images=images)
            return await wait_turn(events, input_id)

    async def interrupt(self, agent: str = "", *, keep_commands: bool = False) -> None:
        """Stop the running turn of one agent, or of all if `agent` is empty."""
        await self.request(InterruptAgent(agent=agent, keep_commands=keep_commands))

    async def cancel(self) -> None:
        """End the run: its agents are asked, then killed. Returns when nothing of it is left.

        Does nothing if it has ended. `swarm resume` continues it.
        """
        try:
            await self.request(KillAgent())
        except RunNotAlive:
            return
        await self.wait_ended()

    async def wait_ended(self) -> None:
        """Return when nothing of the run is left; one that is ending ends within its deadlines."""
        while self.is_alive:  # noqa: ASYNC110 - a lock says nothing
            await anyio.sleep(_POLL_S)

    async def kill(self, agent: str) -> None:
        """End an agent and all below it for good."""
        await self.request(KillAgent(agent=agent))

    # --- approvals ---------------------------------------------------------------------------

    async def approvals(self, approval_id: str = "") -> tuple[PendingApproval, ...]:
        """What waits for an answer, oldest first; also what a reviewer denied lately.

        With an id only that one, whole; else an entry may be shortened (`is_short`).
        """
        reply = await self.request(ListApprovals(approval_id=approval_id))
        return reply.entries if isinstance(reply, Approvals) else ()

    async def approve(self, approval_id: str, *, scope: Scope = "once") -> str:
        """Allow an action; the supervisor's words say what was allowed. The first answer counts."""
        return await self._resolve(
            ResolveApproval(approval_id=approval_id, approve=True, scope=scope)
        )

    async def deny(self, approval_id: str, *, reason: str = "", abort: bool = False) -> str:
        """Refuse an action; the model reads the reason. `abort` also ends its turn."""
        denial = ResolveApproval(approval_id=approval_id, approve=False, reason=reason, abort=abort)
        return await self._resolve(denial)

    async def answer(self, approval_id: str, answers: Mapping[str, Sequence[str]]) -> str:
        """Answer a model's questions, by the ids of the questions."""
        given = {question: tuple(words) for question, words in answers.items()}
        return await self._resolve(
            ResolveApproval(approval_id=approval_id, approve=True, answers=given)
        )

    async def _resolve(self, answer: ResolveApproval) -> str:
        reply = await self.request(answer)
        return reply.message if isinstance(reply, Done) else ""

    # --- any request -------------------------------------------------------------------------

    async def request(
        self, request: AnyControl, *, timeout_s: float = REPLY_TIMEOUT_S
    ) -> AnyControlReply:
        """Send any request of `swarm.mailbox.protocol.control` and return the reply.

        Raises RunNotAlive, ControlRequestRefused (RunEnding for input that comes too late),
        MessageTooLarge over 1 MiB, or SwarmError if no answer comes in time.
        """
        body: bytes | None = None
        with anyio.move_on_after(timeout_s):
            body = await self._request(encode_control(request))
        if body is None:
            short = short_id(self.run_id)
            raise SwarmError(f"run {short} did not answer within {timeout_s:g} s")
        try:
            reply: AnyControlReply = decode_control_reply(body)
        except msgspec.DecodeError as error:
            raise SwarmError(f"the run's answer cannot be read: {error}") from error
        if isinstance(reply, Refused):
            raise RunEnding(reply) if reply.run_ends else ControlRequestRefused(reply)
        return reply

    async def _request(self, request: bytes) -> bytes:
        """The reply. A run that is only starting, or about to be gone, has no control socket."""
        while True:
            try:
                return await request_reply(
                    self.paths.control_endpoint, request, lambda: self.is_alive
                )
            except NobodyListens:
                if not self.is_alive:
                    raise RunNotAlive(self.run_id) from None
            await anyio.sleep(_POLL_S)


def _canonical(path: str | Path) -> str:
    return os.path.realpath(path)


async def wait_turn(events: RunEvents, input_id: str) -> TurnResult:
    """Read events until the turn that reads this input has ended."""
    tracker = TurnTracker(input_id)
    while tracker.turn is None:
        event = await events.receive()
        if event is None:
            return TurnResult(status="failed", text="the run ended before the turn did")
        tracker.apply(event)
    return tracker.turn


@asynccontextmanager
async def attach_run(
    run: str | None = None, *, environment: Mapping[str, str] | None = None
) -> AsyncIterator[LiveRun]:
    """Attach to a run by its id, a part of one, or its name; None: the newest.

    The run does not notice when the block is left. A run that has ended can still be read. Raises
    UsageError if no run, or more than one, fits.
    """
    places = find_user_paths(dict(os.environ if environment is None else environment))
    yield LiveRun(paths_of_run(places, find_run(places, run)))
