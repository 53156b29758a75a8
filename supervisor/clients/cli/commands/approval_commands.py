"""`swarm approvals`, `approve`, `deny`: list open approvals and send a person's answer.

The confirmation comes from the supervisor after it has journaled the answer; nothing is assumed
here.
"""

import shutil
import time

import click
import msgspec
import trio
from msgspec.structs import replace

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.approvals import McpToolAction, PendingApproval, Scope
from swarm.mailbox.protocol.control import Approvals, Done, ListApprovals, ResolveApproval
from swarm.mailbox.protocol.elicitation import ElicitationAction

from ....base.number_format import render_age
from ....base.safe_text import clean_line, exact_head, exact_line
from ....runs.paths import RunPaths
from ....views.approval_description import (
    action_kind,
    approval_detail_lines,
    can_grant_repeatedly,
    describe_action,
)
from ...console.line_folding import fold_lines
from ..base.confirmation import can_ask, confirm
from ..base.control_client import send_request
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_json
from ..base.run_choice import (
    RunWanted,
    all_projects_option,
    choose_live_run,
    choose_run_to_change,
    take_run_wanted,
    yes_option,
)
from ..base.typed_answers import MAX_CHARS, parse_answers
from ..run_setup.click_values import OptionValue

_WIDE = 100  # cells of a line where no terminal says how many it has


@click.command("approvals", cls=ColorCommand)
@click.argument("run", required=False)
@click.option("--last", is_flag=True, help="The newest run, as without RUN.")
@click.option("--json", "as_json", is_flag=True, help="One entry a line as JSON.")
@all_projects_option
def approvals(run: str | None, *, last: bool, as_json: bool, all_projects: bool) -> None:
    """List what waits for an approval, and what a reviewer denied lately.

    Without RUN the one of this project that is alive.

    \b
    Example:
      swarm approvals 4f21c0aa
    """
    here = choose_live_run(RunWanted(run=_run_or_last(run, last), all_projects=all_projects))
    entries = _list(here)
    if as_json:
        for entry in entries:
            print_json(entry)
        return
    waiting = [entry for entry in entries if not entry.denied]
    denied = [entry for entry in entries if entry.denied]
    name = short_id(here.folder.name)
    if not waiting:
        click.echo("nothing waits for an approval")
    for entry in waiting:
        click.echo("\n".join(_approval_lines(entry)))
    if denied:
        click.echo("denied by the reviewer; `swarm approve` allows exactly that once:")
        for entry in denied:
            click.echo("\n".join(_approval_lines(entry)))
    if waiting or denied:
        first = (waiting or denied)[0].approval_id
        click.echo(f"answer: swarm approve {name} {first}, or swarm deny {name} {first}", err=True)


