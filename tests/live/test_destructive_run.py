"""Destructive commands in real runs: what would go is shown, kept first, and can be had back."""

import json
import shutil
import subprocess

import pytest
import trio

from swarm.mailbox.protocol.events import CallEnded
from swarm.mailbox.protocol.records import ApprovalRequested, GrantGiven, SnapshotTaken

pytestmark = pytest.mark.live
LIMIT_S = 60
needs_bwrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)
PERSON = ("--reviewer", "person")
GIT_NAMES = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")


def call(cmd, **more):
    return {"calls": [{"name": "exec_command", "arguments": {"cmd": cmd, **more}}]}


async def answer(rig, number, verb, *words):
    asked = await rig.wait(lambda: rig.bodies(ApprovalRequested)[number - 1 : number])
    ended = await (await rig.start(verb, rig.run_id, asked[0].approval_id, *words)).wait_end()
    assert ended.code == 0, ended.err
    return asked[0].request


async def swarm(rig, *words):
    return await (await rig.start(*words)).wait_end()


def git(folder, *words):
    done = subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def repository(rig):
    git(rig.work, "init", "-q", "-b", "main")
    git(rig.work, "config", "user.name", "a")
    git(rig.work, "config", "user.email", "a@b")
    (rig.work / "a.txt").write_text("one\n")
    git(rig.work, "add", ".")
    git(rig.work, "commit", "-q", "-m", "first")
    return rig.work


@pytest.mark.parametrize("command", ["rm -r build", "cat <<'EOF' | bash\nrm -r build\nEOF"])
async def test_what_is_removed_is_shown_before_and_comes_back_after(rig, command):
    build = rig.work / "build"
    (build / "deep").mkdir(parents=True)
    for name in ("a.o", "deep/b.o", "deep/c.o"):
        (build / name).write_text(name)
    provider = rig.script(call(command), {"text": "done"})
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider, *PERSON, sandbox="workspace-write")
        asked = await answer(rig, 1, "approve")
        ended = await run.wait_end()
        assert ended.code == 0, ended.err
        assert not build.exists()
        listed = await swarm(rig, "undo", rig.run_id, "--list", "--json")
        undone = await swarm(rig, "undo", rig.run_id, "--yes")
    assert asked.cause == "destructive"
    assert asked.preview is not None
    assert (asked.preview.count, asked.preview.kept) == (3, True)
    assert asked.preview.paths == ("build/a.o", "build/deep/b.o", "build/deep/c.o")
    assert json.loads(listed.out.splitlines()[0])["files"] == 3
    assert undone.code == 0, undone.err
    assert "put back 3 files" in undone.err
    assert (build / "deep/c.o").read_text() == "deep/c.o"


@pytest.mark.parametrize(("size_mib", "kept"), [(200, True), (1024, False)])
async def test_a_large_file_is_copied_or_the_question_says_that_it_is_gone_for_good(
    rig, size_mib, kept
):
    with (rig.work / "large.bin").open("wb") as file:
        file.write(b"begin")
        file.truncate(size_mib << 20)
    provider = rig.script(call("rm -r large.bin"), {"text": "done"})
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider, *PERSON, sandbox="workspace-write")
        await rig.wait(lambda: rig.bodies(ApprovalRequested))
        shown = await swarm(rig, "approvals", rig.run_id)
        asked = await answer(rig, 1, "approve")
        ended = await run.wait_end()
        # A command that a busy machine makes slow is asked about; `--yes` is the answer.
        undone = await swarm(rig, "undo", rig.run_id, "--yes")
    assert ended.code == 0, ended.err
    assert asked.preview.kept is kept
    assert ("what is lost is lost for good" in " ".join(shown.out.split())) is not kept
    assert ("no copy is kept, and nothing brings it back" in asked.preview.summary) is not kept
    assert "Not run" not in "".join(rig.outputs())
    assert (rig.work / "large.bin").exists() is kept, undone.err
    if kept:
        assert (rig.work / "large.bin").stat().st_size == size_mib << 20


async def test_a_no_leaves_everything_where_it_is(rig):
    (rig.work / "build").mkdir()
    (rig.work / "build" / "a").write_text("a")
    provider = rig.script(call("cd build && rm -r ."), call("rm -r build"), {"text": "done"})
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider, *PERSON, sandbox="workspace-write")
        await answer(rig, 1, "deny", "--reason", "keep it")
        await answer(rig, 2, "deny")
        await run.wait_end()
    assert (rig.work / "build" / "a").read_text() == "a"
    assert "keep it" in rig.outputs()[0]
    assert rig.bodies(SnapshotTaken) == []


async def test_where_nothing_would_be_lost_nobody_is_asked(rig, repository):
    provider = rig.script(
        call("rm -r nothing-here; true"), call("git checkout -- ."), {"text": "done"}
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider, *PERSON, sandbox="workspace-write")
        await run.wait_end()
    assert rig.bodies(ApprovalRequested) == []


@needs_bwrap
async def test_uncommitted_work_that_git_throws_away_comes_back(rig, repository):
    (repository / "a.txt").write_text("hours of work\n")
    provider = rig.script(call("git reset --hard"), {"text": "done"})
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider, *PERSON, sandbox="workspace-write")
        asked = await answer(rig, 1, "approve")
        await run.wait_end()
        assert (repository / "a.txt").read_text() == "one\n", rig.outputs()
        undone = await swarm(rig, "undo", rig.run_id, "--yes")
    assert asked.preview is not None
    assert asked.preview.paths == ("a.txt",)
    assert undone.code == 0, undone.err
    assert (repository / "a.txt").read_text() == "hours of work\n"


@needs_bwrap
async def test_one_yes_lets_a_run_commit_as_often_as_it_wants(rig, repository):
    provider = rig.script(
        call("echo two >b.txt"),
        call("git add -A && git commit -q -m second"),
        call("git tag v1"),
        call("git config user.name evil"),
        {"text": "done"},
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider, *PERSON, sandbox="workspace-write")
        asked = await answer(rig, 1, "approve", "--subtree")
        await run.wait_end()
    assert (asked.cause, asked.action.commits_in) == ("commit", str(repository))
    assert len(rig.bodies(ApprovalRequested)) == 1
    assert git(repository, "log", "--format=%s %D") == "second HEAD -> main, tag: v1\nfirst \n"
    assert git(repository, "config", "user.name") == "a\n"


@needs_bwrap
@pytest.mark.parametrize(
    "how", [("--reviewer", "guardian"), ("--reviewer", "nobody"), ("--approval", "never")]
)
async def test_a_run_that_may_commit_from_the_start_asks_nobody(rig, repository, how):
    (repository / "b.txt").write_text("two\n")
    provider = rig.script(call("git add b.txt && git commit -q -m second"), {"text": "done"})
    words = (*how, "--allow-commit")
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider, *words, sandbox="workspace-write")
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert git(repository, "log", "--format=%s") == "second\nfirst\n", rig.outputs()
    assert [one.grant.commits_in for one in rig.bodies(GrantGiven)] == ["*"]
    assert [one.status for one in rig.bodies(CallEnded)] == ["completed"]
