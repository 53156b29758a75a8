"""Escapes through git, its hooks and settings, and links that are swapped, in both stacks."""
# ruff: noqa: ASYNC221, ASYNC240 - nothing else runs meanwhile

import os
import subprocess
from pathlib import Path

import msgspec
import pytest
import trio

from support.escape_testbed import UNTOUCHED, open_escape_testbed, open_test_launcher, run_script
from swarm.mailbox.protocol.spec import AgentSpec, GatewayAccess, RoleBrief
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, WorkspaceWrite
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.exec import command_plan
from swarm.worker.exec.exec_sessions import open_exec_sessions
from swarm.worker.sandbox.sandbox_probe import probe_sandbox
from swarm.worker.tools.loss_preview import predict_loss


@pytest.fixture(params=["landlock", "bwrap"])
def testbed(request):
    with open_escape_testbed(request.param) as made:
        yield made


def read(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def repository(folder):
    for words in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q",
                                   "--allow-empty", "-m", "one"]):  # fmt: skip
        subprocess.run(["git", *words], cwd=folder, check=True, env={"PATH": "/usr/bin:/bin"})


GIT = [
    "git -c core.fsmonitor='touch {out}/x; false' status",
    "git -c core.pager='touch {out}/x; cat' -c pager.log=true -p log",
    "git -c core.hooksPath={work}/src commit --allow-empty -m x",
    "GIT_DIR={out}/repo git init; GIT_DIR={out}/repo git config core.fsmonitor x",
    "GIT_WORK_TREE={out} git checkout -f; GIT_WORK_TREE={out} git clean -fdx",
    "GIT_CONFIG_GLOBAL={out}/config git config --global alias.x '!touch {out}/x'",
    "HOME={out} git config --global core.fsmonitor x",
    "git init {out}/repo",
    "git worktree add {out}/tree; git worktree add src/tree",
    "git clone . {out}/clone",
    "GIT_TRACE={out}/trace git status",
    "GIT_OBJECT_DIRECTORY={out}/objects git hash-object -w src/h",
    "GIT_INDEX_FILE={out}/index git add -A",
    "git config core.worktree {out}; git config core.fsmonitor x",
    "git config --file .git/config core.hooksPath src",
    "GIT_EXTERNAL_DIFF='touch {out}/x' git diff HEAD",
    "git bundle create {out}/bundle HEAD; git archive -o {out}/a.tar HEAD",
]


@pytest.mark.parametrize("script", GIT)
async def test_git_neither_writes_nor_lets_write_outside(testbed, script):
    repository(testbed.work)
    (testbed.work / "src/h").write_text("#!/bin/sh\n")
    before = {name: read(testbed.work / ".git" / name) for name in ("config", "HEAD")}
    hooks = sorted(os.listdir(testbed.work / ".git/hooks"))
    await testbed.sh(script)
    assert testbed.outside() == UNTOUCHED
    assert sorted(os.listdir(testbed.out)) == ["file"]
    assert {name: read(testbed.work / ".git" / name) for name in before} == before
    assert sorted(os.listdir(testbed.work / ".git/hooks")) == hooks
    assert not (testbed.work / ".git/worktrees").exists()


HOOKS = [
    "mv .git/hooks src/; mkdir .git/hooks",
    "mv .git src/old && cp -r src/old .git",
    "cp -r .git src/evil; rm -rf .git; ln -s src/evil .git",
    "mkdir -p src/evil; rm -rf .git; echo 'gitdir: src/evil' >.git",
    "mkdir -p .git/modules/sub/hooks; echo x >.git/modules/sub/hooks/post-checkout",
    "mkdir -p .git/worktrees/one; echo x >.git/worktrees/one/config.worktree",
    "git submodule add ./src sub; git init --separate-git-dir=src/evil .",
    "mv ../work ../work2; mkdir -p ../work/.git/hooks",
    "exec 3<.git; echo x >/proc/self/fd/3/hooks/post-commit",
    "cd .git && echo x >hooks/post-commit",
]


@pytest.mark.parametrize("script", HOOKS)
async def test_a_repository_cannot_be_swapped_for_another(testbed, script):
    repository(testbed.work)
    before = snapshot(testbed.work / ".git")
    await testbed.sh(script)
    assert (testbed.work / ".git").is_dir()
    assert not (testbed.work / ".git").is_symlink()
    assert snapshot(testbed.work / ".git") == before


