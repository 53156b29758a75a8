"""A server's form in the panel: field after field, and nothing of it can steer the terminal."""

from swarm.mailbox.protocol.approvals import ApprovalRequest, PendingApproval
from swarm.mailbox.protocol.control import ResolveApproval
from swarm.mailbox.protocol.elicitation import ElicitationAction, FormChoice, FormField
from swarm.supervisor.clients.console.approval_prompt import (
    PromptState,
    available_keys,
    handle_key,
    panel_lines,
    show_panel,
    update_queue,
)
from swarm.supervisor.views.approval_description import approval_detail_lines
from swarm.supervisor.views.elicitation_description import SECRET_CAUTION

FIELDS = (
    FormField(name="name", title="Your\x1b[2J name", required=True),
    FormField(
        name="colour", kind="choice", choices=(FormChoice(value="red"), FormChoice(value="g"))
    ),
    FormField(name="sure", kind="boolean", default=("no",)),
)


def pending(**more):
    action = ElicitationAction(**{"server": "s", "message": "Hello\n\x1b[31mred", **more})
    request = ApprovalRequest(action=action, cause="elicitation")
    return PendingApproval(approval_id="a1", agent="/root", request=request, reviewer="person")


def press(entry, *keys):
    state, sent = update_queue(PromptState(), (entry,), now=0.0), None
    for key in keys:
        step = handle_key(show_panel(state, width=80, height=60).state, key, now=9.0)
        state, sent = step.state, step.resolution or sent
    return state, sent


def test_each_field_is_asked_and_the_last_answer_sends_all():
    state, sent = press(pending(fields=FIELDS), "o", "A", "d", "a", "enter")
    assert sent is None
    assert "1  red" in "\n".join(panel_lines(state))
    _, sent = press(pending(fields=FIELDS), "o", "A", "enter", "2", "k")
    answers = {"name": ("A",), "colour": ("g",), "sure": ()}
    assert sent == ResolveApproval(approval_id="a1", approve=True, answers=answers)


def test_a_field_that_is_required_cannot_be_left_out():
    state, sent = press(pending(fields=FIELDS), "k")
    assert sent is None
    assert state.answers == {}


def test_a_form_can_be_declined_and_dismissed():
    assert press(pending(fields=FIELDS), "n")[1] == ResolveApproval(approval_id="a1", approve=False)
    dismissed = ResolveApproval(approval_id="a1", approve=False, abort=True)
    assert press(pending(fields=FIELDS), "x")[1] == dismissed


def test_a_page_shows_its_host_and_whole_address_and_is_only_agreed_to():
    entry = pending(url="https://xn--bnk-5cd.org/" + "a" * 300, host="xn--bnk-5cd.org")
    text = "\n".join(panel_lines(press(entry)[0]))
    assert "on the host: xn--bnk-5cd.org" in text
    assert "a" * 300 in text
    assert "other letters than a to z" in text
    assert "nothing was opened" in text
    assert [key for key, _ in available_keys(entry)] == ["y", "n", "x"]
    assert press(entry, "y")[1] == ResolveApproval(approval_id="a1", approve=True)


def test_texts_are_cleaned_and_a_secret_is_warned_of():
    entry = pending(fields=(FormField(name="api_key", description="\x1b]0;t\x07x"),))
    lines = [*panel_lines(press(entry)[0]), *approval_detail_lines(entry.request)]
    assert "\x1b" not in "".join(lines)
    assert SECRET_CAUTION in "\n".join(approval_detail_lines(entry.request))
    assert SECRET_CAUTION in "\n".join(panel_lines(press(entry)[0]))
