"""`swarm ps`, `rm`, `prune`, `name`, `archive`, `export`: list, delete, label and pack up runs."""

import os
import time
from pathlib import Path

import click
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import RunId, short_id

from ....base.number_format import render_age, render_bytes, render_count, render_usd
from ....base.safe_text import clean_line
from ....runs.paths import RunPaths, UserPaths, find_run, find_user_paths, paths_of_run
from ....runs.run_list import (
    RunFilter,
    RunSummary,
    choose_runs_to_prune,
    list_runs,
    remove_run,
    summarize,
)
from ....runs.run_metadata import check_run_name, read_label, read_metadata, write_label
from ..base.confirmation import can_ask, confirm
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns, print_json
from ..base.removal_reasons import Removal, plan_removal

_MOST_NAMED = 3  # files of a merge, in one row


@click.command("ps", cls=ColorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a run.")
@click.option("--all", "with_archived", is_flag=True, help="Also archived runs.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@click.option("--before", metavar="RUN", help="Only runs older than this one.")
def ps(as_json: bool, *, with_archived: bool, limit: int | None, before: str | None) -> None:
    """List runs: id, state, agents, tokens, cost, age, size and task.

    A run whose process died unexpectedly is "stopped"; `swarm resume` continues it. Work of agents
    in copies that is not merged is named before the task.

    \b
    Example:
      swarm ps
      swarm ps --limit 20 --before 4f21c0aa
    """
    places = find_user_paths(dict(os.environ))
    older = None if before is None else find_run(places, before)
    wanted = RunFilter(with_archived=with_archived, limit=limit, before=older)
    runs = list_runs(places, wanted)
    if any(run.state == "running" for run in runs):
        from ..base.control_client import with_live_usage

        runs = with_live_usage(places, runs)
    runs = tuple(_with_unmerged(places, run) for run in runs)
    if as_json:
        for run in runs:
            print_json(run_fields(run))
        return
    if not runs:
        click.echo("swarm: there is no run yet; start one with `swarm run TASK.md`", err=True)
    now = time.time()
    rows = [_row(run, now) for run in runs]
    head = ("RUN", "STATE", "AGENTS", "TOKENS", "COST", "AGE", "SIZE", "TASK")
    print_columns(head, rows, right="AGENTS TOKENS COST AGE SIZE", fits=True)


def _with_unmerged(places: UserPaths, run: RunSummary) -> RunSummary:
    """With the work that waits in copies, for the few ended runs that have copies."""
    if run.state == "running" or not paths_of_run(places, run.run_id).copies.is_dir():
        return run
    from ....parts.copies.held_work import describe_unmerged

    unmerged = describe_unmerged(paths_of_run(places, run.run_id))
    return msgspec.structs.replace(run, unmerged=unmerged)


def run_fields(run: RunSummary) -> dict[str, object]:
    """All fields, including those with default values: scripts read them."""
    fields: dict[str, object] = {name: getattr(run, name) for name in run.__struct_fields__}
    if run.unfinished_merge is None:
        del fields["unfinished_merge"]
    return {**fields, "short_id": short_id(run.run_id)}


def _row(run: RunSummary, now: float) -> tuple[str, ...]:
    return (
        short_id(run.run_id),
        run.state,
        str(run.agents or "-"),
        render_count(run.total_tokens),
        "-" if run.usd is None else render_usd(run.usd),
        render_age(now - run.started) if run.started else "-",
        render_bytes(run.size_bytes),
        _describe_task(run),
    )


def _describe_task(run: RunSummary) -> str:
    text = run.title or run.task or run.note
    if (merge := run.unfinished_merge) is not None:
        files = "1 file" if merge.count == 1 else f"{merge.count} files"
        names = [path.removeprefix(f"{run.cwd}/") for path in merge.paths[:_MOST_NAMED]]
        some = ", ".join((*names, *["…"] * (merge.count > _MOST_NAMED)))
        text = f"(a merge was cut off: {files}, {some}) {text}"
    if run.waits:
        text = f"({run.waits}) {text}"
    if run.unmerged:
        text = f"(not merged: {run.unmerged}) {text}"
    if run.forked_from:
        text = f"(fork of {short_id(run.forked_from)}) {text}"
    return f"{run.name}: {text}" if run.name else text


_yes = click.option("--yes", "-y", is_flag=True, help="Ask nothing.")
_dry_run = click.option("--dry-run", is_flag=True, help="Say what would go; delete nothing.")
_force = click.option("--force", is_flag=True, help="Also with unmerged work of agents.")


@click.command("rm", cls=ColorCommand)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@_force
@_yes
@_dry_run
def rm(runs: tuple[str, ...], *, force: bool, yes: bool, dry_run: bool) -> None:
    """Delete runs that have ended.

    What `swarm undo` needs of them goes, too. On a terminal it shows the list and asks. One with a
    name or an unanswered question goes only by its id. One with work of agents in copies that is
    not merged is left, and the command fails.

    \b
    Example:
      swarm rm 4f21c0aa
    """
    places = find_user_paths(dict(os.environ))
    chosen: dict[RunId, Removal] = {}
    for wanted in runs:
        run_id = find_run(places, wanted, broken=True)
        here = paths_of_run(places, run_id)
        removal = plan_removal(summarize(here, with_size=True), here)
        if not force and removal.unmerged:
            raise UsageError(f"{removal.unmerged}; --force deletes it all the same")
        if removal.reasons and wanted not in {run_id, short_id(run_id)}:
            short = short_id(run_id)
            raise UsageError(
                f"{wanted!r} is the run {short}, and {removal.reasons[0]}; to delete it all the "
                f"same, give its id: swarm rm {short}"
            )
        chosen[run_id] = removal
    if can_ask() and not dry_run:
        _confirm(list(chosen.values()), yes=yes)
    for run_id in chosen:
        if not dry_run:
            remove_run(places, run_id)
        click.echo(f"{'would delete' if dry_run else 'deleted'} {short_id(run_id)}")


@click.command("prune", cls=ColorCommand)
@click.option("--older", metavar="SPAN", help="Only runs that ended longer ago, e.g. 30d.")
@click.option("--keep", type=click.IntRange(min=0), default=20, show_default=True, metavar="N")
@_dry_run
@_force
@_yes
def prune(older: str | None, keep: int, *, dry_run: bool, force: bool, yes: bool) -> None:
    """Delete old runs and keep the newest.

    It shows the list and asks; scripts say --yes. A run that has a name, an unanswered question or
    work of agents in copies that is not merged is left and named: `swarm rm ID` deletes it.

    \b
    Example:
      swarm prune --older 30d --keep 20
    """
    from swarm.mailbox.base.quantities import parse_option  # `ps` loads nothing of settings

    places = find_user_paths(dict(os.environ))
    older_s = None if older is None else parse_option("--older", older)
    old = choose_runs_to_prune(list_runs(places), older_s=older_s, keep=keep)
    planned = [plan_removal(run, paths_of_run(places, run.run_id)) for run in old]
    chosen = [one for one in planned if not _is_kept(one, force=force)]
    if chosen and not dry_run:
        _confirm(chosen, yes=yes)
    freed = [_prune_run(places, one.run, dry_run=dry_run) for one in chosen]
    done = [size for size in freed if size is not None]
    count = f"{len(done)} run{'' if len(done) == 1 else 's'}"
    click.echo(f"{count}, {render_bytes(sum(done))}", err=True)


def _is_kept(removal: Removal, *, force: bool) -> bool:
    """True for a run that `prune` leaves; says why."""
    short = short_id(removal.run.run_id)
    if removal.reasons:
        why = f"run {short} stays: {' and '.join(removal.reasons)}; swarm rm {short} deletes it"
    elif removal.unmerged and not force:
        why = f"{removal.unmerged}; --force deletes it all the same"
    else:
        return False
    click.echo(f"swarm: {clean_line(why)}", err=True)
    return True


def _confirm(chosen: list[Removal], *, yes: bool) -> None:
    """Show the list and ask. Raises NotConfirmed or UsageError."""
    size = render_bytes(sum(one.run.size_bytes for one in chosen))
    what = "this run" if len(chosen) == 1 else f"these {len(chosen)} runs"
    question = f"Delete {what} ({size}) and what `swarm undo` needs of them?"
    now = time.time()
    confirm(question, yes=yes, details=[one.describe(now) for one in chosen])


def _prune_run(places: UserPaths, run: RunSummary, *, dry_run: bool) -> int | None:
    """The bytes that it frees; None if it stays after all."""
    if not dry_run:
        try:
            remove_run(places, run.run_id)
        except UsageError as error:  # it was resumed in the meantime
            click.echo(f"swarm: {error}", err=True)
            return None
    click.echo(f"{'would delete' if dry_run else 'deleted'} {short_id(run.run_id)}")
    return run.size_bytes


@click.command("name", cls=ColorCommand)
@click.argument("run")
@click.argument("name", required=False)
def name(run: str, name: str | None) -> None:
    """Give a run a name, or remove it.

    Every command that takes a run's id also takes its name. Without NAME the name is removed.

    \b
    Example:
      swarm name 4f21c0aa "parser rewrite"
    """
    here = _find(run)
    wanted = check_run_name(name or "")
    write_label(here, msgspec.structs.replace(read_label(here), name=wanted))
    change = f"is called {wanted!r}" if wanted else "has no name"
    click.echo(f"{short_id(here.folder.name)} {change}", err=True)


def _find(wanted: str) -> RunPaths:
    places = find_user_paths(dict(os.environ))
    here = paths_of_run(places, find_run(places, wanted))
    read_metadata(here)
    return here


@click.command("archive", cls=ColorCommand)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--undo", is_flag=True, help="Bring them back into the list.")
def archive(runs: tuple[str, ...], *, undo: bool) -> None:
    """Archive runs: they are kept, and left out of lists.

    `swarm ps --all` shows them, `swarm prune` leaves them alone.

    \b
    Example:
      swarm archive 4f21c0aa
    """
    places = find_user_paths(dict(os.environ))
    for run_id in [find_run(places, wanted) for wanted in runs]:
        here = paths_of_run(places, run_id)
        read_metadata(here)
        write_label(here, msgspec.structs.replace(read_label(here), archived=not undo))
        click.echo(f"{'back in the list' if undo else 'archived'}: {short_id(run_id)}", err=True)


@click.command("export", cls=ColorCommand)
@click.argument("run")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
def export(run: str, file: Path, *, force: bool) -> None:
    """Write a run's records into a redacted archive (.tar.gz).

    It has the journal and settings. What is or looks like a secret is removed from each line, also
    the values of present variables whose names suggest a secret. Copies of files and images are not
    included. The journal has what agents read of your project: check it before you pass it on.

    \b
    Example:
      swarm export 4f21c0aa run.tar.gz
    """
    from swarm.mailbox.base.redact import Redactor

    from ....runs.run_export import export_run, secret_values

    redactor = Redactor(secret_values(os.environ))
    done = export_run(_find(run), file, redactor=redactor, force=force)
    click.echo(
        f"{file}: {done.files} files, {done.lines} lines, {render_bytes(done.size_bytes)}; "
        f"secrets hidden in {done.redacted} lines",
        err=True,
    )
