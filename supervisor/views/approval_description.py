"""Describe a pending approval: one line for a row, all of it for who answers. Pure.

The input contains text that models wrote. It is shown exactly (`safe_text`): nothing is deleted.
"""

import shlex
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
from swarm.mailbox.protocol.changes import FileChange
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved, GrantGiven, Reviewed
from swarm.mailbox.protocol.server_sampling import SamplingAction

from ..base.number_format import render_count, render_span, render_usd
from ..base.safe_text import clean_line, exact_head, exact_line, exact_lines, first_line
from .elicitation_description import describe_elicitation, elicitation_lines
from .record_description import CHANGE_LETTERS, describe_meanings
from .sampling_description import conversation_lines, describe_sampling, sampling_lines

_CAUSES = {
    "untrusted": "the policy asks about every command",
    "dangerous": "it removes files by force",
    "destructive": "it throws away what no later command can bring back",
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
_MOST_PLAIN_LINES = 100  # of a request among the lines of a run
NO_COPY = "NO copy of all of it can be kept: what is lost is lost for good"


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
    """The action in one line, exact where nothing is missing; a mark counts what is missing."""
    return exact_head(_whole_action(action))


def _whole_action(action: AnyAction) -> str:
    match action:
        case CommandAction():
            return action.script or shlex.join(action.argv)
        case PatchAction(changes=changes):
            return ", ".join(map(_change_title, changes)) or ", ".join(action.files)
        case NetworkAction():
            return f"{action.protocol} {action.host}:{action.port}"
        case McpToolAction():
            return f"{action.server}.{action.tool} {action.arguments}"
        case PermissionsAction(permissions=permissions):
            return describe_permissions(permissions)
        case QuestionsAction(questions=questions):
            return "; ".join(one.question for one in questions)
        case ElicitationAction():
            return describe_elicitation(action)
        case SamplingAction():
            return describe_sampling(action)
        case _:
            assert_never(action)


def _change_title(change: FileChange) -> str:
    """`M one.py → two.py`; the paths are not cleaned."""
    moved = f" → {change.move_path}" if change.move_path else ""
    return f"{CHANGE_LETTERS[change.kind]} {change.path}{moved}"


def describe_permissions(permissions: ExtraPermissions) -> str:
    """`write /srv/data; read /etc/x; the network`. The paths are not cleaned."""
    return "; ".join(_permissions(permissions)) or "nothing"


def _permissions(permissions: ExtraPermissions) -> list[str]:
    parts = [f"write {path}" for path in permissions.write]
    parts += [f"read {path}" for path in permissions.read]
    return [*parts, "the network"] if permissions.network else parts


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


def approval_detail_lines(request: ApprovalRequest) -> list[str]:
    """Everything that a person should know before answering, below the line of the action.

    Nothing is left out: two requests that differ in what a yes covers never have the same lines.
    Lines are as long as what they show; `line_folding` fits them to a screen.
    """
    action = request.action
    if isinstance(action, QuestionsAction):
        return _question_lines(action)
    if isinstance(action, ElicitationAction):
        return elicitation_lines(action)
    lines = [*_preview_lines(request), f"why: {describe_cause(request)}", *_action_lines(action)]
    if request.proposed_prefix:
        rule = " ".join(map(shlex.quote, request.proposed_prefix))
        which = "exactly" if request.proposed_exact else "commands that begin with"
        lines.append(f"always would save a rule for {which}: {exact_line(rule)}")
    if request.reason:
        lines.append(f"reason given: {exact_line(request.reason)}")
    if request.retry_reason:
        lines.append(f"before: {exact_line(request.retry_reason)}")
    return lines + _body_lines(action)


def _action_lines(action: AnyAction) -> list[str]:
    """What is said of an action in lines of their own, above its text."""
    match action:
        case CommandAction():
            return _command_lines(action)
        case PatchAction(files=files, changes=changes):
            named = {path for one in changes for path in (one.path, one.move_path)}
            really = [path for path in files if path not in named]
            return [f"it really writes: {exact_line(path)}" for path in really]
        case McpToolAction():
            return _mcp_lines(action)
        case PermissionsAction(permissions=permissions):
            return [f"it wants to {exact_line(part)}" for part in _permissions(permissions)]
        case SamplingAction():
            return sampling_lines(action)
        case NetworkAction(trigger=trigger) if trigger:
            return [f"host: {exact_line(action.host)}", f"wanted by: {exact_line(trigger)}"]
        case _:
            return []


def _command_lines(action: CommandAction) -> list[str]:
    lines = [f"in {exact_line(action.cwd)}"]
    if action.resolved_cwd:
        lines.append(f"which really is {exact_line(action.resolved_cwd)}")
    lines += [] if action.sandboxed else ["with NO SANDBOX"]
    lines += [f"asked each time: {exact_line(action.unheld)}"] if action.unheld else []
    lines += ["on a terminal of its own"] if action.tty else []
    if action.script:
        shell = action.argv[:-1] if action.argv[-1:] == (action.script,) else action.argv
        lines.append(f"started by {exact_line(shlex.join(shell))}")
    if action.commits_in:
        lines.append(f"it may write the data of the repository {exact_line(action.commits_in)}")
    if action.extra is not None:
        lines += [f"it wants to {exact_line(part)}" for part in _permissions(action.extra)]
    if action.parsed_cmd:
        lines.append(f"it only reads: {describe_meanings(action.parsed_cmd)}")
    return lines


def _body_lines(action: AnyAction) -> list[str]:
    """The whole text of an action, unless its one line has shown it all."""
    match action:
        case CommandAction() | McpToolAction():
            text = action.arguments if isinstance(action, McpToolAction) else _whole_action(action)
            is_shown = exact_line(_whole_action(action)) == describe_action(action)
            return [] if is_shown and "\n" not in text else _marked(text)
        case PatchAction():
            return _diff_lines(action)
        case SamplingAction():
            return conversation_lines(action)
        case _:
            return []


def _marked(text: str) -> list[str]:
    return [f"| {line}" for line in exact_lines(text)]


def _mcp_lines(action: McpToolAction) -> list[str]:
    """Who offers the tool, and what the server says of it, which nobody has checked."""
    hints = msgspec.to_builtins(action.annotations)
    said = ", ".join(f"{name} {str(value).lower()}" for name, value in hints.items())
    lines = [f"server {exact_line(action.server)}"]
    lines.append(f"configured in {exact_line(action.source) or '?'}")
    lines.append(f"its tool {exact_line(action.tool)}")
    lines.append(f"the server says: {said or 'nothing about what it changes'}")
    lines += [f"changed: {exact_line(line)}" for line in action.changed]
    if action.open_world:
        lines.append("its results may hold what strangers wrote")
    if action.description:
        lines.append(f"and describes it: {exact_line(action.description)}")
    if action.always:
        lines.append(f"always would save: {exact_line(action.always)}")
    return lines


def _diff_lines(action: PatchAction) -> list[str]:
    """Each file with its whole diff."""
    lines: list[str] = []
    for change in action.changes:
        lines.append(f"{CHANGE_LETTERS[change.kind]} {exact_line(change.path)}")
        lines += [f"moved to {exact_line(change.move_path)}"] if change.move_path else []
        if change.left_out:
            lines.append(f"{change.left_out:,} characters in its middle are not shown")
        lines += _marked(change.unified_diff.removesuffix("\n")) if change.unified_diff else []
    return lines


def _question_lines(action: QuestionsAction) -> list[str]:
    lines: list[str] = []
    for question in action.questions:
        lines.append(f"{exact_line(question.id)}: {exact_line(question.question)}")
        for number, option in enumerate(question.options, start=1):
            about = f": {exact_line(option.description)}" if option.description else ""
            lines.append(f"  {number}. {exact_line(option.label)}{about}")
    return lines


def _preview_lines(request: ApprovalRequest) -> list[str]:
    preview = request.preview
    if preview is None:
        return []
    lines = [
        f"it would lose: {exact_line(preview.summary)}",
        "a copy is kept, `swarm undo` brings it back" if preview.kept else NO_COPY,
    ]
    lines += [f"  {exact_line(path)}" for path in preview.paths]
    if preview.count > len(preview.paths):
        lines.append(f"  and {preview.count - len(preview.paths):,} more")
    return lines


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
        which = "exactly" if grant.exact else "commands that begin with"
        what = f"{which} {shlex.join(grant.prefix)}"
    elif grant.commits_in:
        what = f"commits in {grant.commits_in}"
    elif grant.permissions is not None:
        what = describe_permissions(grant.permissions)
    else:
        what = "; ".join(grant.keys) or "nothing"
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
        return [f"goes to the reviewing agent, {name}: {kind}: {what}"]
    details = approval_detail_lines(body.request)
    if len(details) > _MOST_PLAIN_LINES:
        left, tail = len(details) - _MOST_PLAIN_LINES, _MOST_PLAIN_LINES // 2
        mark = f"⟨… {left:,} more lines: `swarm approvals {run}` shows them …⟩"
        details = [*details[:tail], mark, *details[-tail:]]
    lines = [f"needs approval {name}: {kind}: {what}", *details]
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
