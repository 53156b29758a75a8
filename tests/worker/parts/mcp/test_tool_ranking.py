"""Which tools a search finds."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.mcp import McpTool
from swarm.worker.parts.mcp.tool_ranking import rank_tools, words_of


def tool(name, description="", server="s", **properties):
    schema = {"type": "object", "properties": properties}
    return McpTool(
        server=server,
        tool=name,
        name=f"mcp__{server}__{name}",
        description=description,
        parameters=msgspec.json.encode(schema),
    )


TOOLS = [
    tool("create_issue", "Opens a new issue in a repository.", title={"type": "string"}),
    tool("list_issues", "Lists the issues of a repository."),
    tool("send_message", "Sends a message to a channel.", channel={"description": "Its name."}),
    tool("getForecast", "Tomorrow's weather.", city={"description": "A place on earth."}),
    tool("query", "Runs a statement.", server="postgres", sql={"type": "string"}),
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("open a new issue", "create_issue"),
        ("list issue", "list_issues"),
        ("weather tomorrow", "getForecast"),
        ("forecasts", "getForecast"),
        ("place", "getForecast"),
        ("POSTGRES", "query"),
        ("sql", "query"),
        ("channel", "send_message"),
    ],
)
def test_names_descriptions_and_parameters_are_searched(query, first):
    assert rank_tools(query, TOOLS, limit=3)[0].tool == first


@pytest.mark.parametrize("query", ["", "zebra", "!?", "\u202e", "日本"])
def test_what_shares_no_word_finds_nothing(query):
    assert rank_tools(query, TOOLS, limit=3) == ()


def test_words_of_names_are_told_apart():
    assert words_of("getUsers_by2 HTTPServer class") == [
        "get",
        "user",
        "by",
        "2",
        "httpserver",
        "class",
    ]


@given(st.text(max_size=60), st.integers(1, 10))
def test_a_search_is_bounded_and_the_same_each_time(query, limit):
    found = rank_tools(query, TOOLS, limit=limit)
    assert len(found) <= limit
    assert len({one.name for one in found}) == len(found)
    assert rank_tools(query, TOOLS, limit=limit) == found


def test_a_schema_that_is_none_is_searched_by_name_alone():
    broken = msgspec.structs.replace(TOOLS[0], parameters=b"[1]")
    assert rank_tools("issue", [broken], limit=3) == (broken,)


@pytest.mark.parametrize(
    ("query", "better", "worse"),
    [
        ("issue zebra", "keeps a zebra", "keeps an issue"),  # the rarer word
        ("issue", "issue issue of it", "issue one of it"),  # the word twice
        ("issue", "an issue", "an issue among many other words that say little"),  # in less text
    ],
)
def test_rare_words_repeated_words_and_short_texts_count_more(query, better, worse):
    tools = [tool("a", "an issue"), tool("b", worse), tool("c", better)]
    if "zebra" not in query:
        tools = tools[1:]
    order = [one.tool for one in rank_tools(query, tools, limit=3)]
    assert order.index("c") < order.index("b")


def test_a_word_that_every_tool_has_still_finds_them_all():
    assert len(rank_tools("postgres", [TOOLS[4]] * 3, limit=3)) == 3
