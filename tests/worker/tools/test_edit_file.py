"""edit_file: what a small model's edit becomes, as a patch, and what it reads when it is wrong."""

import re

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from swarm.mailbox.protocol.events import PatchCall
from swarm.mailbox.protocol.items import FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.parts.patch.chunk_matching import apply_edits, locate_edits
from swarm.worker.parts.patch.parse import AddFile, UpdateFile, parse_patch
from swarm.worker.policy.command_decision import Run
from swarm.worker.sandbox.sandbox_plan import plan_sandbox
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.edit_file import (
    EditFileArguments,
    EditFileTool,
    find_removed_names,
    find_tested_files,
    is_test,
    write_patch,
)
from swarm.worker.tools.interface.tool_context import ToolContext
from swarm.worker.tools.interface.tool_interface import ToolFailed

SMALL = ModelInfo(slug="m", provider="p", wire="local", constrained_calls=True)
CODE = "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n"


def edit(old, new, path="calc.py"):
    return EditFileArguments(path=path, old_text=old, new_text=new)


def edited(text, old, new):
    """The file after the patch, as apply_patch would write it."""
    (hunk,) = parse_patch(write_patch(text, edit(old, new))).hunks
    assert isinstance(hunk, UpdateFile)
    return apply_edits(text, locate_edits(text, hunk.chunks, hunk.path))


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("def add(a, b):\n    return a - b", "def add(a, b):\n    return a + b", 1),
        ("def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n", 1),
        ("def add(a, b):\nreturn a - b", "def add(a, b):\n    return a + b", 1),
        ("def add", "def plus", "def plus(a, b):\n"),
    ],
)
def test_the_text_that_stands_once_is_replaced_whatever_blanks_the_model_lost(old, new, after):
    whole = edited(CODE, old, new)
    wanted = CODE.replace("a - b", "a + b", after) if after == 1 else None
    assert whole == wanted if wanted else whole.startswith(after)


def test_a_line_that_lost_its_indentation_gets_it_back():
    text = "class A:\n    def f(self):\n        return 1\n"
    assert edited(text, "return 1\n", "return 2\n") == text.replace("1", "2")
    assert edited(text, "def f(self):\nreturn 1", "def f(self):\n    return 2") == (
        "class A:\n    def f(self):\n        return 2\n"
    )


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        (CODE, "return a - b", "return a + b", "stands 2 times"),
        (CODE, "return x", "return y", "stands nowhere in calc.py. It is:\ndef add"),
        (CODE, "", "def add(a, b):\n    return 1\n", "add is defined in calc.py already: copy"),
        (CODE, "", "", "new_text is empty: copy the lines"),
        (CODE, "def add", "def add", "nothing would change"),
        (None, "def add", "def plus", "there is no file calc.py"),
    ],
)
def test_a_wrong_edit_is_told_with_what_the_file_holds(text, old, new, said):
    with pytest.raises(ToolFailed, match=re.escape(said)):
        write_patch(text, edit(old, new))


@pytest.mark.parametrize("text", [None, "", "\n"])
def test_an_empty_old_text_writes_a_new_file(text):
    (hunk,) = parse_patch(write_patch(text, edit("", "a\n\nb"))).hunks
    assert isinstance(hunk, AddFile)
    assert hunk.content.rstrip("\n") == "a\n\nb"


@pytest.mark.parametrize("text", [CODE, CODE.rstrip(), "x = 1\n\n"])
def test_an_empty_old_text_adds_at_the_end_of_a_file_that_exists(text):
    assert edited(text, "", "def mul(a, b):\n    return a * b") == (
        text.rstrip("\n") + "\n" * max(1, len(text) - len(text.rstrip("\n")))
        + "\n\ndef mul(a, b):\n    return a * b" + "\n" * text.endswith("\n")
    )  # fmt: skip


