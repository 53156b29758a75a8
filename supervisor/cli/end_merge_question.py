"""After a run on a terminal: asks whether what its agents changed in copies goes in."""

import click

from swarm.mailbox.ids import short_id
from swarm.mailbox.protocol.control import MergeChanges

from ..console.safe_text import clean_line, exact_line
from ..isolation.ended_merges import merge_ended_run
from ..isolation.merge_service import CopiedWork
from ..isolation.merge_summary import describe_end, describe_plan
from ..runs.paths import RunPaths
from .confirmation import can_ask


def ask_to_merge(here: RunPaths) -> None:
    """Show what fits, and merge exactly that after a yes. Raises SwarmError: it went wrong.

    Without an answer, or without a person, all stays as it is: the run's last lines say how it is
    merged later.
    """
    if not can_ask():
        return
    shown = CopiedWork(here).check_clean()
    if not shown.changes:
        return
    for line in describe_plan(shown.plan, shown.changes):
        click.echo(clean_line(line), err=True)
    for change in shown.changes:
        for edit in change.edits:
            click.echo(f"  {exact_line(edit.path)}", err=True)
    try:
        wanted = click.confirm("Merge this into the project?", default=False, err=True)
    except click.Abort:
        wanted = False
    if wanted:
        names = tuple(change.agent for change in shown.changes)
        report = merge_ended_run(here, MergeChanges(agents=names, tested=shown.plan.digest))
        for line in describe_end(report, short_id(here.folder.name)):
            click.echo(clean_line(line), err=True)
