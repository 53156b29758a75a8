"""The tools of the agent's own process: a link that comes after the decision is not followed."""

import base64
import os
from pathlib import Path

import pytest

from swarm.worker.parts.patch.file_replacement import read_file, replace_file
from swarm.worker.parts.patch.verify import PatchFailed
from swarm.worker.tools.interface.tool_interface import ToolFailed
from swarm.worker.tools.list_dir import ListDirArguments, list_directory
from swarm.worker.tools.view_image import ViewImageArguments, view_image

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def top(tmp_path):
    for name in ("d", "secret"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name)
        (tmp_path / name / "p.png").write_bytes(PNG)
    (tmp_path / "secret" / "hidden-name").touch()
    return tmp_path


def swapping(top):
    """A decision that says yes, and a command that comes right after it."""

    def decide(path: Path) -> bool:
        if not (top / "d").is_symlink():
            (top / "d").rename(top / "away")
            (top / "d").symlink_to("secret")
        return True

    return decide


def test_a_patch_reads_and_writes_no_file_behind_it(top):
    decide = swapping(top)
    with pytest.raises(OSError, match="Too many levels"):
        read_file(top / "d" / "x", lambda real: decide(Path(real)))
    (top / "d").unlink()
    (top / "away").rename(top / "d")
    with pytest.raises(PatchFailed, match="Too many levels"):
        replace_file(top / "d" / "new", b"y", before=None, may_write=decide)
    assert not (top / "secret" / "new").exists()


def test_a_listing_enters_no_folder_behind_it(top):
    decide = swapping(top)

    def decide_below(path: Path) -> bool:
        return decide(path) if path.name == "d" else True

    arguments = ListDirArguments(dir_path=str(top), depth=2)
    shown = list_directory(arguments, may_read=decide_below)
    assert shown.count("hidden-name") == 1  # in the folder where it really is


def test_a_folder_to_be_listed_is_the_one_that_was_decided_on(top):
    arguments = ListDirArguments(dir_path=str(top / "d"))
    with pytest.raises(ToolFailed, match="failed to read directory"):
        list_directory(arguments, may_read=second_time(swapping(top)))


def second_time(decide):
    """The first question is about the name, the second about where it leads."""
    asked = []

    def may(path: Path) -> bool:
        asked.append(path)
        return len(asked) == 1 or decide(path)

    return may


def test_a_picture_behind_it_is_not_shown(top):
    with pytest.raises(ToolFailed, match="unable to locate image"):
        view_image(ViewImageArguments(path="d/p.png"), top, may_read=swapping(top))


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_a_pipe_or_a_device_is_no_file_and_is_not_waited_for(top, kind):
    path = top / "f.png"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(ToolFailed, match="is not a file"):
        view_image(ViewImageArguments(path="f.png"), top)
    with pytest.raises(OSError, match="not a regular file"):
        read_file(path)
