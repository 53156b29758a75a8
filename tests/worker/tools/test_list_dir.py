"""list_dir on real folders: order, pages, links, what cannot be read, and hostile names."""

import os
from pathlib import Path

import msgspec
import pytest

from swarm.mailbox.protocol.values.limits import WorkspaceWrite
from swarm.worker.sandbox.placeholders import PlaceholderGuard
from swarm.worker.sandbox.sandbox_plan import plan_sandbox
from swarm.worker.tools import list_dir
from swarm.worker.tools.interface.tool_interface import ToolFailed
from swarm.worker.tools.list_dir import ListDirArguments, list_directory, show_name


def listed(path: Path, **options) -> list[str]:
    may_read = options.pop("may_read", None)
    arguments = ListDirArguments(dir_path=str(path), **options)
    lines = list_directory(arguments, may_read=may_read).split("\n")
    assert lines[0] == f"Absolute path: {path}"
    return lines[1:]


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "b/inner/deep").mkdir(parents=True)
    (tmp_path / "b/z.txt").touch()
    (tmp_path / "b-side").touch()
    (tmp_path / "a.txt").touch()
    (tmp_path / "link").symlink_to("b")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def test_entries_stand_below_their_folder_with_a_mark_for_their_kind(tree):
    assert listed(tree) == [
        "a.txt", "b/", "  inner/", "  z.txt", "b-side", "link@", "pipe?",
    ]  # fmt: skip


def test_placeholders_of_a_sandbox_are_left_out_and_a_persons_empty_folder_is_not(tmp_path):
    (tmp_path / ".codex").mkdir()
    guard = PlaceholderGuard(
        plan_sandbox(WorkspaceWrite(), cwd=str(tmp_path), tmp_dir=None, stack="bwrap")
    )
    assert {".codex", ".git", ".agents"} <= {*os.listdir(tmp_path)}
    assert listed(tmp_path) == [".codex/"]
    guard.close()


def test_depth_says_how_many_levels(tree):
    assert listed(tree, depth=1) == ["a.txt", "b/", "b-side", "link@", "pipe?"]
    assert listed(tree, depth=3)[2:5] == ["  inner/", "    deep/", "  z.txt"]


def test_a_page_is_cut_out_of_the_order_and_says_that_more_follows(tree):
    assert listed(tree, limit=2) == ["a.txt", "b/", "More than 2 entries found"]
    assert listed(tree, offset=6, limit=2) == ["link@", "pipe?"]
    assert listed(tree, offset=7, limit=9) == ["pipe?"]


def test_an_empty_folder_is_only_its_name(tmp_path):
    assert listed(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offset": 0}, "offset must be a 1-indexed entry number"),
        ({"limit": 0}, "limit must be greater than zero"),
        ({"depth": 0}, "depth must be greater than zero"),
        ({"dir_path": "rel"}, "dir_path must be an absolute path"),
        ({"offset": 8}, "offset exceeds directory entry count"),
        ({"dir_path": "/no/such"}, "failed to read directory: "),
        ({"dir_path": "/etc/passwd"}, "failed to read directory: "),
        ({"dir_path": "/a\0b"}, "failed to read directory: "),
    ],
)
def test_wrong_arguments_have_their_texts(tree, options, message):
    arguments = ListDirArguments(**{"dir_path": str(tree), **options})
    with pytest.raises(ToolFailed, match=f"^{message}"):
        list_directory(arguments)


def test_a_loop_of_links_ends(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path)
    assert listed(tmp_path, depth=50) == ["loop@"]
    (tmp_path / "self").symlink_to("self")
    with pytest.raises(ToolFailed, match="failed to read directory"):
        list_directory(ListDirArguments(dir_path=str(tmp_path / "self")))


def test_a_folder_that_cannot_be_read_is_marked_and_the_rest_goes_on(tmp_path):
    """Its path is longer than the system takes: nobody, not even root, can list it."""
    (tmp_path / "z").touch()
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=folder)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    lines = listed(tmp_path, depth=50)
    assert lines[-2].endswith("d/ (cannot be read: File name too long)")
    assert lines[-1] == "z"


def test_denied_paths_are_left_out_and_a_denied_root_says_so(tree):
    assert listed(tree, may_read=lambda path: path.name != "b") == [
        "a.txt", "b-side", "link@", "pipe?",
    ]  # fmt: skip
    with pytest.raises(ToolFailed, match="access denied: reading this path is blocked by"):
        listed(tree, may_read=lambda _: False)


def test_the_walk_stops_at_its_bound_and_says_so(tree, monkeypatch):
    monkeypatch.setattr(list_dir, "MAX_SCANNED", 3)
    lines = listed(tree, limit=100)
    assert len(lines) == 4
    assert lines[-1] == "Stopped after 3 entries; list a folder below this one"


def test_names_cannot_forge_lines_and_are_cut_at_500_bytes(tmp_path):
    (tmp_path / "a\nb\x1b[31m").touch()
    os.close(os.open(os.fsencode(tmp_path) + b"/c\xff", os.O_CREAT))
    assert listed(tmp_path) == ["a\\x0ab\\x1b[31m", "c\ufffd"]
    assert show_name("é" * 300) == "é" * 250


def test_unknown_arguments_are_refused():
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"dir_path":"/","dept":1}', type=ListDirArguments)
