"""Client of a live run's control socket, used by every command that asks a run.

If the run is not alive, the error says so and what to do next, without waiting for a timeout.
"""

import os
from functools import partial

import msgspec
import trio

from swarm.mailbox.base.errors import MailboxError, SwarmError
from swarm.mailbox.delivery.control_channel import NoControlReply, send_control_request
from swarm.mailbox.protocol.control import (
    AnyControl,
    AnyControlReply,
    Done,
    GetSnapshot,
    Refused,
    RunView,
    Snapshot,
    decode_control_reply,
    encode_control,
)

from ....parts.part_lines import describe_waiting
from ....runs.client_errors import ControlRequestRefused, RunNotAlive, RunSilent
from ....runs.paths import RunPaths, UserPaths, find_run, find_user_paths, paths_of_run
from ....runs.run_list import RunSummary
from ....runs.run_metadata import is_run_alive

REPLY_TIMEOUT_S = 10.0
_FIGURES_LIMIT_S = 1.0
_ALIVE_CHECK_INTERVAL_S = 0.5


def resolve_live_run(wanted: str | None) -> RunPaths:
    """Resolve a run that must be alive. Raises UsageError, RunNotAlive."""
    here = resolve_run(wanted)
    if not is_run_alive(here):
        raise RunNotAlive(here.folder.name)
    return here


def resolve_run(wanted: str | None) -> RunPaths:
    """Resolve a run by its id, a part of one, or None for the newest. Raises UsageError."""
    places = find_user_paths(dict(os.environ))
    return paths_of_run(places, find_run(places, wanted))


async def send_request(
    here: RunPaths, request: AnyControl, *, timeout_s: float = REPLY_TIMEOUT_S
) -> AnyControlReply:
    """Send one request and return the reply.

    Raises RunNotAlive, ControlRequestRefused, or SwarmError if there is no answer in time.
    """
    try:
        body = await _send_while_alive(here, encode_control(request), timeout_s)
        reply: AnyControlReply = decode_control_reply(body)
    except NoControlReply as error:
        if not is_run_alive(here):
            raise RunNotAlive(here.folder.name) from error
        raise RunSilent(here.folder.name, timeout_s) from error
    except msgspec.DecodeError as error:
        raise SwarmError(f"the run's answer cannot be read: {error}") from error
    if isinstance(reply, Refused):
        raise ControlRequestRefused(reply)
    return reply


async def _send_while_alive(here: RunPaths, request: bytes, timeout_s: float) -> bytes:
    """Give up once the run has no supervisor any more: one that was killed says nothing.

    Raises RunNotAlive, MailboxError.
    """
    answered: bytes | SwarmError = RunNotAlive(here.folder.name)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_when_gone, here, nursery.cancel_scope)
        try:
            answered = await send_control_request(
                here.control_endpoint, request, timeout_s=timeout_s
            )
        except MailboxError as error:
            answered = error  # not from here, since the nursery would wrap it in a group
        nursery.cancel_scope.cancel()
    if isinstance(answered, bytes):
        return answered
    raise answered


async def _cancel_when_gone(here: RunPaths, waiting: trio.CancelScope) -> None:
    while True:
        await trio.sleep(_ALIVE_CHECK_INTERVAL_S)
        if not is_run_alive(here):
            waiting.cancel()
            return


def send_request_for_message(
    wanted: str | None, request: AnyControl, *, timeout_s: float = REPLY_TIMEOUT_S
) -> str:
    """Send a request, wait, and return the message of the supervisor's reply."""
    work = partial(send_request, timeout_s=timeout_s)
    reply = trio.run(work, resolve_live_run(wanted), request)
    return reply.message if isinstance(reply, Done) else ""


async def fetch_run_view(here: RunPaths, *, timeout_s: float = REPLY_TIMEOUT_S) -> RunView:
    """The whole run as it is now. Raises as `send_request`."""
    reply = await send_request(here, GetSnapshot(), timeout_s=timeout_s)
    if not isinstance(reply, Snapshot):
        raise SwarmError("the run answered something else than a snapshot")
    return reply.view


def with_live_usage(places: UserPaths, runs: tuple[RunSummary, ...]) -> tuple[RunSummary, ...]:
    """Add present figures to the running runs; a run that does not answer is left unchanged."""
    found: dict[str, RunView] = {}

    async def look(run: RunSummary) -> None:
        try:
            here = paths_of_run(places, run.run_id)
            found[run.run_id] = await fetch_run_view(here, timeout_s=_FIGURES_LIMIT_S)
        except SwarmError:
            return

    async def look_at_all() -> None:
        async with trio.open_nursery() as nursery:
            for run in runs:
                if run.state == "running":
                    nursery.start_soon(look, run)

    trio.run(look_at_all)
    return tuple(_with_view(run, found.get(run.run_id)) for run in runs)


def _with_view(run: RunSummary, view: RunView | None) -> RunSummary:
    if view is None:
        return run
    live = sum(agent.state != "ended" for agent in view.agents)
    rests = all(agent.state in {"ended", "suspended"} for agent in view.agents)
    state = "idle" if view.status == "idle" else run.state
    return msgspec.structs.replace(
        run,
        state=state,
        agents=live,
        total_tokens=view.usage.total_tokens,
        usd=view.usd,
        title=view.title,
        waits=describe_waiting(view.parts) if rests else "",
    )
