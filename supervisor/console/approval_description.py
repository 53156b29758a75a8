"""Describe a pending approval: one line for a row, several for a panel. Pure.

The input contains text that models wrote; all returned text is cleaned and limited in length.
"""

import shlex
import textwrap
from typing import assert_never

import msgspec

from swarm.mailbox.protocol.approvals import (
    AnyAction,
    ApprovalGrant,
    ApprovalRequest,
    CommandAction,
    ExtraPermissions,
    McpToolAction,
    NetworkAction,
    PatchAction,
    PendingApproval,
    PermissionsAction,
    QuestionsAction,
)
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved, GrantGiven, Reviewed
from swarm.mailbox.protocol.server_sampling import SamplingAction

from .elicitation_description import describe_elicitation, elicitation_lines
from .number_format import render_count, render_span, render_usd
from .record_description import describe_changes, describe_meanings
from .safe_text import clean_block, clean_line, first_line
from .sampling_description import conversation_lines, describe_sampling, sampling_lines

_CAUSES = {
    "untrusted": "the policy asks about every command",
    "dangerous": "it removes files by force",
    "destructive": "it throws away what no later command brings back",
    "escalation": "it would run outside of the sandbox",
    "permissions": "it wants more than the sandbox gives",
    "retry": "the sandbox stopped it; it would run again outside",
    "rule": "a rule file wants it asked",
    "patch": "it would write where the agent may not",
    "commit": "it would write the repository's own data",
    "network": "it would reach a host that is not allowed yet",
    "question": "the model asks",
    "elicitation": "an MCP server asks a person",
    "sampling": "an MCP server asks the agent's model, at the expense of its budget",
    "hook": "a hook wants it to be asked about",
    "mcp_tool": "it would call a tool of an MCP server that may change something or reach out",
}
_MOST_LINES = 12
NO_COPY = "NO copy of all of it can be kept: what is lost is lost for good"
_WIDE = 76  # characters of a script per line


def action_kind(action: AnyAction) -> str:
    """The word for the action in `approval.requested` and in lists."""
    match action:
        case CommandAction():
            return "command"
        case PatchAction():
            return "patch"
        case NetworkAction():
            return "network"
        case McpToolAction():
            return "mcp_tool_call"
        case PermissionsAction():
            return "permissions"
        case QuestionsAction():
            return "questions"
        case ElicitationAction():
            return "elicitation"
        case SamplingAction():
            return "sampling"
        case _:
            assert_never(action)


def describe_action(action: AnyAction) -> str:
    match action:
        case CommandAction():
            text = action.script or shlex.join(action.argv)
        case PatchAction():
            text = describe_changes(action.changes) or ", ".join(action.files[:8])
        case NetworkAction():
            text = f"{action.protocol} {action.host}:{action.port}"
        case McpToolAction():
            text = f"{action.server}.{action.tool} {action.arguments}"
        case PermissionsAction(permissions=permissions):
            text = describe_permissions(permissions)
        case QuestionsAction(questions=questions):
            text = "; ".join(one.question for one in questions)
        case ElicitationAction():
            text = describe_elicitation(action)
        case SamplingAction():
            text = describe_sampling(action)
        case _:
            assert_never(action)
    return clean_line(text, limit=200)


def describe_permissions(permissions: ExtraPermissions) -> str:
    """`write /srv/data; read /etc/x; the network`."""
    parts = [f"write {path}" for path in permissions.write]
    parts += [f"read {path}" for path in permissions.read]
    parts += ["the network"] if permissions.network else []
    return "; ".join(parts) or "nothing"


def can_grant_repeatedly(request: ApprovalRequest) -> bool:
    """True if an approval can be granted for longer than once."""
    if isinstance(request.action, QuestionsAction | ElicitationAction):
        return False
    own_right = isinstance(request.action, PermissionsAction) or request.cause == "commit"
    return own_right or bool(request.keys)


def describe_cause(request: ApprovalRequest) -> str:
    """Why the approval is requested."""
    return _CAUSES[request.cause]


