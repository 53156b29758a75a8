"""Tool calls as an editor shows them."""

import pytest
from acp.schema import ToolCallLocation
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.changes import FileChange
from swarm.mailbox.protocol.events import (
    CommandCall,
    McpCall,
    OtherCall,
    PatchCall,
    PlanCall,
    StdinCall,
)
from swarm.mailbox.protocol.parsed_command import ListFiles, ReadFile, Search
from swarm.supervisor.clients.acp.call_description import (
    call_kind,
    call_locations,
    call_title,
    change_diffs,
    fenced_text,
)


def command(*parsed):
    return CommandCall(script="cat a", argv=("cat", "a"), cwd="/p", parsed_cmd=parsed)


READ = ReadFile(cmd="cat a", name="a", path="src/a")
CHANGE = FileChange(
    path="/p/a",
    kind="update",
    unified_diff="@@ -4,2 +4,2 @@\n same\n-old\n+new\n@@ -9 +9 @@\n-x\n+y",
)


@pytest.mark.parametrize(
    ("detail", "title", "kind"),
    [
        (command(), "cat a", "execute"),
        (command(READ), "cat a", "read"),
        (command(READ, Search(cmd="rg x", query="x", path=None)), "cat a", "search"),
        (command(ListFiles(cmd="ls", path=None)), "cat a", "search"),
        (StdinCall(session_id=3, chars="y\n"), "session 3: 'y\\n'", "execute"),
        (PatchCall(changes=(CHANGE,)), "Edit a", "edit"),
        (PatchCall(changes=(FileChange(path="/p/b", kind="delete"),)), "Edit b", "delete"),
        (PlanCall(plan=()), "Plan", "other"),
        (McpCall(server="docs", tool="search"), "docs: search", "other"),
        (OtherCall(argument="x"), "view_image x", "other"),
    ],
)
def test_a_call_has_a_title_and_a_kind(detail, title, kind):
    assert (call_title("view_image", detail), call_kind(detail)) == (title, kind)


def test_files_are_named_absolute_and_with_the_line_of_the_first_change():
    assert call_locations(command(READ), "/p") == [ToolCallLocation(path="/p/src/a")]
    wanted = [ToolCallLocation(path="/p/a", line=4)]
    assert call_locations(PatchCall(changes=(CHANGE,)), "/p") == wanted


def test_a_diff_has_both_sides_of_each_change():
    (diff,) = change_diffs((CHANGE,))
    assert (diff.old_text, diff.new_text) == ("same\nold\n…\nx\n", "same\nnew\n…\ny\n")


@given(st.text(alphabet="`\na", max_size=60))
def test_no_text_leaves_its_block(text):
    lines = fenced_text(text).split("\n")
    assert lines[0] == lines[-1]
    assert lines[0] not in lines[1:-1]
