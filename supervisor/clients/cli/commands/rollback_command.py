"""`swarm rollback`: removes an agent's last turns from its history; can restore files too."""

from collections.abc import Sequence
from functools import partial

import click
import trio

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import ROOT_PATH, short_id
from swarm.mailbox.protocol.control import RollBack, UndoFiles
from swarm.mailbox.protocol.records import ContextRecorded

from ....control_requests.history_requests import describe_rollback
from ....journal.journal import open_journal
from ....journal.journal_reader import read_records
from ....journal.turns import RolledBackHistory, drop_last_turns, fold_turns
from ....parts.undo.snapshots import FileSnapshot, choose_snapshots
from ....runs.paths import RunPaths
from ....runs.run_metadata import is_run_alive, lock_run, read_metadata
from ..base.confirmation import can_ask
from ..base.control_client import send_request_for_message
from ..base.lazy_commands import ColorCommand
from ..base.run_choice import (
    all_projects_option,
    choose_run_to_change,
    split_agent,
    take_run_wanted,
    yes_option,
)
from ..base.undo_questions import ask_about_person_edits, load_file_history
from ..run_setup.click_values import OptionValue
from .journal_commands import find_agent
from .undo_commands import undo_in_ended_run, undo_in_live_run

_MAX_HINTS = 5


@click.command("rollback", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("agent", required=False)
@click.option(
    "--turns", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
    help="How many of its latest turns.",
)  # fmt: skip
@click.option("--files", is_flag=True, help="Put back the files that these turns changed, too.")
@all_projects_option
@yes_option
def rollback(
    run: str | None, agent: str | None, *, turns: int, files: bool, **given: OptionValue
) -> int:
    """Make an agent forget its last turns.

    Without AGENT: the root. Its history becomes what it was before them; the tokens stay spent. It
    must be idle. `swarm resume RUN -p TEXT` continues from there.

    \b
    Example:
      swarm rollback 4f21c0aa --turns 2 --files
    """
    run, agent = split_agent(run, agent)
    wanted = take_run_wanted(run, given)
    if run is None and not (wanted.yes or can_ask()):
        raise UsageError("name the run, or say --yes for the newest one of this project")
    what = f"take back {turns} turns of {agent or ROOT_PATH} of"
    here = choose_run_to_change(wanted, what, live=False)
    read_metadata(here)
    path, agent_id = find_agent(here, agent or ROOT_PATH)
    found = _find_rollback(here, agent_id, turns)
    if is_run_alive(here):
        click.echo(
            send_request_for_message(here.folder.name, RollBack(agent=path, turns=turns)), err=True
        )
    else:
        click.echo(_roll_back_ended(here, (path, agent_id), turns), err=True)
    if not found.dropped:
        return 0
    if files:
        return _restore_files(here, path, found.dropped, yes=wanted.yes)
    changed = _turns_with_changes(here, path, found.dropped)
    if not changed:
        click.echo("no file was changed in them", err=True)
        return 0
    click.echo("files stay as they are; of each turn they can be put back:", err=True)
    for turn in reversed(changed[-_MAX_HINTS:]):
        short = short_id(here.folder.name)
        click.echo(f"  swarm undo {short} {path} --turn {short_id(turn)}", err=True)
    return 0


def _turns_with_changes(here: RunPaths, path: str, turns: Sequence[str]) -> list[str]:
    """Of these turns those that an undo finds something of."""
    known = load_file_history(here).snapshots
    return [turn for turn in turns if choose_snapshots(known, agent=path, turns=(turn,))]


def _find_rollback(here: RunPaths, agent_id: str, turns: int) -> RolledBackHistory:
    found = drop_last_turns(fold_turns(read_records(here, file=agent_id)), turns)
    if not found.turns:
        raise UsageError("this agent has had no turn that could be taken back")
    return found


def _roll_back_ended(here: RunPaths, who: tuple[str, str], turns: int) -> str:
    """Roll back an ended run, which has no supervisor: write its journal here, under its lock."""
    with lock_run(here, "rollback"):
        found = _find_rollback(here, who[1], turns)
        trio.run(partial(_write, here, who, found))
    return describe_rollback(who[0], found)


async def _write(here: RunPaths, who: tuple[str, str], found: RolledBackHistory) -> None:
    async with open_journal(here) as journal:
        body = ContextRecorded(turn_id="", items=found.items, rolled_back=found.turns)
        await journal.commit(body, agent=who[0], file=who[1])


def _restore_files(here: RunPaths, path: str, turns: tuple[str, ...], *, yes: bool) -> int:
    def pick() -> list[FileSnapshot]:
        return choose_snapshots(load_file_history(here).snapshots, agent=path, turns=turns)

    if not pick():
        click.echo("these turns changed no files", err=True)
        return 0
    keep = ask_about_person_edits(here, pick(), yes=yes)
    if is_run_alive(here):
        request = UndoFiles(agent=path, turns=turns, keep=keep)
        return undo_in_live_run(here, request)
    return undo_in_ended_run(here, pick, force=False, keep=keep)