def test_an_empty_old_text_with_most_of_the_file_replaces_all_of_it():
    new = CODE.replace("return a - b", "return a + b", 1)
    assert edited(CODE, "", new) == new
    assert edited(
        "[http]\nretries = 3\ntimeout_s = 30\n", "", "[http]\nretries = 3\ntimeout_s = 45"
    ) == ("[http]\nretries = 3\ntimeout_s = 45\n")
    with pytest.raises(ToolFailed, match="nothing would change"):
        write_patch(CODE, edit("", CODE))


_LINES = st.lists(st.sampled_from(["a", "b", "  c", "\td", "", "e f", "x = 1"]), min_size=1)


@given(_LINES, st.data(), _LINES)
def test_an_exact_edit_changes_that_text_and_nothing_else(lines, data, new_lines):
    text = "\n".join(lines) + "\n"
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    old, new = text[start:end], "\n".join(new_lines)
    assume(old.strip() and text.count(old) == 1 and not old.endswith("\n"))
    assume(new.strip())  # without a new text the line goes, with its end
    wanted = text.replace(old, new)
    assume(wanted != text)
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    whole_lines = text[first : len(text) if last < 0 else last]
    assume(f"\n{text}".count(f"\n{whole_lines}\n") == 1)
    assert edited(text, old, new) == wanted


class Commands:
    def plan(self, policy, cwd, extra=None):
        return plan_sandbox(policy, cwd=cwd, tmp_dir=None, stack="bwrap")


async def test_an_edit_is_judged_and_shown_like_a_patch(tmp_path):
    (tmp_path / "calc.py").write_text(CODE)
    limits = Limits(sandbox=WorkspaceWrite(), approval="on-request")
    spec = msgspec.structs.replace(FAKE_AGENT_SPEC, cwd=str(tmp_path), limits=limits)
    tool = EditFileTool(ToolContext(CurrentSpec(spec), Commands()))
    arguments = {"path": "calc.py", "old_text": "def add", "new_text": "def plus"}
    call = FunctionCall(
        call_id="c", name="edit_file", arguments=msgspec.json.encode(arguments).decode()
    )
    invocation = await tool.prepare(call)
    assert isinstance(invocation.judge(), Run)
    assert isinstance(invocation.detail, PatchCall)
    assert "+def plus(a, b):" in invocation.detail.changes[0].unified_diff


@pytest.mark.parametrize(
    ("path", "old", "new", "words"),
    [
        ("calc.py", "<lines as they are>", "<lines as they are to be>", "old_text is only a place"),
        ("calc.py", "old_text", "x = 1", "old_text is only a placeholder"),
        ("calc.py", "def add", "<lines as they are to be>", "new_text is only a placeholder"),
        ("data.bin", "a", "b", "not a text file"),
    ],
)
async def test_placeholders_and_binary_files_are_refused_without_the_files_text(
    tmp_path, path, old, new, words
):
    (tmp_path / "calc.py").write_text(CODE)
    (tmp_path / "data.bin").write_bytes(b"a\0b")
    spec = msgspec.structs.replace(FAKE_AGENT_SPEC, cwd=str(tmp_path))
    tool = EditFileTool(ToolContext(CurrentSpec(spec), Commands()))
    tool.describe(SMALL)
    arguments = {"path": path, "old_text": old, "new_text": new}
    text = msgspec.json.encode(arguments).decode()
    with pytest.raises(ToolFailed, match=words) as refused:
        await tool.prepare(FunctionCall(call_id="c", name="edit_file", arguments=text))
    assert "return" not in str(refused.value)


def test_lines_that_a_model_wrote_as_one_are_edited_in_their_layout():
    old, new = "def add(a, b): return a - b", "def add(a, b): return a + b"
    assert edited(CODE, old, new) == CODE.replace("a - b", "a + b", 1)


TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"


async def change_test(tool, old="== 3"):
    arguments = {"path": "test_calc.py", "old_text": old, "new_text": "== -1"}
    call = FunctionCall(
        call_id="c", name="edit_file", arguments=msgspec.json.encode(arguments).decode()
    )
    return await tool.prepare(call)


