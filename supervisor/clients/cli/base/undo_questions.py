"""What a person is asked before an undo: about a run that was not named, and their own edits."""

from collections.abc import Sequence

import click

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import short_id

from ....base.safe_text import exact_line
from ....journal.journal_reader import read_records, run_records
from ....parts.undo.content_store import ContentStore
from ....parts.undo.file_undo import recorded_changes
from ....parts.undo.person_edits import changed_paths, find_long_changes
from ....parts.undo.snapshots import FileSnapshot, FilesPast, fold_files
from ....runs.paths import RunPaths
from .confirmation import can_ask, confirm
from .run_choice import RunWanted


def load_file_history(here: RunPaths) -> FilesPast:
    """What the run's records say about files."""
    return fold_files(run_records(here))


def confirm_undo(here: RunPaths, wanted: RunWanted, chosen: Sequence[FileSnapshot]) -> None:
    """Ask about a run that was not named: show its agents and files. Raises NotConfirmed."""
    if wanted.run is not None or not chosen:
        return
    paths = _paths_of(here, chosen)
    agents = ", ".join(sorted({one.agent for one in chosen}))
    short = short_id(here.folder.name)
    files = "1 file" if len(paths) == 1 else f"{len(paths)} files"
    question = f"Take back what {agents} of run {short} did to {files}?"
    if not (wanted.yes or can_ask()):
        raise UsageError(
            f"name the run ({short}), or say --yes: this takes back what {agents} did to {files}"
        )
    confirm(question, yes=wanted.yes, details=paths)


def ask_about_person_edits(
    here: RunPaths, chosen: Sequence[FileSnapshot], *, yes: bool
) -> tuple[str, ...]:
    """The files that an undo leaves: a person may have changed them, and nobody said yes."""
    if not chosen:
        return ()
    long = find_long_changes(read_records(here))
    paths = _paths_of(here, [one for one in chosen if one.taken.snapshot_id in long])
    if yes or not paths:
        return ()
    click.echo("swarm: changed while a command of an agent ran, perhaps by you:", err=True)
    for line in paths:
        click.echo(f"  {exact_line(line)}", err=True)
    if can_ask() and click.confirm("Take these back too?", default=False, err=True):
        return ()
    return paths


def _paths_of(here: RunPaths, chosen: Sequence[FileSnapshot]) -> tuple[str, ...]:
    try:
        return changed_paths(recorded_changes(chosen, ContentStore(here.file_copies)))
    except (OSError, ValueError) as error:
        raise SwarmError(f"the run's store cannot be read: {error}") from error
