"""Approvals as `session/request_permission`: the question, the answers, what each covers. Pure."""

import msgspec
from acp.helpers import text_block, tool_content
from acp.schema import (
    AcceptElicitationResponse,
    CancelElicitationResponse,
    DeclineElicitationResponse,
    PermissionOption,
    ToolCallUpdate,
)

from swarm.mailbox.contents.form_values import FormAnswerRefused, as_typed, form_content
from swarm.mailbox.protocol.approvals import ApprovalRequest, McpToolAction, PersonQuestion
from swarm.mailbox.protocol.control import ResolveApproval
from swarm.mailbox.protocol.elicitation import ElicitationAction

from ...base.safe_text import exact_head, exact_line, exact_lines
from ...views.approval_description import (
    approval_detail_lines,
    can_grant_repeatedly,
    describe_action,
    describe_cause,
)
from .call_description import fenced_text

SKIPPED = "skip"
_KINDS = {"command": "execute", "patch": "edit", "network": "fetch"}  # by the action's tag


def permission_options(request: ApprovalRequest) -> list[PermissionOption]:
    """The answers, with what each of them covers."""
    options = [PermissionOption(option_id="once", name="Yes, this once", kind="allow_once")]
    if can_grant_repeatedly(request):
        name = "Yes, and the same again without a question, for this agent in this session"
        options.append(PermissionOption(option_id="session", name=name, kind="allow_always"))
    if request.proposed_prefix:
        rule = exact_head(" ".join(request.proposed_prefix))
        which = "exactly this" if request.proposed_exact else "commands that begin with"
        name = f"Yes, and always {which}: {rule}"
        options.append(PermissionOption(option_id="always", name=name, kind="allow_always"))
    if isinstance(request.action, McpToolAction) and request.action.always:
        name = f"Yes, and always: saves {exact_head(request.action.always)}"
        options.append(PermissionOption(option_id="always", name=name, kind="allow_always"))
    options.append(PermissionOption(option_id="deny", name="No, go on without", kind="reject_once"))
    options.append(PermissionOption(option_id="abort", name="No, and stop", kind="reject_once"))
    return options


def permission_call(agent: str, request: ApprovalRequest, approval_id: str) -> ToolCallUpdate:
    """What is asked: the action in a line; below it all of it, as a text that Markdown cannot
    change; what would run stands in `rawInput` too.
    """
    who = "" if agent == "/root" else f"{exact_line(agent)}: "
    lines = [describe_cause(request), *approval_detail_lines(request)]
    action = request.action
    return ToolCallUpdate.model_validate(
        {
            "tool_call_id": request.call_id or approval_id,
            "title": who + describe_action(action),
            "kind": _KINDS.get(str(action.__struct_config__.tag), "other"),
            "status": "pending",
            "content": [tool_content(text_block(fenced_text("\n".join(lines))))],
            "raw_input": _raw_input(request),
        }
    )


def _raw_input(request: ApprovalRequest) -> dict[str, object]:
    """The action itself, whole, as data."""
    action: dict[str, object] = msgspec.to_builtins(request.action)
    return action


def approval_answer(approval_id: str, option_id: str | None) -> ResolveApproval:
    """The answer that an option means; None (nothing was chosen) is a no."""
    match option_id:
        case "once":
            return ResolveApproval(approval_id=approval_id, approve=True)
        case "session":
            return ResolveApproval(approval_id=approval_id, approve=True, scope="session")
        case "always":
            return ResolveApproval(approval_id=approval_id, approve=True, scope="always")
        case "abort":
            return ResolveApproval(approval_id=approval_id, approve=False, abort=True)
        case _:
            return ResolveApproval(approval_id=approval_id, approve=False)


def question_options(question: PersonQuestion) -> list[PermissionOption]:
    """The answers to one question of a model."""
    return [
        PermissionOption(option_id=f"{number}", name=exact_line(option.label), kind="allow_once")
        for number, option in enumerate(question.options)
    ]


def field_options(question: PersonQuestion, *, can_skip: bool) -> list[PermissionOption]:
    """The answers to a field of a form; () if it needs a text that nobody can type here."""
    options = question_options(question)
    if can_skip:
        name = "Keep the default, or leave it out"
        options.append(PermissionOption(option_id=SKIPPED, name=name, kind="allow_once"))
    if options:
        options.append(PermissionOption(option_id="deny", name="Decline", kind="reject_once"))
    return options


def page_options(action: ElicitationAction) -> list[PermissionOption]:
    """The answers to a server that wants a page opened, or only a yes."""
    yes = f"Yes, I open {exact_line(action.host)} myself" if action.url else "Yes"
    return [
        PermissionOption(option_id="once", name=yes, kind="allow_once"),
        PermissionOption(option_id="deny", name="Decline", kind="reject_once"),
        PermissionOption(option_id="abort", name="Dismiss", kind="reject_once"),
    ]


def filled_form(
    approval_id: str,
    action: ElicitationAction,
    filled: AcceptElicitationResponse | DeclineElicitationResponse | CancelElicitationResponse,
) -> ResolveApproval:
    """What the answer to a form means; what does not fit the form is a no."""
    match filled:
        case AcceptElicitationResponse():
            content: dict[str, object] = dict(filled.content or {})
            answers = as_typed(content)
            try:
                form_content(action.fields, answers)
            except FormAnswerRefused as error:
                return ResolveApproval(approval_id=approval_id, approve=False, reason=str(error))
            return ResolveApproval(approval_id=approval_id, approve=True, answers=answers)
        case DeclineElicitationResponse():
            return ResolveApproval(approval_id=approval_id, approve=False)
        case CancelElicitationResponse():
            return ResolveApproval(approval_id=approval_id, approve=False, abort=True)


def question_call(question: PersonQuestion, approval_id: str) -> ToolCallUpdate:
    lines = list(exact_lines(question.question))
    lines += [
        f"- {exact_line(one.label)}: {exact_line(one.description)}" for one in question.options
    ]
    return ToolCallUpdate.model_validate(
        {
            "tool_call_id": f"{approval_id}-{question.id}",
            "title": exact_head(question.header or question.question),
            "kind": "other",
            "status": "pending",
            "content": [tool_content(text_block("\n".join(lines)))],
        }
    )


def chosen_label(question: PersonQuestion, option_id: str | None) -> str | None:
    """The label of the chosen option; None if nothing of the question was chosen."""
    for number, option in enumerate(question.options):
        if option_id == f"{number}":
            return option.label
    return None