async def test_the_first_changes_of_a_test_are_held_back_with_the_code_that_it_tests(tmp_path):
    (tmp_path / "calc.py").write_text(CODE)
    (tmp_path / "test_calc.py").write_text(TEST)
    limits = Limits(sandbox=WorkspaceWrite(), approval="on-request")
    spec = msgspec.structs.replace(FAKE_AGENT_SPEC, cwd=str(tmp_path), limits=limits)
    tool = EditFileTool(ToolContext(CurrentSpec(spec), Commands()))
    await change_test(tool)  # another model knows what it does
    tool.describe(SMALL)
    for _ in range(2):
        with pytest.raises(ToolFailed, match=r"is in calc.py:\ndef add\(a, b\)"):
            await change_test(tool)
    assert isinstance((await change_test(tool)).judge(), Run)


async def test_an_edit_of_the_code_that_names_the_test_changes_the_code(tmp_path):
    (tmp_path / "calc.py").write_text(CODE)
    (tmp_path / "test_calc.py").write_text(TEST)
    limits = Limits(sandbox=WorkspaceWrite(), approval="on-request")
    spec = msgspec.structs.replace(FAKE_AGENT_SPEC, cwd=str(tmp_path), limits=limits)
    tool = EditFileTool(ToolContext(CurrentSpec(spec), Commands()))
    tool.describe(SMALL)
    invocation = await change_test(tool, old="def add(a, b):\n    return a - b")
    result = await invocation.run(invocation.judge(), lambda data: None)
    assert result.text.startswith(
        "old_text stands in calc.py, not in test_calc.py: calc.py was changed.\n"
    )
    assert (tmp_path / "calc.py").read_text().startswith("== -1\n")
    assert (tmp_path / "test_calc.py").read_text() == TEST
    with pytest.raises(ToolFailed, match="it is a test"):  # too short to be sure of
        await change_test(tool, old="def sub")


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("test_a.py", "import a.b\n", ["a/b.py"]),
        ("tests/test_a.py", "from a import b\n", ["tests/a.py", "a.py"]),
        ("a.test.js", "const a = require('a')", []),
    ],
)
def test_the_code_of_a_test_is_looked_for_where_the_test_imports_it(path, text, found):
    assert is_test(path)
    assert find_tested_files(path, text) == found


async def test_a_renamed_function_is_told_with_the_files_that_still_use_the_old_name(tmp_path):
    (tmp_path / "calc.py").write_text(CODE)
    (tmp_path / "main.py").write_text("from calc import add\n")
    (tmp_path / "other.py").write_text("x = 'additional'\n")
    limits = Limits(sandbox=WorkspaceWrite(), approval="on-request")
    spec = msgspec.structs.replace(FAKE_AGENT_SPEC, cwd=str(tmp_path), limits=limits)
    tool = EditFileTool(ToolContext(CurrentSpec(spec), Commands()))
    arguments = {"path": "calc.py", "old_text": "def add(a, b):", "new_text": "def plus(a, b):"}
    text = msgspec.json.encode(arguments).decode()
    call = FunctionCall(call_id="c", name="edit_file", arguments=text)
    invocation = await tool.prepare(call)
    result = await invocation.run(invocation.judge(), lambda data: None)
    assert result.text.endswith(
        "These files still use the old name: main.py (add). Change them too.\n"
    )


@pytest.mark.parametrize(
    ("old", "new", "removed"),
    [
        ("load_data", "read_table", {"load_data"}),
        ("def f(a):\n    return 1", "def g(a):\n    return 1", {"f"}),
        ("def f(a):\n    return 1", "def f(a):\n    return 2", set()),
        ("x = 1", "x = 2", set()),
        ("", "def f(): pass", set()),
    ],
)
def test_an_edit_removes_the_name_that_it_replaces_or_no_longer_defines(old, new, removed):
    assert find_removed_names(edit(old, new)) == removed


def test_only_a_model_with_constrained_calls_is_offered_it():
    tool = EditFileTool(ToolContext(CurrentSpec(FAKE_AGENT_SPEC), Commands()))
    assert tool.describe(SMALL) is not None
    assert tool.describe(msgspec.structs.replace(SMALL, constrained_calls=False)) is None
