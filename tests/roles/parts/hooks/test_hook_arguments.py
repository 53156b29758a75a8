"""Arguments of an MCP tool from an event: a template's fields, filled in."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.roles.parts.hooks.hook_arguments import mcp_answer, mcp_arguments

EVENT = json.dumps({"cwd": "/p", "tool_input": {"file_path": "a.py", "n": 3}}).encode()


def filled(template):
    return json.loads(mcp_arguments(template, EVENT))


@pytest.mark.parametrize(
    ("template", "arguments"),
    [
        (None, json.loads(EVENT)),
        ({}, {}),
        ({"path": "${tool_input.file_path}"}, {"path": "a.py"}),
        ({"n": "${tool_input.n}", "text": "n is ${tool_input.n}"}, {"n": 3, "text": "n is 3"}),
        ({"all": ["${tool_input}"]}, {"all": [{"file_path": "a.py", "n": 3}]}),
        ({"none": "${a.b.c}", "cwd.x": "${cwd.x}"}, {"none": "", "cwd.x": ""}),
        ({"plain": 1.5, "flag": True}, {"plain": 1.5, "flag": True}),
    ],
)
def test_a_template_is_filled_from_the_event(template, arguments):
    assert filled(template) == arguments


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ('[{"type":"text","text":"{}"},{"type":"text","text":"b"}]', "{}\nb"),
        ('[{"type":"audio"}, 1]', "\n"),
        ('{"result":"plain"}', "plain"),
        ('{"decision":"block","reason":"r"}', '{"decision":"block","reason":"r"}'),
        ("no JSON", "no JSON"),
    ],
)
def test_a_tools_result_is_what_it_said(result, said):
    assert mcp_answer(result) == said


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.text(), st.lists)))
def test_any_template_gives_a_json_object(template):
    assert isinstance(filled(template), dict)
