"""What a client is asked, and what its answers mean: whatever is not clearly a yes is a no."""

import pytest

from swarm.mailbox.protocol.approvals import (
    ApprovalRequest,
    CommandAction,
    PendingApproval,
    PersonQuestion,
    QuestionOption,
    QuestionsAction,
)
from swarm.mailbox.protocol.control import ResolveApproval
from swarm.supervisor.clients.mcp_server.approval_forms import approval_form, decided, form_answer

COMMAND = PendingApproval(
    approval_id="a1", agent="/root/x", reviewer="person",
    request=ApprovalRequest(
        action=CommandAction(argv=("rm", "-rf", "b"), cwd="/w", script="rm -rf b\x1b[2J"),
        cause="dangerous", keys=("k",),
    ),
)  # fmt: skip
ONCE = PendingApproval(
    approval_id="a1", agent="/root", reviewer="person",
    request=ApprovalRequest(action=CommandAction(argv=("x",), cwd="/w"), cause="dangerous"),
)  # fmt: skip
ASKED = PersonQuestion(
    id="q", header="H", question="Which?",
    options=(QuestionOption(label="one\x1b[1m"), QuestionOption(label="two")),
)  # fmt: skip
QUESTION = PendingApproval(
    approval_id="a2", agent="/root", reviewer="person",
    request=ApprovalRequest(action=QuestionsAction(questions=(ASKED,)), cause="question"),
)  # fmt: skip


def choices(pending):
    return approval_form(pending).schema["properties"]["decision"]["enum"]


def test_a_form_shows_the_action_without_control_characters():
    form = approval_form(COMMAND)
    assert "rm -rf b" in form.message
    assert "\x1b" not in form.message
    assert choices(COMMAND) == ["approve", "approve_session", "deny", "abort"]
    assert choices(ONCE) == ["approve", "deny", "abort"]


@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        ("approve", ResolveApproval(approval_id="a1", approve=True)),
        ("approve_session", ResolveApproval(approval_id="a1", approve=True, scope="session")),
        ("abort", ResolveApproval(approval_id="a1", approve=False, abort=True)),
        ("deny", ResolveApproval(approval_id="a1", approve=False)),
        ("always", ResolveApproval(approval_id="a1", approve=False)),
        ("Approve", ResolveApproval(approval_id="a1", approve=False)),
        ("", ResolveApproval(approval_id="a1", approve=False)),
    ],
)
def test_what_a_decision_means(decision, answer):
    assert decided(COMMAND, decision) == answer
    assert form_answer(COMMAND, accepted=True, content={"decision": decision}) == answer


def test_what_can_only_be_granted_once_is_granted_once():
    assert decided(ONCE, "approve_session") == ResolveApproval(approval_id="a1", approve=True)


@pytest.mark.parametrize("content", [{}, {"decision": None}, {"decision": True}, {"x": "approve"}])
def test_an_answer_without_a_decision_is_a_no(content):
    assert not form_answer(COMMAND, accepted=True, content=content).approve


def test_a_form_that_was_declined_is_a_no_whatever_it_holds():
    assert not form_answer(COMMAND, accepted=False, content={"decision": "approve"}).approve


def test_a_questions_answer_has_the_label_as_the_model_wrote_it():
    answer = form_answer(QUESTION, accepted=True, content={"q": "one⟨ESC⟩[1m"})
    assert answer.answers == {"q": ("one\x1b[1m",)}
    assert form_answer(QUESTION, accepted=True, content={"q": "my own"}).answers["q"] == ("my own",)
    assert not form_answer(QUESTION, accepted=True, content={}).approve
