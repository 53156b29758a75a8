"""After a run on a terminal: asks whether what its agents changed in copies goes in."""

from collections.abc import Sequence

import click

from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.control import MergeChanges

from ....base.safe_text import clean_line, exact_line
from ....parts.copies.ended_merges import merge_ended_run
from ....parts.copies.layer_change import LayerChange
from ....parts.copies.merge_service import CopiedWork
from ....parts.copies.merge_summary import describe_end, describe_plan
from ....parts.undo.unified_diff import count_diff, diff_lines
from ....runs.paths import RunPaths
from ..base.confirmation import can_ask

_MOST_NAMED = 40  # files of one agent, above the question


def _is_wanted(work: CopiedWork, changes: Sequence[LayerChange]) -> bool:
    """Ask until there is an answer; `d` shows the diff and asks again."""
    while True:
        try:
            said = click.prompt(
                "Merge this into the project? [y/N, d: show the diff]",
                default="n", show_default=False, err=True,
            )  # fmt: skip
        except click.Abort:
            return False
        match str(said).strip().lower():
            case "d" | "diff":
                _show_diff(work, changes)
            case answer:
                return answer in {"y", "yes"}


def _show_diff(work: CopiedWork, changes: Sequence[LayerChange]) -> None:
    for change in changes:
        click.echo(clean_line(change.agent), err=True)
        for edit in change.edits:
            for line in diff_lines(edit, work.store, change.cwd):
                click.echo(exact_line(line), err=True)


def ask_to_merge(here: RunPaths) -> None:
    """Show what fits, and merge exactly that after a yes. Raises SwarmError: it went wrong.

    Without an answer, or without a person, all stays as it is: the run's last lines say how it is
    merged later.
    """
    if not can_ask():
        return
    work = CopiedWork(here)
    shown = work.check_clean()
    if not shown.changes:
        return
    for line in describe_plan(shown.plan, shown.changes):
        click.echo(clean_line(line), err=True)
    for change in shown.changes:
        for edit in change.edits[:_MOST_NAMED]:
            one = count_diff(edit, work.store, change.cwd)
            sizes = one.words or f"+{one.added} -{one.removed}"
            click.echo(f"  {exact_line(one.path)}  {exact_line(sizes)}", err=True)
        if (more := len(change.edits) - _MOST_NAMED) > 0:
            click.echo(f"  and {more} more: d shows them all", err=True)
    if _is_wanted(work, shown.changes):
        names = tuple(change.agent for change in shown.changes)
        report = merge_ended_run(here, MergeChanges(agents=names, tested=shown.plan.digest))
        for line in describe_end(report, short_id(here.folder.name)):
            click.echo(clean_line(line), err=True)
