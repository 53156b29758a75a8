"""A layer that is frozen for others: a mount shows the same, and no link is followed."""

import os
import stat

import pytest

from swarm.mailbox.base.overlay_marks import NO_DEVICE, OPAQUE, is_opaque, is_whiteout
from swarm.supervisor.parts.copies.frozen_layer import LayerFreezer
from swarm.supervisor.parts.copies.tree_survey import CopyRefused


@pytest.fixture
def layer(tmp_path):
    layer = tmp_path.resolve() / "upper"
    (layer / "folder").mkdir(parents=True)
    (layer / "folder" / "file").write_text("text\n")
    (layer / "folder" / "file").chmod(0o4751)
    return layer


def test_it_has_files_links_and_the_marks_of_what_is_gone(layer, tmp_path):
    (layer / "link").symlink_to("/etc/passwd")
    os.mkfifo(layer / "pipe")
    os.mknod(layer / "gone", stat.S_IFCHR, NO_DEVICE)
    os.setxattr(layer / "folder", OPAQUE, b"y")
    (layer / "folder").chmod(0o550)
    into = tmp_path.resolve() / "made"
    LayerFreezer().freeze(str(layer), into)
    assert sorted(os.listdir(into)) == ["folder", "gone", "link"]
    assert is_whiteout((into / "gone").lstat())
    assert is_opaque(str(into / "folder"))
    assert stat.S_IMODE((into / "folder").stat().st_mode) == 0o550
    assert (into / "folder" / "file").read_text() == "text\n"
    assert stat.S_IMODE((into / "folder" / "file").stat().st_mode) == 0o751
    assert os.readlink(into / "link") == "/etc/passwd"
    (layer / "folder" / "file").write_text("other\n")
    assert (into / "folder" / "file").read_text() == "text\n", "it is frozen"


def test_an_empty_layer_is_none_and_half_of_one_is_made_anew(layer, tmp_path):
    into = tmp_path.resolve() / "made"
    empty = tmp_path.resolve() / "empty"
    empty.mkdir()
    (into / "stale").mkdir(parents=True)
    LayerFreezer().freeze(str(empty), into)
    assert not into.exists()
    (into / "stale").mkdir(parents=True)
    LayerFreezer().freeze(str(layer), into)
    assert os.listdir(into) == ["folder"]


@pytest.mark.parametrize("bound", [{"entries": 1}, {"size": 3}])
def test_one_beyond_the_bounds_is_refused_and_nothing_is_left_of_it(layer, tmp_path, bound):
    into = tmp_path.resolve() / "made"
    with pytest.raises(CopyRefused, match="too large"):
        LayerFreezer(**bound).freeze(str(layer), into)
    assert not into.exists()


def test_a_link_in_place_of_the_layer_is_not_followed(layer, tmp_path):
    other = tmp_path.resolve() / "link"
    other.symlink_to(layer)
    with pytest.raises(OSError):
        LayerFreezer().freeze(str(other), tmp_path.resolve() / "made")
