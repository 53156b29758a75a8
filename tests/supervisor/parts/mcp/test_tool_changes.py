"""The lists of tools that agents were offered: what is different in the next one."""

import pytest

from swarm.mailbox.protocol.mcp import McpFailure, McpTool, McpTools
from swarm.supervisor.parts.mcp.tool_changes import MAX_AGENTS, OfferedTools


def tool(name, digest="d", server="a"):
    return McpTool(server=server, tool=name, name=name, digest=digest)


def offered(*lists, failures=()):
    """What is said of the last of these lists of one agent."""
    tools = OfferedTools()
    said = [tools.note("agent", McpTools(tools=tuple(one))) for one in lists[:-1]]
    assert said[0] == ""  # nothing is new to an agent that had no list
    broken = tuple(McpFailure(server=one, reason="r") for one in failures)
    return tools.note("agent", McpTools(tools=tuple(lists[-1]), failures=broken))


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ([tool("x"), tool("y")], [tool("y"), tool("x")], ""),
        ([tool("x")], [tool("x"), tool("y")], "tools of MCP server `a`: y (new)"),
        ([tool("x")], [tool("x", "e")], "tools of MCP server `a`: x (changed)"),
        (
            [tool("x"), tool("z", server="b")],
            [],
            "tools of MCP server `a`: x (gone); tools of MCP server `b`: z (gone)",
        ),
    ],
)
def test_each_change_is_named(before, now, said):
    assert offered(before, now) == said


def test_a_change_is_said_once():
    assert offered([tool("x")], [tool("y")], [tool("y")]) == ""


def test_many_changes_are_counted():
    said = offered([], [tool(f"t{number:02}") for number in range(30)])
    assert said.endswith("t11 (new) and 18 more")


def test_tools_of_a_server_that_cannot_be_asked_are_not_gone():
    before = [tool("x"), tool("z", server="b")]
    assert offered(before, [tool("x")], failures=("b",)) == ""
    assert offered(before, [tool("y")], failures=("a",)).startswith("tools of MCP server `a`: x")


def test_agents_with_the_same_list_share_it_and_few_are_remembered():
    tools = OfferedTools()
    for number in range(MAX_AGENTS + 10):
        tools.note(f"agent{number}", McpTools(tools=(tool("x"),)))
    kept = tools._of_agent
    assert len(kept) == MAX_AGENTS
    assert len({id(one) for one in kept.values()}) == 1
