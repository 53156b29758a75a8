"""Which answers are sent back as calls that nobody can read, and what the model is shown then."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.sampling import ToolSpec
from swarm.worker.agent.turn.unreadable_calls import find_unreadable_call


def tool(name: str, *required: str) -> ToolSpec:
    schema = {"type": "object", "required": list(required)}
    return ToolSpec(name=name, description="", parameters=msgspec.json.encode(schema))


TOOLS = (tool("exec_command", "cmd"), tool("apply_patch", "input"), tool("list_dir", "dir_path"))
PATCH = "*** Begin Patch\n*** Delete File: a\n*** End Patch"


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('{"name": "exec_command", "arguments": {"cmd": ls -la}}', "exec_command", "ls -la"),
        (
            "```json\n{'name': 'exec_command', 'arguments': {'cmd': 'ls'}}\n```",
            "exec_command",
            "ls",
        ),
        ('{"name": "exec_command", "arguments": {"cmd": "ls"', "exec_command", "ls"),
        ('[{"name": "list_dir", "parameters": {"dir_path": "src"}]', "list_dir", "src"),
        ('<response><exec_command cmd="ls -l"/></response>', "exec_command", "ls -l"),
        ("<tool_call>\nexec_command: cmd = pytest\n</tool_call>", "exec_command", "pytest"),
        ("[TOOL_CALLS] list_dir(dir_path='a')", "list_dir", "a"),
        ("functions.exec_command(cmd='make')", "exec_command", "make"),
        (f"I will do it:\n```patch\n{PATCH}\n```", "apply_patch", PATCH),
        (f'```\napply_patch(input="""{PATCH}""")\n```', "apply_patch", PATCH),
        ('{"name": "read_file", "arguments": {"path": a.py}}', "read_file", "…"),
        ('{"name": "fly_away", "arguments": {"cmd": "x"}}', "fly_away", "x"),
    ],
)
def test_a_text_that_is_meant_as_a_call_is_sent_back_with_its_own_arguments(text, name, arguments):
    call = find_unreadable_call(text, TOOLS)
    assert call is not None
    assert call.tool == name
    form = msgspec.json.decode(call.form)
    assert form["name"] in {tool.name for tool in TOOLS}
    assert list(form["arguments"].values()) == [arguments]
    assert call.form in call.correction()


def test_a_call_of_a_tool_that_is_not_there_is_answered_with_those_that_are():
    call = find_unreadable_call('{"name": "fly_away", "arguments": {}}', TOOLS)
    assert call is not None
    assert "no tool fly_away; the tools are exec_command, apply_patch, list_dir" in call.reason


@pytest.mark.parametrize(
    "text",
    [
        "The bug is fixed; all tests pass.",
        "",
        '{"answer": 42}',
        '{"name": "Ada", "born": 1815}',
        "I ran `exec_command` with ls and found three files.",
        "Run this yourself:\n```sh\nls -la\n```",
        "```python\ndef exec_command(cmd):\n    return cmd\n```\n"
        + "It only returns its input. " * 20,
        "<b>done</b>",
        "list_dir(dir_path) lists a folder, and exec_command(cmd) runs a command.",
        "The format of a patch is:\n" + "Each file has a header line. " * 20 + PATCH,
        '[1, 2, {"name": "x"}]',
    ],
)
def test_an_answer_is_left_alone(text):
    assert find_unreadable_call(text, TOOLS) is None


def test_without_tools_every_text_is_an_answer():
    assert find_unreadable_call('{"name": "exec_command", "arguments": {"cmd": "ls"}}', ()) is None


PIECES = ["{", "}", '"', "'", '"""', "name", "cmd", ":", "exec_command", "```", "\n", "<", "(", ")"]


@given(st.lists(st.sampled_from([*PIECES, "*** Begin Patch\n", "\\", "x"]), max_size=60))
def test_any_text_has_a_verdict_and_a_form_that_is_json(pieces):
    call = find_unreadable_call("".join(pieces), TOOLS)
    if call is not None:
        assert set(msgspec.json.decode(call.form)) == {"name", "arguments"}


@pytest.mark.parametrize("piece", ["cmd:'''", "```\n", "<exec_command ", "name:", "f(", '{"a":'])
def test_a_hostile_text_of_full_size_costs_no_more_than_its_length(piece):
    text = "{" + '"name": "exec_command", ' + piece * (90_000 // len(piece))
    find_unreadable_call(text, TOOLS)  # ends: the limit of the test is the proof