def snapshot(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# In Python, which makes a step in a hundredth of the time of a program for each: more steps meet.
SWAP_LINK = """
import os, time
end = time.monotonic() + 30  # or until it is killed
while time.monotonic() < end:
    for target in ("{out}", "/tmp", "../.git"):
        os.symlink(target, "src/b")
        os.replace("src/b", "src/a")
"""
WRITE_THROUGH = """
import os
def attempt(act, *words):
    try:
        act(*words)
        return True
    except OSError:
        return False
met = set()
for _ in range(300):
    for name in ("file", "config"):
        attempt(lambda: open(f"src/a/{name}", "w").write("x"))
    attempt(os.mkdir, "src/a/d")
    met.add(os.readlink("src/a"))
print(len(met))
"""


async def test_a_link_swapped_all_the_time_leads_nowhere(testbed):
    (testbed.work / "src/a").symlink_to("/tmp")
    async with open_test_launcher() as (launcher, _), trio.open_nursery() as nursery:
        nursery.start_soon(run_script, launcher, testbed.request(SWAP_LINK, python=True))
        met = []
        while len(met) < 3 or max(met) < 2:  # until the race was really run
            done = await run_script(launcher, testbed.request(WRITE_THROUGH, python=True))
            met.append(int(done.text))
        nursery.cancel_scope.cancel()
    assert testbed.outside() == UNTOUCHED
    assert not (testbed.work / ".git").exists()


SWAP_PROTECTED = """
import os, shutil
def attempt(act, *words):
    try:
        act(*words)
    except OSError:
        pass
for number in range(300):
    attempt(os.symlink, "{out}", ".git")
    attempt(os.unlink, ".git")
    attempt(shutil.rmtree, ".git")
    attempt(os.makedirs, ".git/hooks")
    attempt(lambda: open(".git/config", "w").write("x"))
    attempt(shutil.rmtree, ".git")
    attempt(os.mkdir, "src/g")
    attempt(os.rename, "src/g", ".git")
    attempt(os.rmdir, ".git")
attempt(os.symlink, "{out}", ".git")
"""


async def test_protected_names_that_are_swapped_all_the_time_are_never_left(testbed):
    async with open_test_launcher() as (launcher, _), trio.open_nursery() as nursery:
        for _ in range(3):
            request = testbed.request(SWAP_PROTECTED, python=True)
            nursery.start_soon(run_script, launcher, request)
    assert not os.path.lexists(testbed.work / ".git")
    assert testbed.outside() == UNTOUCHED


async def test_a_root_swapped_for_a_link_carries_no_cleaning_outside(testbed):
    """What the guard puts right after a command, it puts right where the command was let in."""
    inner, theirs = testbed.work / "inner", testbed.out / ".git"
    inner.mkdir()
    theirs.mkdir()
    policy = WorkspaceWrite(writable_roots=(str(inner),))
    await testbed.sh("mv inner src/moved && ln -s {out} inner && ls inner", policy=policy)
    assert theirs.is_dir()
    assert sorted(os.listdir(testbed.out)) == [".git", "file"]


# What a hostile repository would have run by the git commands with which we look ourselves.
CONFIG = """[core]
    fsmonitor = touch {mark}1; false
    hooksPath = {work}/src
    sshCommand = touch {mark}2
    pager = touch {mark}3
    editor = touch {mark}4
    worktree = {out}
    attributesFile = {work}/src/attributes
[diff]
    external = touch {mark}5
[filter "evil"]
    clean = touch {mark}6; cat
    smudge = touch {mark}7; cat
    process = touch {mark}8
    required = true
[diff "evil"]
    command = touch {mark}9
    textconv = touch {mark}a; cat
[alias]
    status = !touch {mark}b
    clean = !touch {mark}c
[log]
    showSignature = true
[gpg]
    program = touch {mark}d
[include]
    path = {work}/src/more
[pager]
    log = touch {mark}e
[credential]
    helper = !touch {mark}f
"""


@pytest.mark.parametrize(
    "script",
    ["git clean -fdx", "git reset --hard HEAD~1", "git checkout -- .", "git push --force",
     "git stash drop", "git branch -D other", "git restore ."],
)  # fmt: skip
async def test_our_own_look_at_a_hostile_repository_runs_nothing_outside(
    testbed, script, monkeypatch
):
    repository(testbed.work)
    repository(testbed.work)
    (testbed.work / "src/h").write_text("x")
    (testbed.work / ".gitattributes").write_text("* filter=evil diff=evil\n")
    subprocess.run(["git", "add", "-A"], cwd=testbed.work, check=True)
    (testbed.work / "src/h").write_text("changed")
    mark = testbed.out / "mark"
    text = CONFIG.replace("{mark}", str(mark)).replace("{work}", str(testbed.work))
    (testbed.work / ".git/config").write_text(text.replace("{out}", str(testbed.out)))
    facts = probe_sandbox()
    wanted = facts if testbed.stack == "bwrap" else msgspec.structs.replace(facts, bwrap=None)
    monkeypatch.setattr(command_plan, "probe_sandbox", lambda: wanted)
    spec = AgentSpec(
        run_id="r",
        agent_id="a",
        path="/root",
        epoch=1,
        role=RoleBrief(),
        limits=Limits(sandbox=DangerFullAccess()),
        cwd=str(testbed.work),
        endpoint="",
        identity=b"",
        secret=b"",
        gateway=GatewayAccess(endpoint="", token=b""),
        tmp_dir=str(testbed.home / "tmp"),
        environment={"PATH": "/usr/bin:/bin"},
    )
    async with (
        open_test_launcher() as (launcher, _),
        open_exec_sessions(launcher, CurrentSpec(spec)) as sessions,
    ):
        await predict_loss(("/bin/bash", "-c", script), str(testbed.work), sessions)
    assert testbed.outside() == UNTOUCHED
    assert sorted(entry.name for entry in testbed.work.iterdir()) == [
        ".git",
        ".gitattributes",
        "src",
    ]
    assert list(testbed.home.glob("**/mark*")) == []
