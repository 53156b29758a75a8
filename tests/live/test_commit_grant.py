"""The grant "commit in this repository": git records work, and nothing else of `.git` opens."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import trio

from support.escape_testbed import open_test_launcher, run_script
from swarm.mailbox.protocol.values.limits import ReadOnly, WorkspaceWrite
from swarm.worker.exec.running_command import CommandRequest
from swarm.worker.sandbox.commit_grant import find_repository, read_repository, with_commit_grant
from swarm.worker.sandbox.sandbox_plan import plan_sandbox

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin", "HOME": "/nonexistent",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip

BOTH = pytest.mark.parametrize("stack", ["bwrap", "landlock"])
pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.fixture
def work():
    folder = Path(tempfile.mkdtemp(prefix="swarm-commit-", dir="/var/tmp"))
    top = folder / "work"
    top.mkdir()
    _git(top, "init", "-q", "-b", "main")
    (top / "a.txt").write_text("one\n")
    _git(top, "add", ".")
    _git(top, "commit", "-q", "-m", "first")
    yield top
    shutil.rmtree(folder)


def _git(folder, *words):
    done = subprocess.run(
        ["git", *words], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True, text=True
    )
    return done.stdout


def request(top, script, *, granted=True, stack="bwrap"):
    tmp = top.parent / "tmp"
    tmp.mkdir(exist_ok=True)
    plan = plan_sandbox(
        WorkspaceWrite(), cwd=str(top), tmp_dir=str(tmp), stack=stack, hidden_paths=()
    )
    if granted:
        plan = with_commit_grant(plan, find_repository(str(top)))
        assert plan is not None
    argv = ("/bin/bash", "-c", script)
    return CommandRequest(argv=argv, cwd=str(top), environment=ENVIRONMENT, sandbox=plan)


async def run(top, script, *, granted=True, stack="bwrap"):
    async with open_test_launcher() as (launcher, _):
        said = await run_script(launcher, request(top, script, granted=granted, stack=stack))
    return said.status.exit_code, said.text


async def test_without_the_grant_git_can_record_nothing(work):
    code, _ = await run(work, "echo two >b.txt; git add b.txt", granted=False)
    assert code != 0
    assert _git(work, "status", "--porcelain") == "?? b.txt\n"


@BOTH
async def test_with_the_grant_work_is_committed_branched_stashed_and_tagged(work, stack):
    script = (
        "echo two >b.txt && git add -A && git commit -q -m second && git switch -q -c topic && "
        "echo three >>a.txt && git stash -q && git stash pop -q && git tag v1 && git commit -qam x"
    )
    code, said = await run(work, script, stack=stack)
    assert code == 0, said
    assert _git(work, "log", "--format=%s") == "x\nsecond\nfirst\n"
    assert _git(work, "rev-parse", "--abbrev-ref", "HEAD") == "topic\n"
    assert _git(work, "fsck", "--no-dangling") == ""
    assert sorted(path.name for path in (work / ".git").glob("*moved-aside*")) == []


@pytest.mark.parametrize(
    "script",
    [
        "git config core.fsmonitor 'touch /tmp/x'",
        "echo x >>.git/config",
        "mv .git/config .git/old",
        "rm .git/config",
        "echo x >.git/hooks/pre-commit",
        "mv .git/hooks .git/h2",
        "ln -sf /tmp .git/hooks/post-commit",
        "echo '* filter=x' >.git/info/attributes",
        "mkdir .git/modules/x",
        "mv .git .g2",
        "git config --worktree core.hooksPath /tmp",
        "mkdir -p evil && echo ../evil >.git/commondir",
        "echo x >.git/gitdir",
        "mkdir .git/rebase-merge && echo 'exec evil' >.git/rebase-merge/git-rebase-todo",
        "mkdir .git/rebase-apply",
        "mkdir .git/sequencer",
        "echo /tmp >.git/objects/info/alternates",
        "mkdir .git/objects/x && echo /tmp >.git/objects/x/alternates",
        "mkdir .git/refs/x && mv .git/refs/x .git/rebase-merge",
        "mv .git/refs .git/refs2",
        "mv .git/refs/heads .git/objects/zz",
        "echo x >.git/index.lock && mv .git/index.lock .git/commondir",
        "ln -s /tmp .git/objects/zz",
        "ln -s ../commondir .git/refs/heads/l && echo x >.git/refs/heads/l",
        "cp a.txt .git/shallow",
        "mkfifo .git/refs/p",
        "ln .git/config c && echo x >>c",
        "python3 -c 'import os; os.truncate(\".git/config\", 0)'",
    ],
)
@BOTH
async def test_nothing_that_git_would_run_or_follow_can_be_changed(work, script, stack):
    before = _tree_of(work / ".git")
    code, said = await run(work, script, stack=stack)
    assert code != 0, said
    assert _tree_of(work / ".git") == before


@BOTH
async def test_when_a_command_has_ended_the_launcher_keeps_no_thread_of_its_broker(work, stack):
    """Each would wait for calls as long as the agent lives, and its end for each of them 2 s."""
    async with open_test_launcher() as (launcher, pid):
        first = await run_script(launcher, request(work, "git tag v1", stack=stack))
        assert first.status.exit_code == 0, first.text
        with trio.fail_after(10):
            while len(os.listdir(f"/proc/{pid}/task")) > 1:  # noqa: ASYNC110 - the kernel's facts
                await trio.sleep(0.005)
    assert _git(work, "tag") == "v1\n"


def _tree_of(git):
    return {
        str(path.relative_to(git)): path.read_bytes() if path.is_file() else b""
        for path in git.rglob("*")
        if path.parts[len(git.parts) :] not in _OPEN
    }


_OPEN = {("index.lock",), ("objects", "x"), ("refs", "x")}  # steps on the way that are allowed


@pytest.mark.parametrize(
    "script",
    [
        "ln -s .git/refs/heads d; printf x >d/made",
        "ln -s .git/refs/heads d; cp a.txt d/made",
        "ln -s .git/refs/heads/main l; printf x >l",
        "printf x >.git/HEAD",
        "rm .git/HEAD",
        "cp /bin/bash git; ./git -c 'echo x >.git/refs/heads/made'",
        "cp /bin/bash $TMPDIR/git; PATH=$TMPDIR:$PATH git -c 'echo x >.git/refs/heads/made'",
        "cp /bin/bash /dev/shm/git-x; /dev/shm/git-x -c 'echo x >.git/refs/heads/made'",
        "(exec -a git bash -c 'echo x >.git/refs/heads/made')",
    ],
)
@BOTH
async def test_nobody_but_git_writes_by_the_grant(work, script, stack):
    before = _all_of(work / ".git")
    code, said = await run(work, script, stack=stack)
    assert code != 0, said
    assert _all_of(work / ".git") == before


def _all_of(git):
    return {str(path): path.read_bytes() for path in git.rglob("*") if path.is_file()}


@BOTH
async def test_a_persons_hook_may_write_the_message_and_nothing_else(work, stack):
    hook = work / ".git/hooks/commit-msg"
    hook.write_text("#!/bin/sh\necho ticket >>$1; echo x >.git/refs/heads/made; true\n")
    hook.chmod(0o755)
    code, said = await run(work, "git commit -q --allow-empty -m second", stack=stack)
    assert code == 0, said
    assert _git(work, "log", "-1", "--format=%B") == "second\nticket\n\n"
    assert not (work / ".git/refs/heads/made").exists()


async def test_a_linked_worktree_can_commit_and_its_repository_stays_closed(work):
    _git(work, "worktree", "add", "-q", "../side")
    side = work.parent / "side"
    code, said = await run(side, "echo s >s.txt && git add s.txt && git commit -q -m side")
    assert code == 0, said
    assert _git(side, "log", "-1", "--format=%s") == "side\n"
    code, _ = await run(side, f"echo x >>{work}/.git/config")
    assert code != 0
    code, _ = await run(side, f"echo x >{work}/a.txt")
    assert code != 0


def test_a_git_that_is_a_link_or_no_repository_gives_no_grant(work, tmp_path):
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".git").symlink_to(work / ".git")
    (tmp_path / "fake" / ".git").mkdir(parents=True)
    assert read_repository(str(tmp_path / "linked")) is None
    assert read_repository(str(tmp_path / "fake")) is None
    plan = plan_sandbox(ReadOnly(), cwd=str(work), tmp_dir=None, stack="bwrap")
    assert with_commit_grant(plan, str(work)) is None
