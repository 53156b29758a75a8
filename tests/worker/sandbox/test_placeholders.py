"""Missing protected names: held by placeholders, given back as they were, or moved aside."""

import os
import stat
import tempfile
from pathlib import Path

import msgspec
import pytest

from swarm.mailbox.base.path_rules import PLACEHOLDER_MTIME_NS, PROTECTED_NAMES
from swarm.mailbox.protocol.values.limits import WorkspaceWrite
from swarm.worker.sandbox.landlock import WRITE
from swarm.worker.sandbox.landlock_rules import landlock_rules
from swarm.worker.sandbox.placeholders import PlaceholderGuard, remove_placeholder
from swarm.worker.sandbox.sandbox_plan import SandboxPlan, is_placeholder, plan_sandbox


def plan(folder, stack="bwrap", **more):
    return plan_sandbox(WorkspaceWrite(), cwd=str(folder), tmp_dir=None, stack=stack, **more)


def test_placeholders_exist_while_held_and_leave_no_trace(tmp_path):
    guard = PlaceholderGuard(plan(tmp_path))
    assert sorted(os.listdir(tmp_path)) == sorted(PROTECTED_NAMES)
    assert guard.close() == ()
    assert os.listdir(tmp_path) == []


def test_the_last_of_several_holders_removes_them(tmp_path):
    one, two = PlaceholderGuard(plan(tmp_path)), PlaceholderGuard(plan(tmp_path))
    assert len(two.placeholders) == len(PROTECTED_NAMES)
    one.close()
    assert len(os.listdir(tmp_path)) == len(PROTECTED_NAMES)
    two.close()
    assert os.listdir(tmp_path) == []


def test_what_a_person_makes_in_a_placeholder_stays(tmp_path):
    guard = PlaceholderGuard(plan(tmp_path))
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main")
    guard.close()
    assert os.listdir(tmp_path) == [".git"]
    assert str(tmp_path / ".git") in plan(tmp_path).protected


def test_placeholders_of_a_crash_are_recognised_and_removed(tmp_path):
    # Its process died: nothing was removed.
    for lock in PlaceholderGuard(plan(tmp_path))._locks.values():
        os.close(lock)
    assert is_placeholder(str(tmp_path / ".git"))
    assert len(plan(tmp_path).missing) == len(PROTECTED_NAMES)
    PlaceholderGuard(plan(tmp_path)).close()
    assert os.listdir(tmp_path) == []


def test_after_a_crash_a_placeholder_in_use_is_left(tmp_path):
    guard = PlaceholderGuard(plan(tmp_path))
    remove_placeholder(str(tmp_path / ".git"))
    assert (tmp_path / ".git").exists()
    guard.close()
    (tmp_path / ".git").mkdir()  # a person's own empty folder is none
    remove_placeholder(str(tmp_path / ".git"))
    assert (tmp_path / ".git").exists()


def test_without_mounts_what_appeared_is_moved_aside(tmp_path):
    guard = PlaceholderGuard(plan(tmp_path, stack="landlock"))
    assert os.listdir(tmp_path) == []
    (tmp_path / ".git").mkdir()
    [said] = guard.close()
    [aside] = os.listdir(tmp_path)
    assert aside.startswith(".git.moved-aside-")
    assert said == f"{tmp_path}/.git (moved to {tmp_path / aside})"


def test_what_no_command_can_have_made_is_said_and_left(tmp_path):
    guard = PlaceholderGuard(plan(tmp_path, stack="landlock"), brokered=True)
    (tmp_path / ".git").mkdir()  # a person's `git init`
    [said] = guard.close()
    assert said.startswith(f"{tmp_path}/.git (left as it is")
    assert os.listdir(tmp_path) == [".git"]


def test_no_number_of_names_moved_aside_is_too_large(tmp_path):
    for number in range(1, 1100):
        (tmp_path / f".git.moved-aside-{number}").touch()
    guard = PlaceholderGuard(plan(tmp_path, stack="landlock"))
    (tmp_path / ".git").mkdir()
    assert "moved to" in guard.close()[0]
    assert not (tmp_path / ".git").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="it becomes another user")
@pytest.mark.parametrize("stack", ["bwrap", "landlock"])
def test_a_folder_of_ours_that_is_closed_to_us_is_guarded_all_the_same(stack):
    with tempfile.TemporaryDirectory() as home:
        root = Path(home, "root")
        root.mkdir()
        Path(home).chmod(0o755)
        os.chown(root, 65534, 65534)
        pid = os.fork()
        if pid == 0:
            os.setresuid(65534, 65534, 65534)
            os._exit(_guarded_while_closed(root, stack))
        assert os.waitpid(pid, 0)[1] == 0
        assert [name for name in os.listdir(root) if "moved-aside" not in name] == []
        assert stat.S_IMODE(root.stat().st_mode) == 0o555