@click.command("approve", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("approval", metavar="ID", required=False)
@click.option("--last", is_flag=True, help="The newest run; then only ID is given.")
@click.option("--session", is_flag=True, help="The same again too, for this agent.")
@click.option("--subtree", is_flag=True, help="The same again too, for it and all below it.")
@click.option("--always", is_flag=True, help="Save the proposed rule in your rules/default.rules.")
@click.option(
    "--answer", "answers", multiple=True, metavar="QUESTION=TEXT",
    help="To a question or a form's field, by its name; repeat for several.",
)  # fmt: skip
@all_projects_option
@yes_option
def approve(
    run: str | None,
    approval: str | None,
    *,
    last: bool,
    answers: tuple[str, ...],
    **given: OptionValue,
) -> None:
    """Approve what an agent of a live run waits for.

    All of it is shown first. A terminal is then asked once more; --yes does not ask. Without RUN:
    the run of this project that is alive. ID as `swarm approvals` shows it, or its beginning.

    \b
    Examples:
      swarm approve 4f21c0aa a3
      swarm approve 4f21c0aa a4 --answer colour=green
    """
    wanted = take_run_wanted(run, given)
    chosen = [name for name, values in given.items() if values]
    if len(chosen) > 1:
        raise UsageError("give one of --session, --subtree and --always")
    here, approval_id = _find_approval(wanted, approval, last=last)
    scope = msgspec.convert(chosen[0] if chosen else "once", Scope)
    if not answers:
        approval_id = _show_before_yes(here, approval_id, yes=wanted.yes)
    _send_resolution(here, ResolveApproval(
        approval_id=approval_id, approve=True, scope=scope, answers=parse_answers(answers)
    ))  # fmt: skip


@click.command("deny", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("approval", metavar="ID", required=False)
@click.option("--last", is_flag=True, help="The newest run; then only ID is given.")
@click.option("--reason", default="", metavar="TEXT", help="Told to the agent.")
@click.option("--abort", is_flag=True, help="End the agent's turn too; dismiss a server's form.")
@all_projects_option
@yes_option
def deny(
    run: str | None,
    approval: str | None,
    *,
    last: bool,
    reason: str,
    abort: bool,
    **given: OptionValue,
) -> None:
    """Deny what an agent of a live run waits for.

    Without RUN: the run of this project that is alive. ID as `swarm approvals` shows it, or its
    beginning.

    \b
    Example:
      swarm deny 4f21c0aa a3 --reason "Use the test database."
    """
    if len(reason) > MAX_CHARS:
        raise UsageError(f"the reason is over {MAX_CHARS} characters")
    wanted = take_run_wanted(run, given)
    here, approval_id = _find_approval(wanted, approval, last=last)
    _send_resolution(here, ResolveApproval(
        approval_id=approval_id, approve=False, reason=reason, abort=abort
    ))  # fmt: skip


def _run_or_last(run: str | None, last: bool) -> str | None:
    if last and run is not None:
        raise UsageError("give a run or --last, not both")
    return run


def _find_approval(wanted: RunWanted, approval: str | None, *, last: bool) -> tuple[RunPaths, str]:
    """Find run and approval. A single argument is the approval's id, in the run of this project."""
    if wanted.run is None:
        raise UsageError("say which: swarm approve RUN ID; `swarm approvals` lists them")
    if approval is None:
        here = choose_run_to_change(replace(wanted, run=None), f"answer {wanted.run} of")
        return here, wanted.run
    _run_or_last(wanted.run, last)
    return choose_live_run(wanted), approval


def _list(here: RunPaths) -> tuple[PendingApproval, ...]:
    reply = trio.run(send_request, here, ListApprovals())
    return reply.entries if isinstance(reply, Approvals) else ()


def _show_before_yes(here: RunPaths, approval_id: str, *, yes: bool) -> str:
    """Show all of what a yes would allow, and ask on a terminal; the id of what was shown.

    Raises NotConfirmed. What is not known here is left to the run's own answer.
    """
    wanted = approval_id.strip().lower()
    known = _list(here)
    found = [one for one in known if one.approval_id == wanted]
    found = found or [one for one in known if wanted and one.approval_id.startswith(wanted)]
    if len(found) != 1:
        return approval_id
    for line in _approval_lines(_whole(here, found[0]))[:-1]:
        click.echo(line, err=True)
    if can_ask():
        confirm("Approve exactly this?", yes=yes)
    return found[0].approval_id


def _whole(here: RunPaths, entry: PendingApproval) -> PendingApproval:
    """All of an entry that a list has shortened. Raises SwarmError if it cannot be had."""
    if not entry.is_short:
        return entry
    reply = trio.run(send_request, here, ListApprovals(approval_id=entry.approval_id))
    for whole in reply.entries if isinstance(reply, Approvals) else ():
        return whole
    raise SwarmError(f"{entry.approval_id} cannot be shown whole, so nothing was approved")


def _send_resolution(here: RunPaths, request: ResolveApproval) -> None:
    reply = trio.run(send_request, here, request)
    if isinstance(reply, Done):
        click.echo(clean_line(reply.message), err=True)


def _approval_lines(entry: PendingApproval) -> list[str]:
    request = entry.request
    age = render_age(time.time() - entry.asked_at) if entry.asked_at else ""
    who = exact_line(entry.agent)
    head = f"{entry.approval_id}  {who}  {action_kind(request.action)}  {age}".rstrip()
    lines = [head, f"    {describe_action(request.action)}"]
    if entry.reviewer == "guardian" and not entry.denied:
        lines.append("    the reviewer looks at it; your answer counts if it comes first")
    width = shutil.get_terminal_size((_WIDE, 24)).columns
    details = [f"    {line}" for line in approval_detail_lines(request)]
    lines = fold_lines(lines + details, max(width, _WIDE // 2))
    if entry.is_short:
        lines.append("    it is too long for this list: `swarm approve` shows all of it first")
    if entry.denied:
        lines.append(f"    denied: {clean_line(entry.denied)}")
    else:
        lines.append(f"    {_answer_options(entry)}")
    return lines


def _answer_options(entry: PendingApproval) -> str:
    request = entry.request
    if action_kind(request.action) == "questions":
        return "answer with --answer QUESTION=TEXT"
    if isinstance(request.action, ElicitationAction):
        if not request.action.fields:
            return "`swarm approve` agrees, `swarm deny` declines"
        return "answer with --answer FIELD=TEXT; a field with a default needs none"
    more: list[str] = []
    if can_grant_repeatedly(request):
        more += ["--session", "--subtree"]
    if request.proposed_prefix:
        which = " exactly" if request.proposed_exact else ""
        words = exact_head(" ".join(request.proposed_prefix))
        more.append(f"--always (a rule for{which}: {words})")
    if isinstance(request.action, McpToolAction) and request.action.always:
        more.append(f"--always (saves {exact_head(request.action.always)})")
    return "once, or " + ", ".join(more) if more else "only once"
