"""Tools that each request does not describe: when, how they are found, and how they are called."""

import msgspec
import pytest

from swarm.mailbox.protocol.items import FunctionCall
from swarm.mailbox.protocol.mcp import McpTool
from swarm.worker.policy.command_decision import Run
from swarm.worker.tools.interface.tool_interface import ToolFailed
from swarm.worker.tools.tool_search import (
    MAX_DESCRIBED,
    CallMcpToolTool,
    ToolSearchTool,
    found_text,
    should_defer,
)


def tool(number=0, size=0):
    return McpTool(
        server="docs", tool=f"t{number}", name=f"mcp__docs__t{number}", description="d" * size
    )


@pytest.mark.parametrize(
    ("tools", "deferred"),
    [
        ([], False),
        ([tool(number) for number in range(MAX_DESCRIBED)], False),
        ([tool(number) for number in range(MAX_DESCRIBED + 1)], True),
        ([tool(size=4_000)], False),
        ([tool(size=4_096)], True),
    ],
)
def test_tools_are_deferred_beyond_a_number_and_a_size(tools, deferred):
    assert should_defer(tools) is deferred


async def searched(found, **arguments):
    noted = []

    async def search(query):
        return found

    one = ToolSearchTool({"docs": 2, "api": 1}, search, noted.extend)
    text = msgspec.json.encode(arguments).decode()
    prepared = await one.prepare(FunctionCall(call_id="c", name="tool_search", arguments=text))
    assert prepared.judge() == Run()
    return (await prepared.run(Run(), lambda text: None)).content, noted


async def test_what_was_found_is_told_and_remembered():
    found = tuple(tool(number) for number in range(9))
    content, noted = await searched(found, query="some", limit=2)
    lines = [msgspec.json.decode(line) for line in content.splitlines()]
    assert [one["name"] for one in lines] == ["mcp__docs__t0", "mcp__docs__t1"]
    assert lines[0]["parameters"] == {}
    assert noted == list(found[:2])


async def test_a_search_without_result_names_the_servers():
    content, noted = await searched((), query="some")
    assert "api (1), docs (2)" in content
    assert noted == []


async def test_a_search_needs_a_word():
    with pytest.raises(ToolFailed, match="at least one word"):
        await searched((), query="  ")


def test_the_answer_is_bounded_and_names_what_is_left_out():
    text = found_text([tool(number, size=2_000) for number in range(20)], "docs (20)")
    assert len(text) < 26_000
    assert text.splitlines()[-1].endswith("mcp__docs__t19")


class Known:
    name = "mcp__docs__t0"

    async def prepare(self, call):
        return call


async def test_a_call_by_name_is_prepared_by_the_tool_itself():
    caller = CallMcpToolTool({"mcp__docs__t0": Known()}.get)
    text = '{"name": "mcp__docs__t0", "arguments": {"a": [1]}}'
    call = FunctionCall(call_id="c", name="call_mcp_tool", arguments=text)
    assert await caller.prepare(call) == FunctionCall(
        call_id="c", name="mcp__docs__t0", arguments='{"a":[1]}'
    )


async def test_a_call_of_another_tool_is_refused():
    call = FunctionCall(call_id="c", name="call_mcp_tool", arguments='{"name": "exec_command"}')
    with pytest.raises(ToolFailed, match="there is no MCP tool `exec_command`"):
        await CallMcpToolTool({}.get).prepare(call)
