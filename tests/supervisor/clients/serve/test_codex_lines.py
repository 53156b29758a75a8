"""The lines of `swarm exec`: what Codex's SDKs decode, and nothing else."""

import json

import pytest

from swarm.mailbox.protocol.parsed_command import Unknown
from swarm.supervisor.clients.serve.codex_lines import CodexLines
from swarm.supervisor.clients.serve.json_lines import (
    AgentMessage,
    AgentStatusLine,
    CommandExecution,
    ErrorLine,
    ErrorText,
    FileChangeItem,
    ItemCompletedLine,
    ItemStartedLine,
    ItemUpdatedLine,
    JsonFileChange,
    JsonLine,
    JsonUsage,
    ProviderLine,
    ThreadStartedLine,
    Todo,
    TodoList,
    ToolCall,
    TurnCompletedLine,
    TurnFailedLine,
    TurnStartedLine,
    WarningLine,
)

USAGE, TOTAL = JsonUsage(input_tokens=1), JsonUsage(input_tokens=3, output_tokens=2)
COUNTS = {
    "input_tokens": 3,
    "cached_input_tokens": 0,
    "cache_write_input_tokens": 0,
    "output_tokens": 2,
    "reasoning_output_tokens": 0,
}


def rendered(*lines: JsonLine) -> list[dict]:
    render = CodexLines()
    found = [render(line, 0.0) for line in lines]
    return [json.loads(line) for line in found if line is not None]


@pytest.mark.parametrize(
    ("line", "event"),
    [
        (
            ThreadStartedLine(thread_id="agent", run="run-1"),
            {"type": "thread.started", "thread_id": "run-1"},
        ),
        (TurnStartedLine(), {"type": "turn.started"}),
        (
            TurnCompletedLine(usage=USAGE, total_usage=TOTAL),
            {"type": "turn.completed", "usage": COUNTS},
        ),
        (
            TurnFailedLine(
                error=ErrorText(message="no"), reason="other", usage=USAGE, total_usage=TOTAL
            ),
            {"type": "turn.failed", "error": {"message": "no"}},
        ),
        (ErrorLine(message="no"), {"type": "error", "message": "no"}),
        (
            WarningLine(message="slow"),
            {
                "type": "item.completed",
                "item": {"id": "item_0", "type": "error", "message": "slow"},
            },
        ),
    ],
)
def test_each_line_has_its_form(line, event):
    assert rendered(line) == [event]


@pytest.mark.parametrize(
    "line",
    [
        ProviderLine(provider="p", model="m", why="w"),
        AgentStatusLine(agent="/root/a", state="ended", message=""),
        ItemCompletedLine(agent="/root/a", item=AgentMessage(id="item_9", text="a child's")),
        TurnFailedLine(
            error=ErrorText(message="x"), reason="interrupted", usage=USAGE, total_usage=TOTAL
        ),
    ],
)
def test_additions_other_agents_and_interrupts_have_no_line(line):
    assert rendered(line) == []


def test_items_keep_one_id_and_count_from_zero():
    command = CommandExecution(id="item_17", command="ls", parsed_cmd=(Unknown(cmd="ls"),))
    events = rendered(
        ItemStartedLine(item=command),
        ItemCompletedLine(item=AgentMessage(id="item_20", text="hi")),
        ItemUpdatedLine(item=command),
        ItemCompletedLine(item=command),
    )
    assert [event["item"]["id"] for event in events] == ["item_0", "item_1", "item_0", "item_0"]


def test_items_have_the_fields_that_the_sdks_know():
    change = JsonFileChange(path="a", kind="update", move_path="b")
    call = ToolCall(id="1", tool="spawn_agent", argument="scout", output="done", status="completed")
    items = [
        CommandExecution(id="2", command="ls", parsed_cmd=(), status="declined"),
        FileChangeItem(id="3", changes=(change,), status="failed"),
        TodoList(id="4", items=(Todo(text="t", completed=True),)),
        call,
        ToolCall(id="5", tool="wait_agent", argument="", status="failed"),
    ]
    events = rendered(*(ItemCompletedLine(item=one) for one in items))
    assert [event["item"] for event in events] == [
        {"id": "item_0", "type": "command_execution", "command": "ls", "aggregated_output": "",
         "exit_code": None, "status": "failed"},
        {"id": "item_1", "type": "file_change", "changes": [{"path": "a", "kind": "update"}],
         "status": "failed"},
        {"id": "item_2", "type": "todo_list", "items": [{"text": "t", "completed": True}]},
        {"id": "item_3", "type": "mcp_tool_call", "server": "swarm", "tool": "spawn_agent",
         "arguments": {"argument": "scout"}, "error": None, "status": "completed",
         "result": {"content": [{"type": "text", "text": "done"}], "structured_content": None}},
        {"id": "item_4", "type": "mcp_tool_call", "server": "swarm", "tool": "wait_agent",
         "arguments": {}, "error": {"message": "the call failed"}, "status": "failed",
         "result": None},
    ]  # fmt: skip
