"""`swarm merge` and `swarm branch`: bring changes of agents in copies into the project, or git."""

import os
from typing import NamedTuple

import click

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.base.key_wiping import take_keys
from swarm.mailbox.protocol.control import MergeChanges

from ....base.safe_text import clean_block, clean_line
from ....parts.copies.change_branch import make_branch
from ....parts.copies.cut_off_merges import describe_cut_off
from ....parts.copies.ended_merges import merge_ended_run
from ....parts.copies.merge_plan import PLAN_LIMIT_S
from ....parts.copies.merge_service import CopiedWork, MergeReport
from ....parts.copies.merge_summary import describe_changes, describe_report
from ....parts.copies.sandboxed_git import BranchFailed
from ....runs.client_errors import RunNotAlive
from ....runs.paths import RunPaths, find_user_paths
from ....runs.run_metadata import is_run_alive, read_metadata
from ..base.control_client import send_request_for_message
from ..base.lazy_commands import ColorCommand
from ..base.run_choice import (
    RunWanted,
    all_projects_option,
    choose_run,
    choose_run_to_change,
    take_run_wanted,
    yes_option,
)
from ..run_setup.click_values import OptionValue
from ..run_setup.mcp_settings import credential_variables
from ..run_setup.run_settings import key_variables, load_config_here

_REPLY_LIMIT_S = 2 * PLAN_LIMIT_S  # of a live run: a plan, and the writes


class MergeWanted(NamedTuple):
    """What beside a merge is wanted."""

    check: bool  # nothing is written to the project
    command: str | None  # that must succeed first
    branch: str  # "": none


