"""Approvals and questions as elicitation forms, and what their answers mean. Pure.

An answer holds once or for the session. `always` would write rule files, which no client may do.
"""

from collections.abc import Mapping

from swarm.mailbox.contents.form_values import (
    FormAnswerRefused,
    as_typed,
    form_content,
    form_schema,
)
from swarm.mailbox.protocol.approvals import PendingApproval, PersonQuestion, QuestionsAction
from swarm.mailbox.protocol.control import ResolveApproval
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.values.base import Value

from ...base.safe_text import exact_head, exact_line
from ...views.approval_description import (
    approval_detail_lines,
    can_grant_repeatedly,
    describe_action,
)

_TITLES: dict[str, str] = {
    "approve": "Yes, this once",
    "approve_session": "Yes, and the same again in this session",
    "deny": "No, go on without",
    "abort": "No, and stop",
}


class ApprovalForm(Value):
    """A form of the protocol: what is asked, and the schema of the answer."""

    message: str
    schema: dict[str, object]


def approval_form(pending: PendingApproval) -> ApprovalForm:
    """The form for one pending approval."""
    request = pending.request
    lines = [f"{exact_line(pending.agent)} wants: {describe_action(request.action)}"]
    if isinstance(request.action, QuestionsAction | ElicitationAction):
        lines = [f"{exact_line(pending.agent)} asks:"]
    lines += approval_detail_lines(request)
    return ApprovalForm(message="\n".join(lines), schema=_schema(pending))


def _schema(pending: PendingApproval) -> dict[str, object]:
    action = pending.request.action
    if isinstance(action, QuestionsAction):
        asked = {one.id: _question_field(one) for one in action.questions}
        return {"type": "object", "properties": asked, "required": list(asked)}
    if isinstance(action, ElicitationAction) and action.fields:
        return form_schema(action.fields)
    names = [name for name in _TITLES if name != "approve_session"
             or can_grant_repeatedly(pending.request)]  # fmt: skip
    field = {
        "type": "string",
        "title": "Decision",
        "enum": names,
        "enumNames": [_TITLES[name] for name in names],
    }
    return {"type": "object", "properties": {"decision": field}, "required": ["decision"]}


def _question_field(question: PersonQuestion) -> dict[str, object]:
    field: dict[str, object] = {
        "type": "string",
        "title": exact_head(question.header, limit=80) or question.id,
        "description": exact_line(question.question),
    }
    if labels := [exact_line(one.label) for one in question.options]:
        field["enum"] = labels
    return field


def form_answer(
    pending: PendingApproval, *, accepted: bool, content: Mapping[str, object]
) -> ResolveApproval:
    """What an answered form means. Whatever is not clearly a yes is a no."""
    wanted = pending.approval_id
    if not accepted:
        return ResolveApproval(approval_id=wanted, approve=False, reason="the person declined")
    action = pending.request.action
    if isinstance(action, ElicitationAction) and action.fields:
        return checked_answer(wanted, action, content)
    if not isinstance(action, QuestionsAction):
        return decided(pending, str(content.get("decision", "")))
    answers: dict[str, tuple[str, ...]] = {}
    for question in action.questions:
        answer = content.get(question.id)
        if not isinstance(answer, str) or not answer:
            return ResolveApproval(approval_id=wanted, approve=False, reason="left unanswered")
        answers[question.id] = (_label(question, answer),)
    return ResolveApproval(approval_id=wanted, approve=True, answers=answers)


def checked_answer(
    approval_id: str, action: ElicitationAction, content: Mapping[str, object]
) -> ResolveApproval:
    """The answer to a server's form; what does not fit the form is a no."""
    answers = as_typed(content)
    try:
        form_content(action.fields, answers)
    except FormAnswerRefused as error:
        return ResolveApproval(approval_id=approval_id, approve=False, reason=str(error))
    return ResolveApproval(approval_id=approval_id, approve=True, answers=answers)


def _label(question: PersonQuestion, answer: str) -> str:
    """The label as the model wrote it; clients see a cleaned one."""
    for one in question.options:
        if exact_line(one.label) == answer:
            return one.label
    return answer


def decided(pending: PendingApproval, decision: str, reason: str = "") -> ResolveApproval:
    """The answer that a decision means. An unknown one is a no."""
    wanted = pending.approval_id
    match decision:
        case "approve":
            return ResolveApproval(approval_id=wanted, approve=True)
        case "approve_session" if can_grant_repeatedly(pending.request):
            return ResolveApproval(approval_id=wanted, approve=True, scope="session")
        case "approve_session":
            return ResolveApproval(approval_id=wanted, approve=True)
        case "abort":
            return ResolveApproval(approval_id=wanted, approve=False, reason=reason, abort=True)
        case _:
            return ResolveApproval(approval_id=wanted, approve=False, reason=reason)
