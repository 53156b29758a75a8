"""Questions to a live run over its control socket, for every door that asks one.

Rule: a run that is not alive is an ordinary answer with what to do next, not a time-out.
"""

import os

import msgspec
import trio

from swarm.mailbox.control import NobodyAnswers, ask_control
from swarm.mailbox.errors import SwarmError, UsageError
from swarm.mailbox.ids import short_id
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

from ..about import is_alive
from ..places import Places, RunPlaces, find_places, find_run, run_places
from ..runs import RunSummary

ANSWER_LIMIT_S = 10.0
_FIGURES_LIMIT_S = 1.0


class NotAlive(UsageError):
    """The run has no supervisor that could be asked."""

    def __init__(self, run_id: str) -> None:
        short = short_id(run_id)
        super().__init__(
            f"run {short} is not alive; `swarm show {short}` shows it, "
            f"`swarm resume {short}` goes on with it"
        )


class RunRefused(SwarmError):
    """The supervisor said no; its own words and exit code."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.exit_code = refused.exit_code


def find_live(wanted: str | None) -> RunPlaces:
    """The run that is meant, which must be alive. Raises UsageError, NotAlive."""
    here = find_any(wanted)
    if not is_alive(here):
        raise NotAlive(here.folder.name)
    return here


def find_any(wanted: str | None) -> RunPlaces:
    """The run that is meant: an id, a part of one, or None for the newest. Raises UsageError."""
    places = find_places(dict(os.environ))
    return run_places(places, find_run(places, wanted))


async def ask(
    here: RunPlaces, wish: AnyControl, *, timeout_s: float = ANSWER_LIMIT_S
) -> AnyControlReply:
    """One question. Raises NotAlive, RunRefused, or SwarmError when it does not answer in time."""
    try:
        body = await ask_control(here.control, encode_control(wish), timeout_s=timeout_s)
        reply: AnyControlReply = decode_control_reply(body)
    except NobodyAnswers as error:
        if not is_alive(here):
            raise NotAlive(here.folder.name) from error
        raise SwarmError(
            f"run {short_id(here.folder.name)} did not answer within {timeout_s:g} s"
        ) from error
    except msgspec.DecodeError as error:
        raise SwarmError(f"the run's answer cannot be read: {error}") from error
    if isinstance(reply, Refused):
        raise RunRefused(reply)
    return reply


def tell(wanted: str | None, wish: AnyControl) -> str:
    """Ask and wait; the supervisor's words."""
    reply = trio.run(ask, find_live(wanted), wish)
    return reply.message if isinstance(reply, Done) else ""


async def get_view(here: RunPlaces, *, timeout_s: float = ANSWER_LIMIT_S) -> RunView:
    """The whole run as it is now. Raises as `ask`."""
    reply = await ask(here, GetSnapshot(), timeout_s=timeout_s)
    if not isinstance(reply, Snapshot):
        raise SwarmError("the run answered something else than a snapshot")
    return reply.view


def with_live_figures(places: Places, runs: tuple[RunSummary, ...]) -> tuple[RunSummary, ...]:
    """The running ones with their present figures; one that does not answer stays as it is."""
    found: dict[str, RunView] = {}

    async def look(run: RunSummary) -> None:
        try:
            here = run_places(places, run.run_id)
            found[run.run_id] = await get_view(here, timeout_s=_FIGURES_LIMIT_S)
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
    return msgspec.structs.replace(
        run, agents=live, total_tokens=view.usage.total_tokens, usd=view.usd, title=view.title
    )
