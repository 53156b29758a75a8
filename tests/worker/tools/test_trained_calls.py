"""Calls by names that models were trained on become calls of the tools that they mean."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.trained_tool_names import TRAINED_TOOL_NAMES
from swarm.mailbox.protocol.items import CustomToolCall, FunctionCall
from swarm.worker.tools.interface.tool_interface import ToolFailed
from swarm.worker.tools.trained_calls import meant_call, tool_behind


def call(name: str, arguments: object) -> FunctionCall:
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return FunctionCall(call_id="c", name=name, arguments=text)


@pytest.mark.parametrize(
    ("name", "given_arguments", "command"),
    [
        ("shell", {"command": ["bash", "-lc", "ls | wc"]}, "ls | wc"),
        ("shell", {"command": ["git", "log", "a b"]}, "git log 'a b'"),
        ("container.exec", {"cmd": "make"}, "make"),
        ("bash", {"command": "make test"}, "make test"),
        ("read_file", {"path": "a b.py"}, "cat -- 'a b.py'"),
        ("read_file", {"path": "a.py", "start_line": 3, "end_line": 9}, "sed -n '3,9p' -- a.py"),
        ("read_file", {"file_path": "a.py", "offset": "5", "limit": 2}, "sed -n '5,6p' -- a.py"),
        (
            "str_replace_editor",
            {"command": "view", "path": "a", "view_range": [2, -1]},
            "sed -n '2,$p' -- a",
        ),
        ("list_files", {}, "ls -la -- ."),
        ("grep", {"pattern": "$(x)", "path": "-r"}, "grep -rnE -e '$(x)' -- -r"),
    ],
)
def test_a_command_or_a_look_at_files_becomes_a_command(name, given_arguments, command):
    meant = meant_call(call(name, given_arguments))
    assert meant.name == "exec_command"
    assert isinstance(meant, FunctionCall)
    assert msgspec.json.decode(meant.arguments)["cmd"] == command
    assert meant.call_id == "c"


@pytest.mark.parametrize(
    ("name", "tool"),
    [("bash", "exec_command"), ("edit", "edit_file"), ("create_file", "apply_patch"), ("fly", "")],
)
def test_a_trained_name_is_found_as_the_tool_that_runs_it(name, tool):
    assert tool_behind(name) == tool


def test_the_folder_of_a_command_is_kept():
    meant = meant_call(call("shell", {"command": "ls", "workdir": "/w"}))
    assert isinstance(meant, FunctionCall)
    assert msgspec.json.decode(meant.arguments) == {"cmd": "ls", "workdir": "/w"}


def test_a_written_file_is_a_patch_and_an_edit_is_an_edit():
    written = meant_call(call("write_file", {"path": "a.py", "content": "x\n\ny"}))
    assert written.name == "apply_patch"
    assert isinstance(written, FunctionCall)
    assert msgspec.json.decode(written.arguments)["input"] == (
        "*** Begin Patch\n*** Add File: a.py\n+x\n+\n+y\n\\ No newline at end of file\n"
        "*** End Patch"
    )
    fields = {"command": "str_replace", "path": "a.py", "old_str": "x", "new_str": "y"}
    edited = meant_call(call("str_replace_based_edit_tool", fields))
    assert edited.name == "edit_file"
    assert isinstance(edited, FunctionCall)
    assert msgspec.json.decode(edited.arguments) == {
        "path": "a.py",
        "old_text": "x",
        "new_text": "y",
    }


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("shell", "{", "failed to parse function arguments"),
        ("shell", {}, "no command was given"),
        ("read_file", {}, "no path was given"),
        ("write_file", {"path": "a\nb", "content": ""}, "a path of one line is needed"),
        ("str_replace_editor", {"command": "undo_edit", "path": "a"}, "does not exist here"),
        ("grep", {"path": "."}, "no pattern was given"),
    ],
)
def test_what_cannot_be_translated_is_said_with_what_to_do(name, arguments, text):
    with pytest.raises(ToolFailed, match=text):
        meant_call(call(name, arguments))


@pytest.mark.parametrize("content", [{"a": 1}, ["a"], 5, True, None])
@pytest.mark.parametrize(
    ("name", "fields", "field"),
    [
        ("write_file", {}, "content"),
        ("str_replace_editor", {"command": "create"}, "file_text"),
        ("edit", {"new_string": "b"}, "old_string"),
    ],
)
def test_what_is_no_text_never_empties_a_file(name, fields, field, content):
    with pytest.raises(ToolFailed, match="nothing was changed"):
        meant_call(call(name, {"path": "a.json", **fields, field: content}))


def test_a_replacement_that_is_no_text_is_refused_and_none_removes():
    fields = {"path": "a", "old_string": "x"}
    with pytest.raises(ToolFailed, match="`new_string` is not text"):
        meant_call(call("edit", {**fields, "new_string": {"a": 1}}))
    removed = msgspec.json.decode(meant_call(call("edit", fields)).arguments)
    assert removed == {"path": "a", "old_text": "x", "new_text": ""}


def test_other_calls_stay_as_they_are():
    for other in (
        call("exec_command", {"cmd": "ls"}),
        CustomToolCall(call_id="c", name="shell", input=""),
    ):
        assert meant_call(other) is other  # fmt: skip


WORDS = st.lists(st.text(max_size=3), max_size=3)


@given(
    st.sampled_from(sorted(TRAINED_TOOL_NAMES)),
    st.dictionaries(
        st.sampled_from(("command", "path", "content", "start_line", "view_range", "limit")),
        st.none() | st.text(max_size=8) | st.integers() | st.floats() | WORDS,
        max_size=5,
    ),
)
def test_any_arguments_give_a_call_of_our_tool_or_words(name, fields):
    try:
        meant = meant_call(call(name, fields))
    except ToolFailed:
        return
    assert meant.name in {"exec_command", "apply_patch", "edit_file"}
