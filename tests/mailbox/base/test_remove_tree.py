"""A folder goes with all below it, and nothing else does."""

import os

import pytest

from swarm.mailbox.base.remove_tree import remove_tree


def test_links_are_removed_and_what_they_lead_to_stays(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    tree = tmp_path / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/b/file").touch()
    os.mkfifo(tree / "a/pipe")
    (tree / "a/b/link").symlink_to(outside)
    (tree / "out").symlink_to(outside)
    remove_tree(tree)
    assert not tree.exists()
    assert os.listdir(outside) == ["kept"]


def test_a_link_in_the_folders_place_is_refused(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/kept").touch()
    (tmp_path / "tree").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="tree"):
        remove_tree(tmp_path / "tree")
    assert os.listdir(tmp_path / "outside") == ["kept"]


@pytest.mark.skipif(os.geteuid() != 0, reason="it becomes another user")
def test_folders_that_a_command_closed_behind_itself_are_removed(tmp_path):
    pid = os.fork()
    if pid == 0:
        os._exit(_removes_closed_folders())
    assert os.waitpid(pid, 0)[1] == 0


def _removes_closed_folders():
    """0 if it worked for an ordinary user."""
    import tempfile

    os.setresuid(65534, 65534, 65534)
    tree = tempfile.mkdtemp(dir="/tmp")
    os.makedirs(f"{tree}/a/b/c")
    for folder in ("a/b/c", "a/b", "a"):
        os.chmod(f"{tree}/{folder}", 0)
    remove_tree(tree)
    return int(os.path.exists(tree))
