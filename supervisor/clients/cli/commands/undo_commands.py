"""`swarm undo` and `swarm diff`: undo an agent's file changes, and show them."""

import json
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

import click
import humanize
import trio

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import ROOT_PATH, short_id
from swarm.mailbox.protocol.control import UndoFiles

from ....base.safe_text import clean_block, clean_line
from ....journal.journal import open_journal
from ....journal.journal_reader import read_records, run_records
from ....journal.turns import find_turn, list_turns
from ....parts.copies.cut_off_merges import describe_cut_off
from ....parts.copies.ended_merges import write_from_thread
from ....parts.copies.layer_change import LayerChange
from ....parts.copies.merge_history import fold_merges
from ....parts.copies.merge_service import CopiedWork
from ....parts.undo.content_store import ContentStore
from ....parts.undo.file_undo import (
    STORE_FAILED,
    UndoReport,
    clear_cut_off_undos,
    describe_report,
    recorded_changes,
    undo_locked,
)
from ....parts.undo.net_changes import NetChange, compose_changes, others_of
from ....parts.undo.snapshots import FileSnapshot, FilesPast, choose_snapshots
from ....parts.undo.unified_diff import count_diff, diff_lines
from ....runs.paths import RunPaths
from ....runs.run_metadata import is_run_alive, lock_run, read_metadata
from ..base.control_client import send_request_for_message
from ..base.lazy_commands import ColorCommand
from ..base.run_choice import (
    RunWanted,
    all_projects_option,
    choose_run,
    split_agent,
    take_run_wanted,
    yes_option,
)
from ..base.undo_questions import ask_about_person_edits, confirm_undo, load_file_history
from ..run_setup.click_values import OptionValue

_TURN_HELP = "Only this turn: its number (1, 2, … or -1), its id, or `last`."
_UNDO_LIMIT_S = 120.0  # of a live run's answer: it may wait for another writer first
_NOTHING = "there is nothing to undo; `swarm undo RUN --list` shows what there is"