def describe_pending(pending: PendingApproval) -> str:
    """The text in a tree row: what its agent waits for."""
    kind, what = action_kind(pending.request.action), describe_action(pending.request.action)
    if pending.reviewer == "guardian":
        return clean_line(f"reviewed now: {what}")
    is_question = kind in ("questions", "elicitation")
    head = "needs an answer" if is_question else "needs approval"
    return clean_line(f"{head} {pending.approval_id}: {what}")


def approval_detail_lines(request: ApprovalRequest, *, most: int = _MOST_LINES) -> list[str]:
    """Everything that a person should know before answering, below the line of the action.

    Args:
        request: The request.
        most: Maximum lines of a script or a diff; lines left out are counted.
    """
    action = request.action
    if isinstance(action, QuestionsAction):
        return _question_lines(action)
    if isinstance(action, ElicitationAction):
        return elicitation_lines(action)
    lines = [f"why: {describe_cause(request)}", *_preview_lines(request)]
    body: list[str] = []
    if isinstance(action, CommandAction):
        lines.append(f"in {clean_line(action.cwd)}{'' if action.sandboxed else ', no sandbox'}")
        if action.extra is not None:
            lines.append(f"it wants: {clean_line(describe_permissions(action.extra))}")
        if action.parsed_cmd:
            lines.append(f"it only reads: {describe_meanings(action.parsed_cmd)}")
        body = _script_lines(action)
    elif isinstance(action, PatchAction):
        body = _diff_lines(action)
    elif isinstance(action, McpToolAction):
        lines += _mcp_lines(action)
        body = [clean_line(line) for line in textwrap.wrap(action.arguments, _WIDE)]
    elif isinstance(action, SamplingAction):
        lines += sampling_lines(action)
        body = conversation_lines(action)
    elif isinstance(action, NetworkAction) and action.trigger:
        lines.append(f"wanted by: {clean_line(action.trigger)}")
    if request.reason:
        lines.append(f"reason given: {clean_line(request.reason)}")
    if request.retry_reason:
        lines.append(f"before: {clean_line(request.retry_reason)}")
    return lines + _cut(body, most)


def _mcp_lines(action: McpToolAction) -> list[str]:
    """Who offers the tool, and what the server says of it, which nobody has checked."""
    hints = msgspec.to_builtins(action.annotations)
    said = ", ".join(f"{name} {str(value).lower()}" for name, value in hints.items())
    lines = [f"server {action.server}, configured in {clean_line(action.source) or '?'}"]
    lines.append(f"the server says: {said or 'nothing about what it changes'}")
    lines += [clean_line(line, limit=300) for line in action.changed]
    if action.open_world:
        lines.append("its results may hold what strangers wrote")
    if action.description:
        lines.append(f"and describes it: {clean_line(action.description, limit=300)}")
    return lines


def _script_lines(action: CommandAction) -> list[str]:
    """A script that does not fit on one line is shown completely, on several lines."""
    text = clean_block(action.script or shlex.join(action.argv)).strip()
    if "\n" not in text and len(text) <= _WIDE:
        return []
    lines: list[str] = []
    for line in text.split("\n"):
        lines += [f"| {line[at : at + _WIDE]}" for at in range(0, max(len(line), 1), _WIDE)]
    return [line.replace("\t", " ") for line in lines]


def _diff_lines(action: PatchAction) -> list[str]:
    lines: list[str] = []
    for change in action.changes[:8]:
        text = clean_block(change.unified_diff[:8_000]).split("\n")
        lines += [f"| {clean_line(line)}" for line in text if line.strip()]
    return lines


def _question_lines(action: QuestionsAction) -> list[str]:
    lines: list[str] = []
    for question in action.questions:
        lines.append(f"{clean_line(question.id, limit=40)}: {clean_line(question.question)}")
        for number, option in enumerate(question.options, start=1):
            about = f": {clean_line(option.description)}" if option.description else ""
            lines.append(f"  {number}. {clean_line(option.label)}{about}")
    return lines


