"""What is hidden stays hidden whatever a command does to the folders on the way to it."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.escape_testbed import BASE, PYTHON, open_escape_testbed, open_test_launcher, run_script
from swarm.mailbox.protocol.spec import FolderIdentity
from swarm.mailbox.protocol.values.limits import PathRule, ProfilePolicy, WorkspaceWrite
from swarm.supervisor.clients.cli.base.sandboxed_script import run_sandboxed_script
from swarm.worker.exec.command_plan import check_hidden_folders
from swarm.worker.exec.running_command import CommandRequest
from swarm.worker.sandbox.sandbox_plan import SandboxUnavailable, plan_sandbox

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
MOVES = """
import os, shutil
for old, new in (("home/.local", "home/aside"), ("home", "aside"), ("home/.local/state", "state"),
                 ("home/.local/state/swarm", "home/.local/state/other")):
    try:
        os.rename(old, new)
        print("moved", old)
    except OSError:
        pass
    try:
        os.rename("decoy", old)
        print("replaced", old)
    except OSError:
        pass
shutil.rmtree("home", ignore_errors=True)
"""
LOOK = "grep -rl hush . 2>/dev/null; ls home/.local/state/swarm/runs; touch home/new && echo wrote"


@pytest.fixture
def testbed():
    with open_escape_testbed("bwrap") as made:
        (made.work / "home/.local/state/swarm/runs/one").mkdir(parents=True)
        (made.work / "home/.local/state/swarm/runs/one/journal").write_text("hush")
        (made.work / "decoy").mkdir()
        yield made


def request(testbed, policy, *words):
    """Planned again each time, as an agent does."""
    plan = plan_sandbox(
        policy, cwd=str(testbed.work), tmp_dir=str(testbed.home / "tmp"), stack="bwrap",
        hidden_paths=(str(testbed.work / "home/.local/state/swarm/runs"),),
    )  # fmt: skip
    return CommandRequest(argv=words, cwd=str(testbed.work), environment=BASE, sandbox=plan)


def policies(work):
    rules = (PathRule(path="/", access="read"), PathRule(path=str(work), access="write"))
    return (
        WorkspaceWrite(),
        WorkspaceWrite(writable_roots=(str(work / "home"), str(work / "home/.local/state"))),
        ProfilePolicy(name="mine", rules=rules, workspace=(str(work),)),
    )


@pytest.mark.parametrize("index", [0, 1, 2], ids=["workspace", "nested roots", "profile"])
async def test_no_folder_above_a_hidden_one_is_moved_or_replaced(testbed, index):
    policy = policies(testbed.work)[index]
    async with open_test_launcher() as (launcher, _):
        moves = await run_script(
            launcher, request(testbed, policy, PYTHON, "-I", "-S", "-c", MOVES)
        )
        assert moves.text == ""
        look = await run_script(launcher, request(testbed, policy, "/bin/sh", "-c", LOOK))
        assert look.text == "wrote\n"
    assert (testbed.work / "home/.local/state/swarm/runs/one/journal").read_text() == "hush"


async def test_the_way_to_a_root_in_a_root_stays_so_that_its_protection_does(testbed):
    nested = testbed.work / "x/a"
    (nested / ".git").mkdir(parents=True)
    policy = WorkspaceWrite(writable_roots=(str(nested),))
    script = "mv x y; mv x/a b; mkdir -p x/a/.git/hooks; touch x/a/file; ls -A x/a"
    async with open_test_launcher() as (launcher, _):
        said = await run_script(launcher, request(testbed, policy, "/bin/sh", "-c", script))
        assert ".git" in said.text.splitlines()
        assert "file" in said.text.splitlines()
    assert sorted(path.name for path in nested.iterdir()) == [".git", "file"]
    assert not any((nested / ".git").iterdir())


def test_no_command_of_a_person_or_a_task_reads_a_journal(monkeypatch):
    home = Path(tempfile.mkdtemp(prefix="swarm-home-", dir="/var/tmp"))  # /tmp is covered anyway
    try:
        monkeypatch.setenv("SWARM_HOME", str(home))
        journal = home / "state/runs/one/journal/root.jsonl"
        journal.parent.mkdir(parents=True)
        journal.write_text("hush")
        (home / "seen").write_text("seen")
        script = f"cat {home}/seen; cat {journal} 2>/dev/null; true"
        assert run_sandboxed_script(script, home) == "seen"
        swarm = str(Path(sys.executable).with_name("swarm"))
        for words in (["sandbox"], ["sandbox", "-s", "workspace-write", "-C", str(home)]):
            done = subprocess.run(
                [swarm, *words, "--", "/bin/sh", "-c", script], capture_output=True, text=True,
                timeout=30, check=True,
            )  # fmt: skip
            assert done.stdout == "seen"
    finally:
        shutil.rmtree(home)


def test_a_folder_that_was_moved_away_or_replaced_is_no_longer_taken_for_hidden(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    found = folder.stat()
    marks = (FolderIdentity(path=str(folder), device=found.st_dev, inode=found.st_ino),)
    check_hidden_folders(marks)
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(SandboxUnavailable, match="move it back"):
        check_hidden_folders(marks)
    folder.mkdir()
    with pytest.raises(SandboxUnavailable, match="move it back"):
        check_hidden_folders(marks)
