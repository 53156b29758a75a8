"""`swarm watch`: the live tree of a run in another terminal, and its questions."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import click
import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.delivery.feed import FeedReader, open_feed_reader
from swarm.mailbox.protocol.control import Recorded, RunView, decode_feed
from swarm.mailbox.protocol.records import RunCompleted

from ....base.run_display import RunDisplay
from ....journal.journal_reader import read_records
from ....runs.paths import RunPaths
from ....runs.run_metadata import is_run_alive
from ....views.run_state import RunState
from ...console.keyboard import can_read_keys
from ...console.run_summary import SummaryRoom, summary_lines
from ...console.terminal import ColorChoice, choose_display, is_terminal
from ...console.theme import glyphs_for, make_console
from ...console.tree_view import RenderedLines
from ..base.control_client import fetch_run_view
from ..base.lazy_commands import ColorCommand
from ..base.outcome_facts import find_outcome
from ..base.printing import print_json
from ..base.run_choice import RunWanted, all_projects_option, choose_run
from .shown_outcome import find_shown_outcome

_MOST_AGENTS = 100_000  # of an ended run, which is shown whole
_JOIN_LIMIT_S = 5.0
_ALIVE_CHECK_INTERVAL_S = 1.0


@click.command("watch", cls=ColorCommand)
@click.argument("run", required=False)
@click.option("--plain", is_flag=True, help="Appended lines instead of the live tree.")
@click.option("--json", "as_json", is_flag=True, help="Print one snapshot as JSON and leave.")
@all_projects_option
@click.pass_obj
def watch(
    color: ColorChoice, /, run: str | None, *, plain: bool, as_json: bool, all_projects: bool
) -> None:
    """Watch a run: the live tree of its agents.

    Without RUN the newest one of this project. Ctrl-C or q ends the watching, not the run; nothing
    changes the run but your answer to a question, which is asked here, too.
    On a terminal: up and down select an agent, Enter shows its transcript, Esc goes back, s sorts.

    \b
    Example:
      swarm watch 4f21c0aa
    """
    here = choose_run(RunWanted(run=run, all_projects=all_projects))
    if not is_run_alive(here):
        if as_json:
            print_json(load_run_view(here))
        else:
            _show_ended(here, color, plain=plain)
        return
    if as_json:
        print_json(trio.run(fetch_run_view, here))
        return
    kind = choose_display(
        as_json=False,
        plain=plain,
        stdout_is_tty=is_terminal(sys.stdout) and is_terminal(sys.stderr),
        environment=os.environ,
    )
    try:
        trio.run(_watch, here, *_make_display(here, color, live=kind == "live"))
    except* KeyboardInterrupt:
        pass


def load_run_view(here: RunPaths) -> RunView:
    """A run as recorded in its journal, all agents. Raises SwarmError if it cannot be read."""
    state = RunState(keep_ended=_MOST_AGENTS, list_ended=_MOST_AGENTS)
    for record in read_records(here):
        state.apply(Recorded(record=record))
    view = state.view()
    if not is_run_alive(here) and view.status in {"running", "idle"}:
        view = msgspec.structs.replace(view, status="stopped")
    return view


def print_run(here: RunPaths, color: ColorChoice, *, all_agents: bool = False) -> None:
    """What the run came to, or what it does now; on a terminal as much as has room."""
    view = load_run_view(here)
    console = make_console(sys.stdout, environment=os.environ, color=color)
    lines = console.height - 1 if is_terminal(sys.stdout) and not all_agents else 0
    glyphs = glyphs_for(console.encoding)
    room = SummaryRoom(width=console.width, lines=lines, glyphs=glyphs)
    shown = RenderedLines(summary_lines(view, find_shown_outcome(here), room))
    if is_terminal(sys.stdout):
        console.print(shown, end="")
    else:
        click.echo(shown.text)


def _show_ended(here: RunPaths, color: ColorChoice, *, plain: bool) -> None:
    """On a terminal with keys the whole tree, to be unfolded and read until q; then the summary."""
    kind = choose_display(
        as_json=False,
        plain=plain,
        stdout_is_tty=is_terminal(sys.stdout) and is_terminal(sys.stderr),
        environment=os.environ,
    )
    if kind == "live" and can_read_keys(sys.stdin.fileno()):
        with suppress(KeyboardInterrupt):
            trio.run(_browse, here, color)
    print_run(here, color)


async def _browse(here: RunPaths, color: ColorChoice) -> None:
    from .live_controls import make_live_display

    view = load_run_view(here)
    display = make_live_display(here, color=color, watches=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_end_on_signal, nursery.cancel_scope)
        await display.draw(lambda: view)
        nursery.cancel_scope.cancel()


def _make_display(
    here: RunPaths, color: ColorChoice, *, live: bool
) -> tuple[RunDisplay, Callable[[], Awaitable[None]]]:
    """A display for watching, which prints no answer at the end; and what ends when nothing that
    the person reads is open in it.
    """
    if live:
        from .live_controls import make_live_display

        shown = make_live_display(here, color=color, watches=True, asks_person=True)
        return shown, shown.wait_closed
    from ...console.plain_display import PlainDisplay

    find = partial(find_outcome, here)
    plain = PlainDisplay(sys.stderr, sys.stdout, with_answer=False, find_outcome=find)
    return plain, trio.lowlevel.checkpoint


class _WatchedRun:
    """A live run, folded here from its feed; a gap in the feed is filled with a snapshot."""

    def __init__(self, here: RunPaths) -> None:
        self._here = here
        self._state = RunState()
        self.completed: RunCompleted | None = None  # set at the run's end

    async def load(self) -> None:
        self._state = RunState(await fetch_run_view(self._here))

    def current(self) -> RunView:
        return self._state.view()

    async def follow(self, reader: FeedReader, number: int, display: RunDisplay) -> None:
        """Pass the feed on, from the message after this number until the run has ended."""
        while True:
            arrived, body = await reader.receive()
            if arrived != number + 1:
                await self.load()
            number = arrived
            try:
                feed = decode_feed(body)
            except msgspec.DecodeError:
                continue  # from a newer supervisor; the snapshot contains its effect
            self._state.apply(feed)
            display.on_feed(feed)
            if isinstance(feed, Recorded) and isinstance(feed.record.body, RunCompleted):
                self.completed = feed.record.body
                return


async def _watch(
    here: RunPaths, display: RunDisplay, wait_closed: Callable[[], Awaitable[None]]
) -> None:
    """Subscribe to the feed, fetch the snapshot, follow until the run ends or the person leaves."""
    watched = _WatchedRun(here)
    async with open_feed_reader(here.feed_endpoint) as reader, trio.open_nursery() as nursery:
        number = -1
        with trio.move_on_after(_JOIN_LIMIT_S):
            number = await reader.wait_joined()
        if number < 0:
            raise SwarmError("the run does not publish what happens in it")
        await watched.load()
        nursery.start_soon(_draw, display, watched, nursery.cancel_scope)
        nursery.start_soon(_end_when_run_dies, here, watched, nursery.cancel_scope)
        nursery.start_soon(_end_on_signal, nursery.cancel_scope)
        await watched.follow(reader, number, display)
        await wait_closed()  # nobody is thrown out of what they read
        nursery.cancel_scope.cancel()
    if watched.completed is not None:
        display.finish(watched.completed)


async def _draw(display: RunDisplay, watched: _WatchedRun, scope: trio.CancelScope) -> None:
    """Draw until the person leaves the display, which ends the watching."""
    await display.draw(watched.current)
    scope.cancel()


async def _end_on_signal(scope: trio.CancelScope) -> None:
    """End on a signal in a way that restores the terminal."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
        async for _ in signals:
            scope.cancel()


async def _end_when_run_dies(here: RunPaths, watched: _WatchedRun, scope: trio.CancelScope) -> None:
    """A killed supervisor sends nothing, but its lock is then free."""
    was_alive = True
    while was_alive:
        was_alive = is_run_alive(here)
        await trio.sleep(_ALIVE_CHECK_INTERVAL_S)  # also at the end: messages may be on their way
    if watched.completed is None:
        scope.cancel()
