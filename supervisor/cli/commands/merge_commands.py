"""`swarm merge` and `swarm branch`: bring changes of agents in copies into the project, or git."""

import os
from functools import partial

import click
import trio

from swarm.mailbox.errors import SwarmError, UsageError
from swarm.mailbox.ids import short_id
from swarm.mailbox.protocol.control import MergeChanges
from swarm.mailbox.protocol.merge_records import ChangeDiscarded, MergeBegan, MergeEnded
from swarm.mailbox.protocol.records import FilesChanged

from ...console.safe_text import clean_line
from ...isolation.change_branch import make_branch
from ...isolation.merge_plan import PLAN_LIMIT_S
from ...isolation.merge_service import CopiedWork, MergeReport, WriteRecord
from ...isolation.merge_summary import describe_changes, describe_report
from ...journal.journal import Journal, open_journal
from ...runs.paths import RunPaths
from ...runs.run_metadata import is_run_alive, lock_run, read_metadata
from ..control_client import send_request_for_message
from ..lazy_commands import ColorCommand, OptionValue
from ..run_choice import (
    RunWanted,
    all_projects_option,
    choose_run,
    choose_run_to_change,
    take_run_wanted,
    yes_option,
)

_REPLY_LIMIT_S = 2 * PLAN_LIMIT_S  # of a live run: a plan, and the writes


@click.command("merge", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
@click.option("--check", is_flag=True, help="Only say what would go in and what conflicts.")
@click.option("--discard", is_flag=True, help="Give these changes up instead.")
@all_projects_option
@yes_option
def merge(
    run: str | None,
    agents: tuple[str, ...],
    *,
    check: bool,
    discard: bool,
    **given: OptionValue,
) -> int:
    """Merge what agents changed in their copies into the project.

    Without AGENT: of all agents of the run, in the order in which they ended; else in the order
    given. All of it goes in, or nothing: with a conflict nothing is written and the exit code is 1.
    A merge can be undone: swarm undo RUN --merge N.

    \b
    Examples:
      swarm merge 4f21c0aa --check
      swarm merge 4f21c0aa /root/mason /root/painter
    """
    if run is not None and run.startswith("/"):
        agents, run = (run, *agents), None
    if check:
        given.pop("yes", None)
        here = choose_run(RunWanted(run=run, all_projects=bool(given["all_projects"])))
    elif discard and not agents:
        raise UsageError("name the agents whose changes are to be given up")
    else:
        what = "discard changes of" if discard else "merge the changes of"
        here = choose_run_to_change(take_run_wanted(run, given), what, live=False)
    read_metadata(here)
    names = tuple(_find(here, name) for name in agents)
    if check:
        report = CopiedWork(here).check(names)
        return _report(report, here)
    if is_run_alive(here):
        return _merge_live(here, MergeChanges(agents=names, discard=discard))
    with lock_run(here):
        if discard:
            for change in trio.run(_in_journal, here, partial(_discard, here, names)).changes:
                click.echo(f"given up: {clean_line(change.agent)}", err=True)
            return 0
        report = trio.run(_in_journal, here, partial(_merge, here, names))
    return _report(report, here)


def _merge_live(here: RunPaths, request: MergeChanges) -> int:
    """Have the run's supervisor do it: only one merge happens at a time. Raises SwarmError."""
    try:
        said = send_request_for_message(here.folder.name, request, timeout_s=_REPLY_LIMIT_S)
    except SwarmError:
        if not request.discard:
            _tell_hooks(CopiedWork(here).check(request.agents), here)
        raise
    click.echo(said, err=True)
    return 0


def _report(report: MergeReport, here: RunPaths) -> int:
    """Print what was or would be done; the exit code: 1 if something is in conflict."""
    _print(report, here)
    _tell_hooks(report, here)
    return int(bool(report.plan.conflicts))


def _tell_hooks(report: MergeReport, here: RunPaths) -> None:
    if report.plan.conflicts:
        from ..merge_hooks import run_conflict_hooks  # reads the configuration

        for line in run_conflict_hooks(here.folder.name, report.plan.conflicts):
            click.echo(line, err=True)


def _merge(here: RunPaths, names: tuple[str, ...], write: WriteRecord) -> MergeReport:
    return CopiedWork(here).merge(names, write)


def _discard(here: RunPaths, names: tuple[str, ...], write: WriteRecord) -> MergeReport:
    return MergeReport(changes=CopiedWork(here).discard(names, write))


async def _in_journal(here: RunPaths, work: "partial[MergeReport]") -> MergeReport:
    """Do the work in a thread, with the journal of a run that has no supervisor."""
    async with open_journal(here) as journal:
        try:
            return await trio.to_thread.run_sync(work, partial(_write, journal))
        except SwarmError as error:
            refused = error
    raise refused  # here, since the journal's own tasks would wrap it in a group


def _write(
    journal: Journal,
    body: MergeBegan | MergeEnded | FilesChanged | ChangeDiscarded,
    agent: str,
) -> None:
    trio.from_thread.run(partial(journal.commit, body, agent=agent))


def _print(report: MergeReport, here: RunPaths) -> None:
    for line in describe_report(report, short_id(here.folder.name)):
        click.echo(clean_line(line))


def _find(here: RunPaths, name: str) -> str:
    from .journal_commands import find_agent  # imports Rich, which takes 35 ms

    return find_agent(here, name)[0]


@click.command("branch", cls=ColorCommand)
@click.argument("run")
@click.argument("agent")
@click.argument("name")
def branch(run: str, agent: str, name: str) -> None:
    """Make a git branch of an agent's change.

    It has one commit on top of HEAD: the files of the change as the agent left them. The working
    folder, the index and the present branch stay as they are.

    \b
    Example:
      swarm branch 4f21c0aa /root/mason mason-parser
    """
    here = choose_run(RunWanted(run=run, all_projects=True))
    about = read_metadata(here)
    path = _find(here, agent)
    work = CopiedWork(here)
    copy = next((one for one in work.agents() if one.path == path), None)
    change = work.change_of(copy.agent_id) if copy is not None else None
    if change is None:
        raise UsageError(f"{path} works in no copy; `swarm diff` shows what it changed")
    message = f"{about.title or 'Work of an agent'}\n\nBy {path} of swarm run {about.run_id}."
    commit = make_branch(change, work.store, name, message=message, environment=dict(os.environ))
    for line in describe_changes([change], work.store):
        click.echo(clean_line(line), err=True)
    click.echo(f"{name} {commit}")