def _preview_lines(request: ApprovalRequest) -> list[str]:
    preview = request.preview
    if preview is None:
        return []
    lines = [
        f"it would lose: {clean_line(preview.summary)}",
        "a copy is kept, `swarm undo` brings it back" if preview.kept else NO_COPY,
    ]
    lines += [f"  {clean_line(path)}" for path in preview.paths[:6]]
    if preview.count > 6:
        lines.append(f"  and {preview.count - min(len(preview.paths), 6)} more")
    return lines


def _cut(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[:most], f"| … {len(lines) - most} more lines"]


def describe_approval(
    body: ApprovalRequested | ApprovalResolved | GrantGiven | Reviewed,
) -> str:
    """One approval record, for `swarm log`."""
    match body:
        case ApprovalRequested(request=request):
            what = f"{action_kind(request.action)} {describe_action(request.action)}"
            return f"{body.approval_id} asks the {body.reviewer}: {what} ({request.cause})"
        case ApprovalResolved():
            how = f"{body.outcome} by {body.by}"
            how += f", {body.scope}" if body.outcome == "approved" else ""
            return f"{body.approval_id} {how}: {first_line(body.reason)}".rstrip(": ")
        case GrantGiven(grant=grant):
            return f"{'used up' if body.used_up else 'holds'}: {describe_grant(grant)}"
        case Reviewed():
            return describe_review(body)


def describe_grant(grant: ApprovalGrant) -> str:
    """What a grant covers, and for which agents."""
    whom = f"{grant.path} and below" if grant.below else grant.path
    if grant.prefix:
        what = f"commands that begin with {shlex.join(grant.prefix)}"
    elif grant.commits_in:
        what = f"commits in {grant.commits_in}"
    elif grant.permissions is not None:
        what = describe_permissions(grant.permissions)
    else:
        what = "; ".join(grant.keys[:4]) or "nothing"
    times = "" if grant.uses is None else f", {grant.uses} time{'s' if grant.uses != 1 else ''}"
    return clean_line(f"{what}, for {whom}{times}")


def describe_review(body: Reviewed) -> str:
    """One attempt of the reviewer: its outcome, why, and its cost."""
    text = f"{body.approval_id} {body.outcome}"
    text += f", risk {body.risk}" if body.risk else ""
    text += f", authorization {body.authorization}" if body.authorization else ""
    text += f", attempt {body.attempt}" if body.attempt > 1 else ""
    cost = "" if body.usd is None else f", {render_usd(body.usd)}"
    spent = f"{render_span(body.duration_s)}, {render_count(body.usage.total_tokens)} tokens{cost}"
    return f"{text}, {spent}: {first_line(body.rationale)}".rstrip(": ")


def approval_request_lines(body: ApprovalRequested, *, run: str) -> list[str]:
    """The complete request, and the commands that answer it."""
    kind, what = action_kind(body.request.action), describe_action(body.request.action)
    name = clean_line(body.approval_id, limit=20)
    if body.reviewer == "guardian":
        return [f"reviewed, {name}: {kind}: {what}"]
    lines = [f"needs approval {name}: {kind}: {what}", *approval_detail_lines(body.request)]
    if kind == "questions":
        return [*lines, f"answer: swarm approve {run} {name} --answer QUESTION=TEXT"]
    if isinstance(body.request.action, ElicitationAction) and body.request.action.fields:
        lines.append(f"answer: swarm approve {run} {name} --answer FIELD=TEXT")
        return [*lines, f"or: swarm deny {run} {name}"]
    lines.append(f"answer: swarm approve {run} {name}")
    return [*lines, f"or: swarm deny {run} {name} --reason TEXT"]


def describe_resolution(body: ApprovalResolved) -> str:
    """The outcome: `approval a1 approved by person for session`."""
    scope = f" for {body.scope}" if body.outcome == "approved" and body.scope != "once" else ""
    name = clean_line(body.approval_id, limit=20)
    text = f"approval {name} {body.outcome.replace('_', ' ')} by {body.by}{scope}"
    why = first_line(body.reason) if body.outcome != "approved" else ""
    return f"{text}: {why}" if why else text
