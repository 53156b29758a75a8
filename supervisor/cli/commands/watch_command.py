"""`swarm watch`: the live tree of a run in another terminal. Read-only; does not affect the run."""

import os
import signal
import sys
import time

import click
import msgspec
import trio

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.feed import FeedReader, open_feed_reader
from swarm.mailbox.protocol.control import Recorded, RunView, decode_feed
from swarm.mailbox.protocol.records import RunCompleted

from ...console.run_state import RunState
from ...console.terminal import choose_display, is_terminal, make_console
from ...console.tree_view import render_final
from ...journal.journal_reader import read_records
from ...run_display import RunDisplay
from ...runs.paths import RunPaths
from ...runs.run_metadata import is_run_alive
from ..control_client import fetch_run_view, resolve_run
from ..lazy_commands import ColorCommand
from ..printing import print_json
from ..run_execution import color_choice

_STDIN = 0
_JOIN_LIMIT_S = 5.0
_ALIVE_CHECK_INTERVAL_S = 1.0


@click.command("watch", cls=ColorCommand)
@click.argument("run", required=False)
@click.option("--plain", is_flag=True, help="Appended lines instead of the live tree.")
@click.option("--json", "as_json", is_flag=True, help="Print one snapshot as JSON and leave.")
@click.pass_obj
def watch(color: str, run: str | None, plain: bool, as_json: bool) -> None:
    """Watch a run: the live tree of its agents.

    Without RUN the newest one. It is read-only; Ctrl-C or q ends the watching, not the run.
    On a terminal: up and down select an agent, Enter shows its transcript, Esc goes back, s sorts.

    \b
    Example:
      swarm watch 4f21c0aa
    """
    here = resolve_run(run)
    if not is_run_alive(here):
        if as_json:
            print_json(load_run_view(here))
        else:
            print_tree(load_run_view(here), color)
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
        trio.run(_watch, here, make_watch_display(color, live=kind == "live"))
    except* KeyboardInterrupt:
        pass


def load_run_view(here: RunPaths) -> RunView:
    """A run as recorded in its journal. Raises SwarmError if it cannot be read."""
    state = RunState()
    for record in read_records(here):
        state.apply(Recorded(record=record))
    view = state.view()
    if not is_run_alive(here) and view.status == "running":
        view = msgspec.structs.replace(view, status="stopped")
    return view


def print_tree(view: RunView, color: str) -> None:
    """Print a run's tree once on stdout."""
    console = make_console(sys.stdout, environment=os.environ, color=color_choice(color))
    if not is_terminal(sys.stdout):
        click.echo(render_final(view, width=console.width, height=10_000, now=time.time()).text)
        return
    console.print(
        render_final(view, width=console.width, height=max(console.height - 2, 8), now=time.time())
    )


def make_watch_display(color: str, *, live: bool) -> RunDisplay:
    """A display for watching; it prints no answer at the end."""
    if live:
        from ...console.live_display import LiveDisplay

        return LiveDisplay(
            sys.stderr,
            sys.stdout,
            environment=os.environ,
            color=color_choice(color),
            with_answer=False,
        )
    from ...console.plain_display import PlainDisplay

    return PlainDisplay(sys.stderr, sys.stdout, with_answer=False)


class _WatchedRun:
    """The folded run; replaced as a whole when the feed has a gap."""

    def __init__(self) -> None:
        self.state = RunState()
        self.completed: RunCompleted | None = None

    def current(self) -> RunView:
        return self.state.view()


async def _watch(here: RunPaths, view: RunDisplay) -> None:
    """Subscribe to the feed, fetch the snapshot, follow until the run ends or the person leaves."""
    watched = _WatchedRun()
    async with open_feed_reader(here.feed_endpoint) as reader, trio.open_nursery() as nursery:
        number = -1
        with trio.move_on_after(_JOIN_LIMIT_S):
            number = await reader.wait_joined()
        if number < 0:
            raise SwarmError("the run does not publish what happens in it")
        watched.state = RunState.from_view(await fetch_run_view(here))
        _open_keys(here, view, nursery.cancel_scope)
        nursery.start_soon(view.draw, watched.current)
        nursery.start_soon(_end_when_run_dies, here, nursery.cancel_scope)
        nursery.start_soon(_end_on_signal, nursery.cancel_scope)
        await _follow(here, reader, number, watched, view)
        nursery.cancel_scope.cancel()
    if watched.completed is not None:
        view.finish(watched.completed)


async def _follow(
    here: RunPaths, reader: FeedReader, number: int, watched: _WatchedRun, view: RunDisplay
) -> None:
    while True:
        arrived, body = await reader.receive()
        if arrived != number + 1:
            watched.state = RunState.from_view(await fetch_run_view(here))
        number = arrived
        try:
            feed = decode_feed(body)
        except msgspec.DecodeError:
            continue  # from a newer supervisor; the snapshot contains its effect
        watched.state.apply(feed)
        view.on_feed(feed)
        if isinstance(feed, Recorded) and isinstance(feed.record.body, RunCompleted):
            watched.completed = feed.record.body
            return


def _open_keys(here: RunPaths, view: RunDisplay, scope: trio.CancelScope) -> None:
    """Read keys only from a terminal in whose foreground this process is."""
    from ...console.keyboard import can_read_keys
    from ...console.live_display import LiveDisplay

    if isinstance(view, LiveDisplay) and can_read_keys(_STDIN):
        from ..display_keyboard import attach_keyboard

        attach_keyboard(here, view, may_leave=True, on_leave=scope.cancel)


async def _end_on_signal(scope: trio.CancelScope) -> None:
    """End on a signal in a way that restores the terminal."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP) as signals:
        async for _ in signals:
            scope.cancel()


async def _end_when_run_dies(here: RunPaths, scope: trio.CancelScope) -> None:
    """A killed supervisor sends nothing, but its lock is then free."""
    was_alive = True
    while was_alive:
        was_alive = is_run_alive(here)
        await trio.sleep(
            _ALIVE_CHECK_INTERVAL_S
        )  # also at the end: the last messages may still be on their way
    scope.cancel()
