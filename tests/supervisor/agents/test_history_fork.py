"""What a forked child is given of its parent's conversation."""

import pytest

from swarm.mailbox.protocol.events import TurnCompleted
from swarm.mailbox.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    Reasoning,
    text_message,
)
from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import ContextRecorded, ItemRecorded, MailPosted, Record
from swarm.supervisor.agents.child_plan import fork_history, parse_fork_turns

PERMISSIONS = text_message("developer", "rights")
ASKED, ASKED_AGAIN = text_message("user", "one"), text_message("user", "two")
UNTAGGED, REMARK = text_message("assistant", "an answer"), text_message("assistant", "let me see")
TAGGED = Message(role="assistant", content=(OutputText(text="final"),), phase="final_answer")
TASK = Message(role="assistant", content=(OutputText(text="task"),), author="/root")
CALL = FunctionCall(call_id="c", name="spawn_agent", arguments="{}")


def records(*bodies):
    return [Record(seq=seq, ts=0.0, body=body) for seq, body in enumerate(bodies, 1)]


def item(item, source="model", item_id="i"):
    return ItemRecorded(turn_id="t", item=item, item_id=item_id, source=source)


PARENT = records(
    item(PERMISSIONS, "context"),
    item(ASKED, "user"),
    item(Reasoning(summary=("hm",))),
    item(REMARK),
    item(CALL),
    item(FunctionCallOutput(call_id="c", output="ok"), "tool"),
    item(UNTAGGED),
    TurnCompleted(turn_id="t", last_message="an answer"),
    item(ASKED_AGAIN, "user"),
    item(TAGGED),
)


@pytest.mark.parametrize(
    ("text", "turns"), [("none", 0), (" ALL ", None), ("", None), ("3", 3), ("0012", 12)]
)
def test_fork_turns_are_none_all_or_a_number(text, turns):
    assert parse_fork_turns(text) == turns


@pytest.mark.parametrize("text", ["0", "-1", "some", "1.5", "²", "9999999999"])
def test_any_other_fork_is_refused_by_its_rule(text):
    with pytest.raises(ValueError, match="positive integer string"):
        parse_fork_turns(text)


def test_a_full_fork_leaves_out_thoughts_remarks_and_tools():
    assert fork_history(PARENT, turns=None) == (PERMISSIONS, ASKED, UNTAGGED, ASKED_AGAIN, TAGGED)


@pytest.mark.parametrize(
    ("turns", "expected"),
    [(1, (ASKED_AGAIN, TAGGED)), (9, (PERMISSIONS, ASKED, UNTAGGED, ASKED_AGAIN, TAGGED))],
)
def test_the_last_turns_are_cut_first_and_filtered_then(turns, expected):
    assert fork_history(PARENT, turns=turns) == expected


def test_a_mail_that_gave_a_task_starts_a_turn_and_a_mere_message_does_not():
    told = Mail(mail_id="m1", author="/root", recipient="/root/a", content="", trigger_turn=True)
    chat = Mail(mail_id="m2", author="/root", recipient="/root/a", content="")
    parent = records(
        item(ASKED, "user"),
        MailPosted(mail=told),
        item(TASK, "mail", "m1"),
        MailPosted(mail=chat),
        item(TASK, "mail", "m2"),
    )
    assert fork_history(parent, turns=1) == (TASK,)


def test_after_a_compaction_only_what_it_left_is_forked():
    parent = records(item(ASKED, "user"), ContextRecorded(turn_id="t", items=(ASKED_AGAIN, CALL)))
    assert fork_history(parent, turns=None) == (ASKED_AGAIN,)
