"""The `--json` stream: Codex's shapes, our additions, and the order of both."""

import io
import os
from typing import Union

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.control import Recorded, RunView, TransientEvent
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    CommandCall,
    FileChange,
    OtherCall,
    PatchCall,
    PlanCall,
    PlanStep,
    StdinCall,
    TextArrived,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Waiting,
    Warned,
)
from swarm.mailbox.protocol.gateway import Throttled
from swarm.mailbox.protocol.items import Reasoning, TokenUsage, text_message
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    FanOutItemEnded,
    FanOutPlanned,
    ItemRecorded,
    ProcessEnded,
    ProviderChosen,
    Record,
    RunCompleted,
    RunStarted,
)
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.supervisor.clients.serve.exec_json import ExecJsonDisplay
from swarm.supervisor.clients.serve.json_conversion import JsonConversion
from swarm.supervisor.clients.serve.json_lines import JsonLine

ANY_LINE = Union[tuple(JsonLine.__subclasses__())]  # noqa: UP007
MODEL = ModelInfo(slug="m", provider="p", wire="chat")
ECHO = CommandCall(script="echo hi", argv=("/bin/bash", "-c", "echo hi"), cwd="/w")
USAGE = TokenUsage(
    input_tokens=310,
    cached_input_tokens=20,
    output_tokens=20,
    reasoning_output_tokens=3,
    total_tokens=330,
)
STARTED = RunStarted(run_id="run-1", task="t", title="T", cwd="/w", version="1")
ROOT = AgentSpawned(agent_id="01a1", path="/root", epoch=1, pid=4)


class Stream:
    """A JSON view, fed as the supervisor feeds it."""

    def __init__(self):
        self.out = io.StringIO()
        self.view = ExecJsonDisplay(self.out, clock=lambda: 0.0)
        self.seq = 0

    def tell(self, agent, *bodies):
        for body in bodies:
            self.seq += 1
            record = Record(seq=self.seq, ts=1000.125, agent=agent, body=body)
            self.view.on_feed(Recorded(record=record))

    def finish(self, **fields):
        self.view.finish(RunCompleted(**{"status": "completed", "agents": 1, **fields}))
        return self.lines()

    def lines(self):
        raw = self.out.getvalue().encode().splitlines()
        for line in raw:
            msgspec.json.decode(line, type=ANY_LINE)
        return [msgspec.json.decode(line) for line in raw]


@pytest.fixture
def stream():
    told = Stream()
    told.tell("", STARTED)
    told.tell("/root", ROOT)
    return told


def bare(lines):
    """Without what every line has, and without lines that Codex does not know."""
    ours = {"agent.spawned", "agent.status", "run.completed", "provider.chosen"}
    return [
        {key: value for key, value in line.items() if key not in {"ts", "seq"}}
        for line in lines
        if line["type"] not in ours
    ]


def items(lines):
    return [
        (line["type"].partition(".")[2], line["item"]["id"], line["item"].get("status"))
        for line in lines
        if line["type"].startswith("item.")
    ]


def test_a_normal_turn_is_codex_line_by_line(stream):
    stream.tell(
        "/root",
        TurnStarted(turn_id="t", model=MODEL),
        ItemRecorded(turn_id="t", item=text_message("user", "go"), item_id="u", source="user"),
        CallBegan(turn_id="t", call_id="c", tool="exec_command", detail=ECHO),
        CallEnded(
            turn_id="t", call_id="c", tool="exec_command", status="completed", exit_code=0,
            output="hi\n",
        ),
        ItemRecorded(turn_id="t", item=text_message("assistant", "done"), item_id="a"),
        TokenCount(turn_id="t", last=USAGE, total=USAGE),
        TurnCompleted(turn_id="t", last_message="done", usage=USAGE),
    )  # fmt: skip
    usage = {
        "input_tokens": 310,
        "cached_input_tokens": 20,
        "cache_write_input_tokens": 0,
        "output_tokens": 20,
        "reasoning_output_tokens": 3,
    }
    command = {
        "id": "item_5",
        "type": "command_execution",
        "command": "/bin/bash -c 'echo hi'",
        "parsed_cmd": [{"type": "unknown", "cmd": "echo hi"}],
    }
    assert bare(stream.finish(result="done")) == [
        {"type": "thread.started", "thread_id": "01a1", "run": "run-1"},
        {"type": "turn.started"},
        {
            "type": "item.started",
            "item": command | {
                "aggregated_output": "", "exit_code": None, "status": "in_progress",
            },
        },
        {
            "type": "item.completed",
            "item": command | {
                "aggregated_output": "hi\n", "exit_code": 0, "status": "completed",
            },
        },
        {
            "type": "item.completed",
            "item": {"id": "item_7", "type": "agent_message", "text": "done"},
        },
        {
            "type": "turn.completed",
            "usage": usage,
            "total_usage": usage,
            "context_tokens": 0,
            "context_window": 0,
            "context_left_percent": None,
        },
    ]  # fmt: skip


