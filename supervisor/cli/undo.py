"""`swarm undo`: files as they were before an agent's destructive command."""

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click
import humanize
import trio

from swarm.mailbox.errors import SwarmError, UsageError
from swarm.mailbox.protocol.control import UndoFiles

from ..about import hold_run, is_alive, read_about
from ..keeping.past import Kept, choose, fold_snapshots
from ..places import RunPlaces
from .asking import find_any, tell
from .doors import DoorCommand

if TYPE_CHECKING:
    from ..keeping.undoing import UndoReport


@click.command("undo", cls=DoorCommand)
@click.argument("run", required=False)
@click.argument("agent", required=False)
@click.option("--snapshot", "snapshot_id", default="", help="This one only (see --list).")
@click.option("--list", "only_list", is_flag=True, help="Show what can be undone.")
@click.option("--force", is_flag=True, help="Also over files that others changed since.")
@click.option("--json", "as_json", is_flag=True, help="With --list: one JSON object a line.")
def undo(
    run: str | None,
    agent: str | None,
    snapshot_id: str,
    only_list: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Put files back as they were before an agent threw them away.

    Without AGENT: all that any agent of the run destroyed. What was changed since by others is
    left alone and listed. An undo can be undone too.

    \b
    Example:
      swarm undo --list
      swarm undo 4f21c0aa /root/mason
    """
    here = find_any(run)
    if only_list:
        _list(here, agent or "", as_json=as_json)
        return
    if is_alive(here):
        wish = UndoFiles(agent=agent or "", snapshot_id=snapshot_id, force=force)
        click.echo(tell(here.folder.name, wish), err=True)
        return
    read_about(here)
    click.echo(_undo_ended(here, agent or "", snapshot_id, force=force), err=True)


def _snapshots(here: RunPlaces) -> dict[str, Kept]:
    from ..journal.reading import read_records

    return fold_snapshots(read_records(here, file="run"))


def _list(here: RunPlaces, agent: str, *, as_json: bool) -> None:
    for kept in _snapshots(here).values():
        if agent not in ("", kept.agent):
            continue
        taken = kept.taken
        if as_json:
            line = {
                "snapshot": taken.snapshot_id, "agent": kept.agent, "ts": kept.ts,
                "files": taken.files, "bytes": taken.size_bytes, "call": taken.call_id,
                "undone": kept.undone, "left_out": list(taken.left_out),
            }  # fmt: skip
            click.echo(json.dumps(line))
            continue
        size = humanize.naturalsize(taken.size_bytes, binary=True)
        mark = "  undone" if kept.undone else "" if taken.call_id else "  taken by an undo"
        click.echo(f"{taken.snapshot_id}  {kept.agent}  {taken.files} files, {size}{mark}")


def _undo_ended(here: RunPlaces, agent: str, snapshot_id: str, *, force: bool) -> str:
    """The supervisor is gone, so we write its journal, under its lock."""
    from ..keeping.keeping import describe_report

    with hold_run(here):
        chosen = choose(_snapshots(here), agent=agent, snapshot_id=snapshot_id)
        if not chosen:
            raise UsageError(
                "there is nothing to undo; `swarm undo RUN --list` shows what there is"
            )
        try:
            return describe_report(trio.run(partial(_put_back, here, chosen, force=force)))
        except (OSError, ValueError) as error:
            raise SwarmError(f"the run's store cannot be read: {error}") from error


async def _put_back(here: RunPlaces, chosen: Sequence[Kept], *, force: bool) -> "UndoReport":
    from ..journal.files import repair_tail
    from ..journal.reading import last_seq
    from ..journal.rollout import open_journal
    from ..keeping.store import Store
    from ..keeping.undoing import SnapshotRecord
    from ..keeping.undoing import undo as put_back

    for file in here.journal.glob("*.jsonl"):
        repair_tail(file)
    async with open_journal(here, last_seq=last_seq(here)) as journal:

        def note(body: SnapshotRecord, path: str) -> None:
            trio.from_thread.run_sync(partial(journal.write, body, agent=path))

        work = partial(put_back, chosen, Store(here.kept), note, force=force)
        return await trio.to_thread.run_sync(work)
