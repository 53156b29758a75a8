"""Names of MCP tools: legal, unique, stable, and independent of the order of the servers."""

import re

from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.parts.mcp.mcp_tool_names import MAX_NAME, ToolIdentity, name_tools

LEGAL = re.compile(r"[A-Za-z0-9_]{1,64}")
RAW = st.text(max_size=80)
TOOLS = st.lists(st.builds(ToolIdentity, RAW, RAW), max_size=20)


def names(*tools):
    return list(name_tools([ToolIdentity(*one) for one in tools]).values())


def test_a_name_holds_server_and_tool():
    assert names(("docs", "search")) == ["mcp__docs__search"]


def test_other_characters_become_an_underscore_and_an_empty_name_too():
    assert names(("a.b", "../x y")) == ["mcp__a_b_____x_y"]
    assert names(("a", "")) == ["mcp__a___"]


def test_servers_and_tools_that_would_be_called_the_same_get_a_hash_each():
    first, second = names(("a.b", "x"), ("a-b", "x"))
    assert re.fullmatch(r"mcp__a_b_[0-9a-f]{12}__x", first)
    assert re.fullmatch(r"mcp__a_b_[0-9a-f]{12}__x", second)
    assert first != second
    first, second = names(("a", "x.y"), ("a", "x-y"))
    assert re.fullmatch(r"mcp__a__x_y_[0-9a-f]{12}", first)
    assert first != second


def test_a_long_name_keeps_its_server_and_ends_in_a_hash():
    (name,) = names(("docs", "x" * 100))
    assert len(name) == MAX_NAME
    assert re.fullmatch(r"mcp__docs__x+_[0-9a-f]{12}", name)


@given(TOOLS)
def test_names_are_legal_and_unique_and_do_not_depend_on_the_order(tools):
    found = name_tools(tools)
    assert set(found) == set(tools)
    assert len(set(found.values())) == len(found)
    assert all(LEGAL.fullmatch(name) for name in found.values())
    assert name_tools(tools[::-1]) == found