def _guarded_while_closed(root, stack):
    """0 if all is as it should be."""
    if stack == "bwrap":
        root.chmod(0o555)
        guard = PlaceholderGuard(plan(root))
        held = len(guard.placeholders) == len(PROTECTED_NAMES)
        return 0 if held and guard.close() == () else 1
    guard = PlaceholderGuard(plan(root, stack=stack))
    (root / ".git").mkdir()
    root.chmod(0o555)
    return 0 if "moved to" in guard.close()[0] else 2


def test_a_replaced_link_is_put_back(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / ".git").symlink_to("real")
    guard = PlaceholderGuard(plan(tmp_path))
    (tmp_path / ".git").unlink()
    (tmp_path / ".git").mkdir()
    assert "moved to" in guard.close()[0]
    assert (tmp_path / ".git").readlink().name == "real"


def test_a_link_in_a_placeholders_place_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    root = tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    made = plan(root)
    (root / ".git").symlink_to(outside)
    with pytest.raises(OSError, match="\\.git"):
        PlaceholderGuard(made)
    assert os.listdir(outside) == []


@pytest.mark.parametrize("stack", ["bwrap", "landlock"])
def test_where_a_folder_above_became_a_link_nothing_is_made_behind_it(tmp_path, stack):
    outside = tmp_path / "outside"
    (outside / "root").mkdir(parents=True)
    (tmp_path / "above/root").mkdir(parents=True)
    made = plan(tmp_path / "above/root", stack=stack)
    (tmp_path / "above").rename(tmp_path / "moved")
    (tmp_path / "above").symlink_to(outside)
    with pytest.raises(OSError, match="above/root"):
        PlaceholderGuard(made)
    assert os.listdir(outside / "root") == []


def test_a_folder_that_was_moved_gets_its_placeholders_removed_and_no_other(tmp_path):
    root, outside = tmp_path / "above/root", tmp_path / "outside"
    root.mkdir(parents=True)
    guard = PlaceholderGuard(plan(root))
    (tmp_path / "above").rename(tmp_path / "moved")
    (outside / "root").mkdir(parents=True)
    for name in PROTECTED_NAMES:  # what a crash left there, of somebody else
        (outside / "root" / name).mkdir()
        os.utime(outside / "root" / name, ns=(PLACEHOLDER_MTIME_NS, PLACEHOLDER_MTIME_NS))
    (tmp_path / "above").symlink_to(outside)
    held = guard.placeholders
    guard.close()
    for path in held:
        remove_placeholder(path)
    assert os.listdir(tmp_path / "moved/root") == []
    assert sorted(os.listdir(outside / "root")) == sorted(PROTECTED_NAMES)


def writable(made):
    return {grant.path for grant in landlock_rules(made).grants if grant.access == WRITE}


def test_landlock_grants_a_root_whole_when_nothing_in_it_is_protected(tmp_path):
    assert writable(plan(tmp_path, stack="landlock")) == {str(tmp_path)}


def test_landlock_grants_only_the_neighbours_of_what_is_protected(tmp_path):
    for name in (".git", "src", "docs"):
        (tmp_path / name).mkdir()
    (tmp_path / "way-out").symlink_to("/")
    found = writable(plan(tmp_path, stack="landlock"))
    assert found == {str(tmp_path / "src"), str(tmp_path / "docs")}


def test_a_name_that_is_no_text_closes_itself_and_breaks_no_command(tmp_path):
    for name in (b".git", b"src", b"\xff"):
        (tmp_path / os.fsdecode(name)).mkdir()
    rules = landlock_rules(plan(tmp_path, stack="landlock"))
    assert msgspec.msgpack.encode(rules)  # as it goes to a launcher
    found = {grant.path for grant in rules.grants if grant.access == WRITE}
    assert found == {str(tmp_path / "src")}


def test_landlock_grants_no_contents_of_hidden_folders(tmp_path):
    (tmp_path / "runs/one").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    made = plan(tmp_path / "other", stack="landlock", hidden_paths=(str(tmp_path / "runs"),))
    whole = {grant.path for grant in landlock_rules(made).grants[1:]}
    assert str(tmp_path / "other") in whole
    assert not any(str(tmp_path / "runs").startswith(path + "/") for path in whole)
    assert str(tmp_path / "runs") not in whole


def test_of_a_crowded_tmp_with_a_hole_landlock_grants_only_what_is_wanted():
    """Every folder in /tmp would be a grant of its own, for each command again."""
    with tempfile.TemporaryDirectory(dir="/tmp") as crowd:
        wanted = [f"{crowd}/{number:03}" for number in range(0, 300, 60)]
        for number in range(300):
            Path(crowd, f"{number:03}").mkdir()
        hole = Path(crowd, "hidden")
        hole.mkdir()
        made = SandboxPlan(
            stack="landlock", hidden=(str(hole),), visible=tuple(wanted[1:]), tmp_dir=wanted[0]
        )
        granted = {grant.path for grant in landlock_rules(made).grants}
        inside = {path for path in granted if path.startswith(crowd)}
    assert inside == set(wanted)