def test_the_last_line_is_the_contract_of_the_command_line(stream):
    last = stream.finish(status="completed", result="done", usage=USAGE, agents=3)[-1]
    assert last | {"ts": "", "usage": {}} == {
        "type": "run.completed",
        "status": "completed",
        "result": "done",
        "usage": {},
        "agents": 3,
        "run": "run-1",
        "schema_version": 1,
        "usd": None,
        "duration_s": 0.0,
        "ts": "",
        "seq": 3,
    }


def test_every_line_has_its_time_and_an_ascending_number(stream):
    stream.tell("/root", Warned(message="w"))
    lines = stream.finish()
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[0]["ts"] == "1970-01-01T00:16:40.125Z"


def test_the_thread_starts_first_whatever_came_before():
    stream = Stream()
    stream.tell("", STARTED, ProviderChosen(provider="p", model="m", why="w"), Warned(message="x"))
    assert stream.lines() == []
    stream.tell("/root", ROOT)
    types = [line["type"] for line in stream.finish()]
    assert types == [
        "thread.started", "provider.chosen", "warning", "agent.spawned", "run.completed",
    ]  # fmt: skip


def test_the_items_of_a_fan_out_are_told_while_it_goes_on_though_the_root_starts_after_them():
    conversion = JsonConversion()
    ended = FanOutItemEnded(index=0, item="x", agent="/root/x", state="completed")
    told = []
    for seq, body in enumerate(
        (STARTED, FanOutPlanned(items=("x",), names=("x",), root_id=ROOT.agent_id), ended, ROOT), 1
    ):
        agent = "/root" if body is ROOT else ""
        lines = conversion.record_lines(Record(seq=seq, ts=0.0, body=body, agent=agent))
        told.append([type(line).__name__ for line in lines])
    assert told == [
        [], ["ThreadStartedLine", "FanOutPlannedLine"], ["FanOutItemLine"], ["AgentSpawnedLine"],
    ]  # fmt: skip


def test_a_run_that_never_began_still_says_why_and_ends():
    stream = Stream()
    stream.tell("", STARTED)
    lines = stream.finish(status="provider", message="no provider answers")
    assert [line["type"] for line in lines] == ["error", "run.completed"]
    assert lines[0]["message"] == lines[1]["message"] == "no provider answers"


def test_lines_of_other_agents_name_them(stream):
    path = "/root/scout"
    stream.tell(path, AgentSpawned(agent_id="s", path=path, epoch=1, pid=5, parent="/root"))
    stream.tell(path, TurnStarted(turn_id="t", model=MODEL))
    stream.tell("", AgentEnded(agent_id="s", state="completed", message="found"))
    spawned, turn, ended, _ = stream.finish()[2:]
    assert {line["agent"] for line in (spawned, turn, ended)} == {path}
    assert (ended["state"], ended["end_state"], ended["message"]) == ("ended", "completed", "found")
    assert "agent" not in stream.lines()[0]


def test_a_failed_turn_of_the_root_is_an_error_said_once(stream):
    failed = TurnFailed(turn_id="t", kind="unauthorized", message="wrong key")
    stream.tell("/root", failed)
    lines = stream.finish(status="provider", message="wrong key")
    assert [line["type"] for line in lines[2:]] == ["error", "turn.failed", "run.completed"]
    assert lines[3]["error"] == {"message": "wrong key"}


def test_an_interrupted_turn_has_an_end_too(stream):
    stream.tell("/root", TurnAborted(turn_id="t", reason="interrupted"))
    line = stream.finish(status="interrupted")[2]
    assert (line["type"], line["reason"]) == ("turn.failed", "interrupted")


def test_notices_one_can_recover_from_are_warnings_and_said_once(stream):
    waiting = Waiting(reason="stream cut", delay_s=1.0, attempt=1, max_attempts=5)
    for event in (
        waiting,
        waiting,
        Throttled(reason="429", delay_s=2.0),
        Throttled(reason="429", delay_s=1.0),
        Throttled(reason=""),
        TextArrived(turn_id="t", item_id="i", delta="x"),
    ):
        stream.view.on_feed(TransientEvent(agent="/root", event=event))
    lines = stream.finish()[2:-1]
    assert [(line["type"], line["message"]) for line in lines] == [
        ("warning", "stream cut (1/5)"),
        ("warning", "429"),
    ]


def test_a_plan_is_one_item_over_the_whole_turn(stream):
    for number, done in enumerate(("pending", "completed")):
        plan = (PlanStep(step="look", status=done),)
        call = f"c{number}"
        stream.tell(
            "/root",
            CallBegan(turn_id="t", call_id=call, tool="plan", detail=PlanCall(plan=plan)),
            CallEnded(turn_id="t", call_id=call, tool="plan", status="completed"),
        )
    stream.tell("/root", TurnCompleted(turn_id="t"))
    lines = stream.finish()
    assert items(lines) == [
        ("started", "item_4", None), ("updated", "item_4", None), ("completed", "item_4", None),
    ]  # fmt: skip
    assert lines[4]["item"]["items"] == [{"text": "look", "completed": True}]


