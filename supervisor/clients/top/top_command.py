"""`swarm top`: the command."""

import os
import sys
import time

import click
import trio

from swarm.mailbox.base.errors import UsageError

from ...runs.paths import find_user_paths
from ..cli.base.lazy_commands import ColorCommand
from ..cli.base.printing import print_json
from ..console.keyboard import has_keys
from ..console.terminal import ColorChoice, decide_color, is_terminal
from ..console.theme import glyphs_for
from ..console.tree_view import RenderedLines
from .top_app import TopApp, row_fields
from .top_rows import TopRow
from .top_runs import TopRuns, read_rows_once
from .top_screen import TopScreen
from .top_view import render_top

_ENDED = 8
_PLAIN_WIDTH, _PLAIN_LINES = 160, 10_000


@click.command("top", cls=ColorCommand)
@click.option("--once", is_flag=True, help="Print the runs once, and leave.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a run, once.")
@click.option(
    "--ended",
    type=click.IntRange(min=0, max=1000),
    default=_ENDED,
    show_default=True,
    metavar="N",
    help="How many of the newest ended runs are shown.",
)
@click.pass_obj
def top(color: ColorChoice, *, once: bool, as_json: bool, ended: int) -> None:
    """All your live runs on one screen, grouped by what they need.

    What waits for you comes first: questions of agents, work that is not merged, runs whose
    supervisor was killed. Keys answer in place, open the tree, the diff or the conversation, send
    words, pause, stop and merge. Without a terminal it prints once.

    \b
    Examples:
      swarm top
      swarm top --json
    """
    places = find_user_paths(dict(os.environ))
    if as_json:
        for fields in row_fields(trio.run(_read_once, ended)):
            print_json(fields)
        return
    is_shown = is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"
    if once or not is_shown:
        _print_once(ended)
        return
    if not has_keys(sys.stdin.fileno()):
        raise UsageError("no keys can be read here; `swarm top --once` prints the runs")
    coloured = decide_color(color, environment=os.environ, is_terminal=True)
    encoding = sys.stdout.encoding or "utf-8"
    screen = TopScreen(sys.stdout.fileno(), coloured=coloured, encoding=encoding)
    runs = TopRuns(places, ended=ended, changed=lambda: app.note_change())
    app = TopApp(runs, screen, glyphs_for(encoding))
    trio.run(app.run)


async def _read_once(ended: int) -> list[TopRow]:
    return await read_rows_once(find_user_paths(dict(os.environ)), ended=ended)


def _print_once(ended: int) -> None:
    rows = trio.run(_read_once, ended)
    width = _PLAIN_WIDTH
    if is_terminal(sys.stdout):
        width = os.get_terminal_size(sys.stdout.fileno()).columns or width
    lines = render_top(
        rows,
        width=width,
        height=_PLAIN_LINES,
        now=time.time(),
        glyphs=glyphs_for(sys.stdout.encoding or "utf-8"),
        foot=[[]],
    )
    click.echo(RenderedLines(lines).text.rstrip())
