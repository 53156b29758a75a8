"""`swarm rollback`: an agent forgets its last turns; their files come back if that is wanted."""

from functools import partial
from typing import TYPE_CHECKING

import click
import trio

from swarm.mailbox.errors import UsageError
from swarm.mailbox.ids import ROOT_PATH, short_id
from swarm.mailbox.protocol.control import RollBack, UndoFiles

from ..about import hold_run, is_alive, read_about
from ..places import RunPlaces
from .asking import find_any, tell
from .doors import DoorCommand

if TYPE_CHECKING:
    from ..journal.rewind import Rewound
    from ..keeping.past import Kept

_MOST_TOLD = 5


@click.command("rollback", cls=DoorCommand)
@click.argument("run")
@click.argument("agent", required=False)
@click.option(
    "--turns", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
    help="How many of its latest turns.",
)  # fmt: skip
@click.option("--files", is_flag=True, help="Put back the files that these turns changed, too.")
def rollback(run: str, agent: str | None, *, turns: int, files: bool) -> None:
    """Make an agent forget its last turns.

    Without AGENT: the root. Its history is as it was before them; the tokens stay spent. It must be
    at rest. `swarm resume RUN -p TEXT` goes on from there.

    \b
    Example:
      swarm rollback 4f21c0aa --turns 2 --files
    """
    from .reading import find_agent

    here = find_any(run)
    read_about(here)
    path, agent_id = find_agent(here, agent or ROOT_PATH)
    found = _look(here, agent_id, turns)
    if is_alive(here):
        click.echo(tell(here.folder.name, RollBack(agent=path, turns=turns)), err=True)
    else:
        click.echo(_roll_back_ended(here, (path, agent_id), turns), err=True)
    if not found.dropped:
        return
    if files:
        _put_files_back(here, path, found.dropped)
        return
    click.echo("files stay as they are; of each turn they can be put back:", err=True)
    for turn in reversed(found.dropped[-_MOST_TOLD:]):
        short = short_id(here.folder.name)
        click.echo(f"  swarm undo {short} {path} --turn {short_id(turn)}", err=True)


def _look(here: RunPlaces, agent_id: str, turns: int) -> "Rewound":
    from ..journal.reading import read_records
    from ..journal.rewind import fold_turns, rewind

    found = rewind(fold_turns(read_records(here, file=agent_id)), turns)
    if not found.turns:
        raise UsageError("this agent has had no turn that could be taken back")
    return found


def _roll_back_ended(here: RunPlaces, who: tuple[str, str], turns: int) -> str:
    """The supervisor is gone, so we write its journal, under its lock."""
    from ..rewinding import words_of

    with hold_run(here):
        found = _look(here, who[1], turns)
        trio.run(partial(_write, here, who, found))
    return words_of(who[0], found)


async def _write(here: RunPlaces, who: tuple[str, str], found: "Rewound") -> None:
    from swarm.mailbox.protocol.records import ContextRecorded

    from ..journal.reopening import reopen_journal

    async with reopen_journal(here) as journal:
        body = ContextRecorded(turn_id="", items=found.items, rolled_back=found.turns)
        await journal.commit(body, agent=who[0], file=who[1])


def _put_files_back(here: RunPlaces, path: str, turns: tuple[str, ...]) -> None:
    from ..keeping.past import choose
    from .undo import past_files, undo_ended

    def pick() -> "list[Kept]":
        return choose(past_files(here).kept, agent=path, turns=turns)

    if not pick():
        click.echo("these turns changed no files", err=True)
    elif is_alive(here):
        click.echo(tell(here.folder.name, UndoFiles(agent=path, turns=turns)), err=True)
    else:
        click.echo(undo_ended(here, pick, force=False), err=True)
