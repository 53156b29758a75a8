"""`swarm show` and `swarm log`: an agent's story, and every record as a line."""

import pytest

from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    CommandCall,
    FileChange,
    PatchCall,
    PlanCall,
    PlanStep,
    TurnCompleted,
    TurnStarted,
    Warned,
)
from swarm.mailbox.protocol.items import Reasoning, TokenUsage, text_message
from swarm.mailbox.protocol.ops import Mail, TextInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    InputPosted,
    ItemRecorded,
    MailPosted,
    ProcessEnded,
    Record,
    RunCompleted,
    RunStarted,
    decode_record,
)
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.supervisor.clients.console.agent_transcript import transcript_lines
from swarm.supervisor.clients.console.log_lines import LogFilter, log_line, matches_filter

SCOUT = "/root/scout"
MAIL = Mail(mail_id="m1", author="/root", recipient=SCOUT, content="look\nthere", kind="message")
DIFF = "@@ -1 +1 @@\n-old\n+new\x1b[2J\n"


def numbered(*told):
    return tuple(
        Record(seq=number, ts=1000.0 + number, agent=agent, body=body)
        for number, (agent, body) in enumerate(told, start=1)
    )


STORY = numbered(
    ("", RunStarted(run_id="r", task="t", title="T", cwd="/w", version="1")),
    (SCOUT, AgentSpawned(agent_id="s", path=SCOUT, epoch=1, pid=8, role="explorer", cwd="/w")),
    (SCOUT, InputPosted(input_id="i", parts=(TextInput(text="Find the queue.\nSay where."),))),
    (
        SCOUT,
        TurnStarted(turn_id="t", model=ModelInfo(slug="m", provider="p", wire="chat")),
    ),
    ("/root", Warned(message="not the scout's")),
    (SCOUT, ItemRecorded(turn_id="t", item_id="1", item=Reasoning(summary=("think",)))),
    (
        SCOUT,
        CallBegan(
            turn_id="t",
            call_id="a",
            tool="exec_command",
            detail=CommandCall(script="rg queue\nwc", argv=(), cwd="/w", sandbox="bwrap"),
        ),
    ),
    (
        SCOUT,
        CallEnded(
            turn_id="t",
            call_id="a",
            tool="exec_command",
            status="completed",
            exit_code=0,
            duration_s=0.25,
            output="one\ntwo\x1b[2J\n" + "more\n" * 12,
        ),
    ),
    ("/root", MailPosted(mail=MAIL)),
    (
        SCOUT,
        CallBegan(
            turn_id="t",
            call_id="b",
            tool="apply_patch",
            detail=PatchCall(changes=(FileChange(path="/w/a", kind="update", unified_diff=DIFF),)),
        ),
    ),
    (SCOUT, CallEnded(turn_id="t", call_id="b", tool="apply_patch", status="declined")),
    (
        SCOUT,
        CallBegan(
            turn_id="t",
            call_id="c",
            tool="update_plan",
            detail=PlanCall(plan=(PlanStep(step="look", status="completed"),)),
        ),
    ),
    (SCOUT, ItemRecorded(turn_id="t", item_id="2", item=text_message("assistant", "In b.py."))),
    (SCOUT, TurnCompleted(turn_id="t", duration_s=3.0, usage=TokenUsage(total_tokens=1500))),
    ("", AgentEnded(agent_id="s", state="completed", message="In b.py.")),
    ("", ProcessEnded(agent_id="s", epoch=1, pid=8, orderly=True)),
)


def test_a_transcript_tells_task_turns_commands_patches_and_messages_in_order():
    lines = transcript_lines(STORY, SCOUT)
    assert [line.plain for line in lines] == [
        "/root/scout [explorer]",
        "read-only, /w",
        "",
        "task",
        "  Find the queue.",
        "  Say where.",
        "",
        "— turn 1: m —",
        "",
        "reasoning",
        "  think",
        "",
        "$ rg queue",
        "> wc",
        "  in /w, bwrap",
        "  one",
        "  two⟨ESC⟩[2J",
        *["  more"] * 10,
        "  … 2 more lines",
        "  (exit code 0 after 0.2 s)",
        "",
        "message from /root to /root/scout",
        "  look",
        "  there",
        "",
        "update /w/a",
        "  @@ -1 +1 @@",
        "  -old",
        "  +new⟨ESC⟩[2J",
        "  (declined)",
        "",
        "plan",
        "  [x] look",
        "",
        "agent",
        "  In b.py.",
        "— turn completed: 3.0 s, 1.5k tokens —",
        "",
        "ended: completed",
    ]


def test_a_transcript_of_nobody_is_empty():
    assert list(transcript_lines(STORY, "/root/nobody")) == []


def test_every_record_is_one_line_with_time_agent_and_kind():
    lines = [log_line(record) for record in STORY]
    assert len(lines) == len(STORY)
    assert lines[0] == "1970-01-01T00:16:41.000Z - run_started r /w: T"
    assert lines[6] == "1970-01-01T00:16:47.000Z /root/scout call_began exec_command rg queue wc"
    assert lines[7].endswith("call_ended exec_command exit code 0 after 0.2 s")
    assert lines[8].endswith("/root mail_posted m1 message /root → /root/scout: look")
    assert not any("\x1b" in line or "\n" in line for line in lines)


def test_a_json_line_is_the_record_itself():
    for record in STORY:
        assert decode_record(log_line(record, as_json=True)) == record


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (LogFilter(agent="/root"), [5, 9]),
        (LogFilter(mail=True), [9]),
        (LogFilter(mail=True, agent=SCOUT), [9]),
        (LogFilter(reviews=True), [11]),
    ],
)
def test_the_log_can_be_narrowed(wanted, expected):
    assert [record.seq for record in STORY if matches_filter(record, wanted)] == expected


def test_the_end_of_a_run_is_a_line_too():
    record = Record(seq=1, ts=0.0, body=RunCompleted(status="budget", message="spent", agents=3))
    assert log_line(record).endswith("- run_completed budget after 0.0 s, 3 agents: spent")