@click.command("merge", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
@click.option("--check", is_flag=True, help="Only say what would go in and what conflicts.")
@click.option("--run", "command", help="First run this in a merged copy; merge if it succeeds.")
@click.option("--into", "branch_name", help="Make this git branch instead of writing the project.")
@click.option("--discard", is_flag=True, help="Give these changes up instead.")
@all_projects_option
@yes_option
def merge(
    run: str | None,
    agents: tuple[str, ...],
    *,
    check: bool,
    command: str | None,
    branch_name: str | None,
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
      swarm merge 4f21c0aa --run "pytest -q"
    """
    if discard and (check or command or branch_name):
        raise UsageError("--discard goes with no other option of a merge")
    wanted = MergeWanted(
        check=check or branch_name is not None, command=command, branch=branch_name or ""
    )
    if run is not None and run.startswith("/"):
        agents, run = (run, *agents), None
    if wanted.check:
        given.pop("yes", None)
        here = choose_run(RunWanted(run=run, all_projects=bool(given["all_projects"])))
    elif discard and not agents:
        raise UsageError("name the agents whose changes are to be given up")
    else:
        what = "discard changes of" if discard else "merge the changes of"
        here = choose_run_to_change(take_run_wanted(run, given), what, live=False)
    read_metadata(here)
    names = tuple(_find(here, name) for name in agents)
    tested = ""
    if wanted.check or wanted.command is not None:
        cut_off = _tell_cut_off(here)
        report = CopiedWork(here).check(names)
        if (code := _report(report, here) or cut_off) or not report.changes:
            return code
        _act_on_plan(here, report, wanted)
        if wanted.check:
            return 0
        names, tested = tuple(change.agent for change in report.changes), report.plan.digest
    request = MergeChanges(agents=names, discard=discard, tested=tested)
    return _merge_live(here, request) if is_run_alive(here) else _merge_ended(here, request)


def _tell_cut_off(here: RunPaths, *, err: bool = False) -> int:
    """Name merges that have not come to their end; the exit code: 1 if there are any."""
    lines = list(describe_cut_off(here))
    for line in lines:
        click.echo(clean_line(line), err=err)
    return int(bool(lines))


def _act_on_plan(here: RunPaths, report: MergeReport, wanted: MergeWanted) -> None:
    """Test it, make the branch. Raises SwarmError: then nothing is merged."""
    if report.changes[0].above and (wanted.command is not None or wanted.branch):
        raise UsageError(
            f"--run and --into are for the project; this goes into {report.plan.target}"
        )
    if wanted.command is not None:
        _try(here, report, wanted.command)
    if wanted.branch:
        _make_merged_branch(here, report, wanted.branch)


def _merge_ended(here: RunPaths, request: MergeChanges) -> int:
    """Do it here: the run has no supervisor."""
    try:
        report = merge_ended_run(here, request)
    except BaseException:  # interrupted, or it could not be written: what is left to do is named
        _tell_cut_off(here, err=True)
        raise
    if request.discard:
        for change in report.changes:
            click.echo(f"given up: {clean_line(change.agent)}", err=True)
        return 0
    return _report(report, here)


def _merge_live(here: RunPaths, request: MergeChanges) -> int:
    """Have the run's supervisor do it: only one merge happens at a time. Raises SwarmError."""
    try:
        said = send_request_for_message(here.folder.name, request, timeout_s=_REPLY_LIMIT_S)
    except RunNotAlive:
        raise
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
        _drop_keys()
        from ..base.merge_hooks import run_conflict_hooks  # reads the configuration

        for line in run_conflict_hooks(here.folder.name, report.plan.conflicts):
            click.echo(line, err=True)


def _drop_keys() -> None:
    """Keys of providers and servers leave the environment: what is started gets none of them."""
    config = load_config_here(lenient=True).config
    take_keys(dict(os.environ), (*key_variables(config), *credential_variables(config)))


def _try(here: RunPaths, report: MergeReport, command: str) -> None:
    """Run the command in the project as the merge would leave it. Raises TrialFailed."""
    from ....parts.copies.merge_trial import Trial, try_merge

    _drop_keys()
    environment = dict(os.environ)
    hidden = find_user_paths(environment).hidden
    trial = Trial(command, report.changes[0].cwd, hidden, environment)

    def show(line: str) -> None:
        click.echo(clean_block(line.rstrip("\n")), err=True)

    try_merge(here, report.plan, CopiedWork(here).store, trial, show)
    click.echo("the command succeeded in the merged copy", err=True)


def _make_merged_branch(here: RunPaths, report: MergeReport, name: str) -> None:
    about = read_metadata(here)
    agents = ", ".join(change.agent for change in report.changes)
    message = f"{about.title or 'Work of agents'}\n\nBy {agents} of swarm run {about.run_id}."
    made = make_branch(
        report.plan.totals,
        report.changes[0].cwd,
        CopiedWork(here).store,
        name,
        message=message,
        environment=dict(os.environ),
    )
    click.echo(f"{name} {made.commit}")


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

    It has the commits that the agent made (--allow-commit), and one more with the rest of its
    files as it left them; without such commits, one commit on top of HEAD. The working folder, the
    index and the present branch stay as they are.

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
    if copy is None or change is None:
        raise UsageError(f"{path} works in no copy; `swarm diff` shows what it changed")
    if copy.above:
        raise UsageError(
            f"{path} worked in a copy of another agent's copy; merge it there first (`swarm merge "
            f"{short_id(about.run_id)} {path}`), and make a branch of that"
        )
    if change.unreadable:
        raise BranchFailed(f"{change.unreadable[0]} cannot be read, so the change is not whole")
    if not change.files:
        raise UsageError(f"{change.agent} has changed no file")
    message = f"{about.title or 'Work of an agent'}\n\nBy {path} of swarm run {about.run_id}."
    edits = [(edit.before, edit.after) for edit in change.edits if edit.after is not None]
    made = make_branch(
        edits,
        change.cwd,
        work.store,
        name,
        message=message,
        environment=dict(os.environ),
        copied=(work.folder, copy),
    )
    for line in describe_changes([change], work.store):
        click.echo(clean_line(line), err=True)
    if made.left_out:
        click.echo(clean_line(f"its commits are not in the branch: {made.left_out}"), err=True)
    if made.commits:
        click.echo(clean_line(f"{made.commits} of its commits are {path}'s own"), err=True)
    click.echo(f"{name} {made.commit}")