def test_a_patch_is_a_file_change(stream):
    patch = PatchCall(changes=(FileChange(path="/w/a", kind="update", unified_diff="@@"),))
    stream.tell(
        "/root",
        CallBegan(turn_id="t", call_id="c", tool="apply_patch", detail=patch),
        CallEnded(turn_id="t", call_id="c", tool="apply_patch", status="declined"),
    )
    lines = stream.finish()
    assert items(lines) == [("started", "item_3", "in_progress"), ("completed", "item_3", "failed")]
    assert lines[2]["item"]["changes"] == [{"path": "/w/a", "kind": "update"}]


@pytest.mark.parametrize(
    ("status", "exit_code", "expected"),
    [
        ("completed", 0, "completed"),
        ("completed", 1, "failed"),
        ("failed", None, "failed"),
        ("declined", None, "declined"),
        ("interrupted", None, "failed"),
    ],
)
def test_how_a_command_ended(stream, status, exit_code, expected):
    ended = CallEnded(turn_id="t", call_id="c", tool="x", status=status, exit_code=exit_code)
    stream.tell("/root", CallBegan(turn_id="t", call_id="c", tool="x", detail=ECHO), ended)
    assert items(stream.finish())[-1] == ("completed", "item_3", expected)


def test_a_session_is_open_until_its_command_ends(stream):
    def ended(call_id, **fields):
        return CallEnded(turn_id="t", call_id=call_id, tool="x", status="completed", **fields)

    stdin = StdinCall(session_id=7, chars="y\n")
    stream.tell(
        "/root",
        CallBegan(turn_id="t", call_id="a", tool="exec_command", detail=ECHO),
        ended("a", session_id=7, output="sure? "),
        TurnCompleted(turn_id="t"),
        CallBegan(turn_id="u", call_id="b", tool="write_stdin", detail=stdin),
        ended("b", exit_code=0, output="yes"),
    )
    lines = [line for line in stream.finish() if line["type"].startswith("item.")]
    assert items(lines) == [
        ("started", "item_3", "in_progress"),
        ("updated", "item_3", "in_progress"),
        ("completed", "item_3", "completed"),
    ]
    assert lines[-1]["item"]["aggregated_output"] == "sure? yes"


def test_nothing_stays_open_when_a_process_dies(stream):
    stream.tell(
        "/root",
        CallBegan(turn_id="t", call_id="a", tool="x", detail=ECHO),
        CallBegan(turn_id="t", call_id="b", tool="list_dir", detail=OtherCall(argument="src")),
        ProcessEnded(agent_id="01a1", epoch=1, pid=4, reason="killed by signal 9"),
        AgentSpawned(agent_id="01a1", path="/root", epoch=2, pid=6),
    )
    lines = stream.finish()
    assert items(lines)[2:] == [
        ("completed", "item_3", "failed"),
        ("completed", "item_4", "failed"),
    ]
    states = [line["state"] for line in lines if line["type"] == "agent.status"]
    assert states == ["restarting", "starting"]


def test_reasoning_shows_its_summary_and_nothing_when_it_has_none(stream):
    for item in (Reasoning(summary=("a", "b")), Reasoning(encrypted_content="x")):
        stream.tell("/root", ItemRecorded(turn_id="t", item=item, item_id="i"))
    said = [line["item"] for line in stream.finish() if line["type"] == "item.completed"]
    assert said == [{"id": "item_3", "type": "reasoning", "text": "a\nb"}]


def test_a_fan_out_is_told_item_by_item(stream):
    stream.tell(
        "",
        FanOutPlanned(items=("a", "b"), names=("a", "b"), role="explorer", concurrency=2),
        FanOutItemEnded(index=0, item="a", agent="/root/a", state="completed"),
        FanOutItemEnded(index=1, item="b", agent="/root/b", state="failed", attempt=2),
    )
    planned, first, second, _ = stream.finish()[2:]
    assert (planned["total"], planned["role"], planned["concurrency"]) == (2, "explorer", 2)
    assert (first["agent"], first["done"], first["failed"], first["total"]) == ("/root/a", 1, 0, 2)
    assert (second["done"], second["failed"], second["attempt"]) == (1, 1, 2)


async def test_lines_are_written_while_the_run_goes_on_and_a_gone_reader_ends_them_quietly():
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as out, trio.fail_after(10):
        view = ExecJsonDisplay(out)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(view.draw, RunView)
            for seq, body in enumerate((STARTED, ROOT), start=1):
                view.on_feed(Recorded(record=Record(seq=seq, ts=1.0, agent="/root", body=body)))
            await trio.lowlevel.wait_readable(reading)
            assert b'"thread.started"' in os.read(reading, 65536)
            os.close(reading)
            record = Record(seq=3, ts=1.0, agent="/root", body=Warned(message="nobody reads"))
            view.on_feed(Recorded(record=record))
            while not view.closed:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        view.finish(RunCompleted(status="completed"))
