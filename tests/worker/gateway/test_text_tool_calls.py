"""Calls written as text are found in every dialect, and never where there is none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.gateway.text_tool_calls import ExtractedCall, extract_tool_calls

OFFERED = frozenset({"exec_command", "list_dir"})
CALL = '{"name": "exec_command", "arguments": {"cmd": "ls"}}'
READ = ExtractedCall("exec_command", '{"cmd":"ls"}')


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"  {CALL}  \n",
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```",
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}",
        f"<tool_call>```json\n{CALL}\n```</tool_call>",
        "<function=exec_command>\n<parameter=cmd>\nls\n</parameter>\n</function>",
        '<function=exec_command>{"cmd": "ls"}</function>',
        "<tool_call><function=exec_command><parameter=cmd>ls</parameter></function></tool_call>",
        '{"name": "exec_command", "parameters": {"cmd": "ls"}}',
        '{"tool": "exec_command", "args": {"cmd": "ls"}}',
        '{"type": "function", "function": {"name": "exec_command", "arguments": {"cmd": "ls"}}}',
        '{"name": "exec_command", "arguments": "{\\"cmd\\": \\"ls\\"}"}',
        f"[{CALL}]",
        f"{{{CALL}}}",
        f"```json\n{{{CALL}}}\n```",
        f"<tool_call>\n{{{CALL}}}\n</tool_call>",
        f"<tool_call>\n{{{CALL}\n</tool_call>",
    ],
)
def test_each_dialect_is_read(text):
    reading = extract_tool_calls(text, OFFERED)
    assert reading.calls == (READ,)
    assert reading.text == ""


def test_the_words_around_a_call_stay():
    reading = extract_tool_calls(f"I will look.\n{CALL}\nThen I report.", OFFERED)
    assert reading.calls == (READ,)
    assert reading.text == "I will look.\nThen I report."


def test_several_calls_come_in_order():
    second = '{"name": "list_dir", "arguments": {}}'
    for text in (f"{CALL}\n{second}", f"<tool_call>{CALL}</tool_call><tool_call>{second}"):
        assert extract_tool_calls(text, OFFERED).calls == (READ, ExtractedCall("list_dir", "{}"))


@pytest.mark.parametrize(
    "text",
    [
        "Call exec_command with ls.",
        f"You could write {CALL} to list files.",
        '{"name": "rm_rf", "arguments": {}}',
        '{"name": "exec_command"}',
        '{"name": "exec_command", "arguments": {}, "price": 3}',
        '{"name": "exec_command", "arguments": 5}',
        '{"name": "exec_command", "arguments": {"cmd": "ls"',
        "<function=rm_rf></function>",
        "```python\nexec_command('ls')\n```",
        "<tool_call>nothing</tool_call>",
        "[1, 2, 3]",
        "{" * 5000,
        "[" * 100_000,
    ],
)
def test_what_is_no_clear_call_stays_text(text):
    assert extract_tool_calls(text, OFFERED) == (text, ())


def test_a_flood_of_calls_is_none():
    text = "\n".join([CALL] * 50)
    assert extract_tool_calls(text, OFFERED) == (text, ())


def test_without_offered_tools_nothing_is_read():
    assert extract_tool_calls(CALL, frozenset()) == (CALL, ())


@given(st.text(max_size=400))
def test_plain_prose_never_becomes_a_call(text):
    assert extract_tool_calls(text, OFFERED) == (text, ())


fragments = st.sampled_from(
    [
        *(
            CALL,
            "{",
            "}",
            "[",
            "]",
            "```json\n",
            "\n```",
            "<tool_call>",
            "</tool_call>",
            "\n",
            "\\",
        ),
        *("<function=exec_command>", "</function>", "<parameter=cmd>", "</parameter>", '"'),
    ]
)


@given(st.lists(fragments | st.text(max_size=8), max_size=20))
def test_no_text_breaks_the_reader_and_every_call_is_an_offered_one(parts):
    for call in extract_tool_calls("".join(parts), OFFERED).calls:
        assert call.name in OFFERED
        assert isinstance(json.loads(call.arguments), dict)