@click.command("undo", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("agent", required=False)
@click.option("--turn", default="", metavar="TURN", help=_TURN_HELP)
@click.option("--snapshot", "snapshot_id", default="", help="This one only (see --list).")
@click.option("--merge", "merge_wanted", default="", metavar="N", help="This merge only.")
@click.option("--list", "only_list", is_flag=True, help="Show what can be undone.")
@click.option("--force", is_flag=True, help="Also over files that others changed since.")
@click.option("--json", "as_json", is_flag=True, help="With --list: one JSON object a line.")
@all_projects_option
@yes_option
def undo(
    run: str | None,
    agent: str | None,
    *,
    turn: str,
    snapshot_id: str,
    merge_wanted: str,
    only_list: bool,
    force: bool,
    as_json: bool,
    **given: OptionValue,
) -> int:
    """Put files back as they were before an agent's turns.

    Without AGENT: all that any agent of the run changed. Without --turn: of all its turns. What was
    changed since by others is left alone and listed. A file that you may have changed yourself
    while a command of an agent ran is taken back only after a yes. An undo can be undone too. If a
    file cannot be put back the exit code is 1, and the same undo puts it back later.

    \b
    Example:
      swarm undo --list
      swarm undo 4f21c0aa /root/mason --turn last
    """
    run, agent = split_agent(run, agent)
    wanted = take_run_wanted(run, given)
    here = choose_run(wanted)
    read_metadata(here)
    path, turns = _resolve_selection(here, agent, turn)
    if merge_wanted:
        turns = (_find_merge(here, merge_wanted),)
    if only_list:
        _list(load_file_history(here), path, turns, as_json=as_json)
        return 0

    def pick() -> list[FileSnapshot]:
        return choose_snapshots(
            load_file_history(here).snapshots, agent=path, snapshot_id=snapshot_id, turns=turns
        )

    _tell_cut_off(here)
    confirm_undo(here, wanted, pick())
    keep = () if force else ask_about_person_edits(here, pick(), yes=wanted.yes)
    if is_run_alive(here):
        request = UndoFiles(
            agent=path, snapshot_id=snapshot_id, force=force, turns=turns, keep=keep
        )
        return undo_in_live_run(here, request)
    return undo_in_ended_run(here, pick, force=force, keep=keep)


def undo_in_live_run(here: RunPaths, request: UndoFiles) -> int:
    """Have the run's supervisor do it; returns the exit code. Raises SwarmError."""
    said = send_request_for_message(here.folder.name, request, timeout_s=_UNDO_LIMIT_S)
    click.echo(said, err=True)
    return 0


def _tell_cut_off(here: RunPaths) -> None:
    for line in describe_cut_off(here):
        click.echo(f"swarm: {clean_line(line)}", err=True)


@click.command("diff", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("agent", required=False)
@click.option("--turn", default="", metavar="TURN", help=_TURN_HELP)
@click.option("--stat", is_flag=True, help="Only how many lines of which files.")
@all_projects_option
def diff(run: str | None, agent: str | None, *, turn: str, stat: bool, all_projects: bool) -> None:
    """Show what a run's agents changed in files.

    Without AGENT: what all of them changed together in the project, or what the root changed in a
    copy of it (--isolate). For an AGENT that works in a copy: its whole change, compared with the
    project as it was when the agent began. It shows what was recorded, not what is on the disk now;
    what was undone is left out.

    \b
    Example:
      swarm diff 4f21c0aa --stat
      swarm diff 4f21c0aa /root/mason --turn last
    """
    run, agent = split_agent(run, agent)
    here = choose_run(RunWanted(run=run, all_projects=all_projects))
    about = read_metadata(here)
    path, turns = _resolve_selection(here, agent, turn)
    past = load_file_history(here)
    store = ContentStore(here.file_copies)
    change = None if turns else _change_in_copy(here, path or ROOT_PATH)
    if change is not None and (path or change.edits or change.unreadable):
        _show(change.edits, store, change.cwd, stat=stat)
        for unknown in change.unreadable:
            click.echo(f"swarm: cannot be read: {clean_line(unknown)}", err=True)
        return
    chosen = choose_snapshots(past.snapshots, agent=path, turns=turns)
    try:
        edits = compose_changes(recorded_changes(chosen, store))
    except (OSError, ValueError) as error:
        raise SwarmError(f"the run's store cannot be read: {error}") from error
    agents = {one.agent for one in chosen}
    _show(edits, store, about.cwd, stat=stat)
    for text in _warnings(past, edits, agents):
        click.echo(f"swarm: {text}", err=True)


def _change_in_copy(here: RunPaths, path: str) -> LayerChange | None:
    """The whole change of an agent that works in a copy; None: it shares the project."""
    work = CopiedWork(here)
    copy = next((one for one in work.agents() if one.path == path), None)
    return None if copy is None else work.change_of(copy.agent_id)


def _show(edits: Sequence[NetChange], store: ContentStore, cwd: str, *, stat: bool) -> None:
    if not edits:
        click.echo("no file was changed", err=True)
    for line in _stat(edits, store, cwd) if stat else _diff(edits, store, cwd):
        click.echo(line if not sys.stdout.isatty() else clean_block(line).rstrip("\n"))


def _diff(edits: Sequence[NetChange], store: ContentStore, cwd: str) -> Iterator[str]:
    for edit in edits:
        yield from diff_lines(edit, store, cwd)


def _stat(edits: Sequence[NetChange], store: ContentStore, cwd: str) -> Iterator[str]:
    counted = [count_diff(edit, store, cwd) for edit in edits]
    width = max((len(one.path) for one in counted), default=0)
    for one in counted:
        yield f" {one.path:<{width}} | " + (one.words or f"+{one.added} -{one.removed}")
    files = sum(not one.path.endswith("/") for one in counted)
    added, removed = sum(one.added for one in counted), sum(one.removed for one in counted)
    yield f" {_files(files)} changed, +{added} -{removed}"


def _warnings(past: FilesPast, edits: Sequence[NetChange], agents: set[str]) -> Iterator[str]:
    if shared := [edit for edit in edits if others_of(edit, agents)]:
        yield f"{len(shared)} of these may be the work of other agents that worked at the same time"
    if (watched := past.watched) is not None and watched.uncovered_count:
        some = ", ".join(watched.uncovered[:3])
        yield (
            f"changes by commands in {watched.uncovered_count} folders are not known (too many "
            f"files): {some}"
        )


def _resolve_selection(here: RunPaths, agent: str | None, turn: str) -> tuple[str, tuple[str, ...]]:
    """The agent's path ("" for all) and the chosen turn, if any."""
    if agent is None and not turn:
        return "", ()
    from .journal_commands import find_agent  # imports Rich, which takes 35 ms

    path, agent_id = find_agent(here, agent or ROOT_PATH)
    if not turn:
        return path, ()
    found = find_turn(list_turns(read_records(here, file=agent_id)), turn)
    return path, (found.turn_id,)


def _find_merge(here: RunPaths, wanted: str) -> str:
    """The id of a merge, by which its changes are recorded as those of one turn."""
    found = fold_merges(run_records(here)).find(wanted)
    if found is None:
        raise UsageError(f"run {short_id(here.folder.name)} has no merge {wanted}")
    return found.began.merge_id


def _list(past: FilesPast, agent: str, turns: tuple[str, ...], *, as_json: bool) -> None:
    for kept in past.snapshots.values():
        taken = kept.taken
        if agent not in ("", kept.agent) or (turns and taken.turn_id not in turns):
            continue
        if as_json:
            line = {
                "snapshot": taken.snapshot_id, "agent": kept.agent, "ts": kept.ts,
                "files": taken.files, "bytes": taken.size_bytes, "call": taken.call_id,
                "undone": kept.undone, "left_out": list(taken.left_out), "turn": taken.turn_id,
                "kind": "copy" if kept.is_copy else "change",
                "shared_with": list(kept.shared_with),
            }  # fmt: skip
            click.echo(json.dumps(line))
            continue
        click.echo(_line(kept))
    if not as_json:
        for text in _warnings(past, (), set()):
            click.echo(f"swarm: {text}", err=True)


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _line(kept: FileSnapshot) -> str:
    taken = kept.taken
    turn = f"  turn {short_id(taken.turn_id)}" if taken.turn_id else ""
    head = f"{taken.snapshot_id}  {kept.agent}{turn}  {_files(taken.files)}"
    if kept.is_copy:
        size = humanize.naturalsize(taken.size_bytes, binary=True)
        head += f", {size} " + ("removed" if taken.call_id else "taken by an undo")
    else:
        head += " changed"
        if kept.shared_with:
            head += f", perhaps by {', '.join(kept.shared_with[:3])}"
    return f"{head}  undone" if kept.undone else head


def undo_in_ended_run(
    here: RunPaths,
    pick: Callable[[], list[FileSnapshot]],
    *,
    force: bool,
    keep: Collection[str] = (),
) -> int:
    """Undo in an ended run: write its journal here, under its lock, since it has no supervisor.

    Prints what was done; returns the exit code: 1 if a file could not be put back.
    """
    with lock_run(here, "undo"):
        try:
            left = clear_cut_off_undos(load_file_history(here), here)
            chosen = pick()
            if not chosen:
                raise UsageError(_NOTHING)
            report = trio.run(partial(_put_back, here, chosen, force=force, keep=keep))
        except (OSError, ValueError) as error:
            raise SwarmError(f"{STORE_FAILED}: {error}") from error
    for path in left:
        click.echo(f"swarm: left by an undo that was cut off: {clean_line(path)}", err=True)
    click.echo(describe_report(report, here.folder.name), err=True)
    return int(bool(report.failed))


async def _put_back(
    here: RunPaths, chosen: Sequence[FileSnapshot], *, force: bool, keep: Collection[str]
) -> UndoReport:
    async with open_journal(here) as journal:
        note = partial(write_from_thread, journal, trio.lowlevel.current_trio_token())
        work = partial(undo_locked, chosen, here, note, force=force, keep=keep)
        try:
            return await trio.to_thread.run_sync(work)
        except (SwarmError, OSError, ValueError) as error:
            refused = error
    raise refused  # here, since the journal's own tasks would wrap it in a group
