"""Texts that a model reads when its action was not approved. Pure.

Each kind of refusal says what it is, so that a model does not take a missing answer for a verdict,
and most say what the model may do next.
"""

from swarm.mailbox.base.host_patterns import with_port
from swarm.mailbox.protocol.approvals import (
    AnyAction,
    ApprovalRequest,
    CommandAction,
    McpToolAction,
    NetworkAction,
    PatchAction,
    PermissionsAction,
    QuestionsAction,
)
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.server_sampling import SamplingAction

_NO_OTHER_WAY = (
    "Do not try to reach the same by other means. Find a way that needs no approval, or say in "
    "your answer what is left undone."
)


def subject_of(action: AnyAction) -> str:
    """The beginning of a refusal, in Codex's words where Codex has some."""
    match action:
        case CommandAction():
            return "exec command"
        case PatchAction():
            return "patch"
        case NetworkAction(host=host, port=port):
            return f'network access to "{with_port(host, port)}"'
        case McpToolAction():
            return "MCP tool call"
        case PermissionsAction():
            return "permissions"
        case QuestionsAction():
            return "questions"
        case ElicitationAction():
            return "a question of an MCP server"
        case SamplingAction():
            return "a question of an MCP server to the model"


def denied_text(request: ApprovalRequest, reason: str) -> str:
    """A person denied the action."""
    head = f"{subject_of(request.action)} rejected by user"
    return f"{head}: {reason}" if reason else head


def aborted_text(request: ApprovalRequest, reason: str) -> str:
    """A person denied the action and ended the turn."""
    return f"{denied_text(request, reason)}; the turn was ended"


def timed_out_text(request: ApprovalRequest, seconds: float) -> str:
    """Nobody answered in time."""
    return (
        f"{subject_of(request.action)} not approved: it was asked, and no answer came within "
        f"{seconds:g} s. That is not a verdict about the action. {_NO_OTHER_WAY}"
    )


def unavailable_text(request: ApprovalRequest, why: str) -> str:
    """Nobody can be asked."""
    if isinstance(request.action, ElicitationAction | SamplingAction):
        return why
    if isinstance(request.action, QuestionsAction):
        return (
            "request_user_input was cancelled before receiving a response: "
            f"{why}. Decide by yourself, and say in your answer what you assumed."
        )
    return f"{subject_of(request.action)} not approved: {why}. {_NO_OTHER_WAY}"


def reviewer_failed_text(request: ApprovalRequest, why: str) -> str:
    """The reviewer failed."""
    return (
        f"{subject_of(request.action)} not approved: the automatic reviewer failed ({why}). "
        f"That is not a verdict about the action. {_NO_OTHER_WAY}"
    )


def withdrawn_text(request: ApprovalRequest) -> str:
    """The agent is gone or its turn is over; only people read this."""
    if isinstance(request.action, QuestionsAction):
        return "request_user_input was cancelled before receiving a response"
    if isinstance(request.action, ElicitationAction | SamplingAction):
        return "the question of the MCP server was withdrawn: its call has ended"
    return f"{subject_of(request.action)} not approved: the question was withdrawn"


def granted_notice(approval_id: str) -> str:
    """Sent to an agent whose action a reviewer denied and a person now allows."""
    return (
        f"A person has read your request {approval_id}, which the reviewer had denied, and "
        "approves it: exactly that action may now be done once, with the same arguments. Nothing "
        "else is approved by this."
    )
