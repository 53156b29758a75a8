"""Agents in copies of the project, with real processes, mounts and commands in the sandbox."""

import json
import os
import shutil
import signal

import pytest
import trio

from support.copied_agents import (
    LIMIT_S,
    call,
    make_repository,
    play,
    project,
    root,
    spawn,
    swarm,
    turns,
)
from swarm.mailbox.protocol.records import AgentSpawned

__all__ = ["project"]

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="copies need bubblewrap")
pytestmark = [pytest.mark.live, needs_bwrap]


async def test_an_agent_that_is_killed_goes_on_in_the_same_copy(rig, project):
    with trio.fail_after(LIMIT_S):
        started = await rig.run(
            rig.script(
                *root("one", isolation="copy"),
                *turns("/root/one", "echo first > made", "touch waits; sleep 600", "cat made"),
            ),
            sandbox="workspace-write",
        )
        upper = None
        while upper is None or not (upper / "waits").exists():
            found = list(rig.home.glob("state/runs/*/copies/agents/*/0/upper"))
            upper = found[0] if found else None
            await trio.sleep(0.02)
        (life,) = rig.lives("/root/one")
        os.kill(life.pid, signal.SIGKILL)
        ended = await started.wait_end()
        assert ended.code == 0, ended.err
        assert any("first" in output for output in rig.outputs("/root/one"))
        assert [one.epoch for one in rig.lives("/root/one")] == [1, 2]
        assert sorted(os.listdir(project)) == ["gone", "text"]
        assert "made" in await swarm(rig, "diff", rig.run_id, "one", "--stat")


async def test_with_isolate_children_get_copies_and_the_root_shares_the_project(rig, project):
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            {"agent": "/root", "calls": [call("exec_command", cmd="echo r > of-root")]},
            *root("one"),
            *turns("/root/one", "cat of-root && echo 1 > of-one"),
            words=("--isolate=children",),
        )
    assert sorted(os.listdir(project)) == ["gone", "of-root", "text"]
    assert "r" in rig.outputs("/root/one")[0]
    spawned = {one.path: one.limits.isolation for one in rig.bodies(AgentSpawned)}
    assert spawned == {"/root": "shared", "/root/one": "copy"}


async def test_a_writer_below_an_agent_in_a_copy_leaves_the_sandbox_in_no_way(rig, project):
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one", isolation="copy"),
            {"agent": "/root/one", "calls": [spawn("below")]},
            {"agent": "/root/one", "calls": [call("wait_agent", targets=["below"],
                                                  timeout_ms=30_000)]},
            {"agent": "/root/one", "text": "done"},
            {"agent": "/root/one/below", "calls": [call(
                "exec_command", cmd="echo out > escaped", justification="so",
                sandbox_permissions="require_escalated")]},
            {"agent": "/root/one/below", "text": "done"},
            words=("--reviewer", "nobody"),
        )  # fmt: skip
    assert sorted(os.listdir(project)) == ["gone", "text"]
    assert len(rig.bodies(AgentSpawned)) == 3
    assert not [*rig.home.rglob("escaped")]


async def test_a_branch_holds_what_the_agent_changed_and_nothing_else_moves(rig, project):
    git = make_repository(project)
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one", isolation="copy"),
            *turns("/root/one", "rm gone; echo new > 'a file'; chmod +x 'a file'; git status -s"),
        )
        status = rig.outputs("/root/one")[0]
        assert " D gone" in status
        assert " M text" not in status
        await swarm(rig, "branch", rig.run_id, "one", "of-one")
    assert git("ls-tree", "--name-only", "of-one").split("\n")[:2] == ["a file", "text"]
    assert git("ls-tree", "of-one", "a file").startswith("100755 ")
    assert git("status", "-s") == ""
    assert git("rev-parse", "--abbrev-ref", "HEAD") == "main\n"


@pytest.mark.parametrize("rest", [(), ("echo loose > left; echo gone > gone",)])
async def test_commits_in_a_copy_stay_there_and_a_branch_brings_them(rig, project, rest):
    git = make_repository(project)
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one", isolation="copy"),
            *turns(
                "/root/one",
                "echo 1 > first",
                "git add first && git commit -qm 'the first'",
                "echo 2 >> first && rm gone",
                "git add -A && git commit -qm 'the second'",
                "git log --format=%s; git status -s",
                *rest,
            ),
            words=("--isolate=children", "--allow-commit"),
        )
        told = rig.outputs("/root/one")
        assert "the second\nthe first\nbase" in told[4], told
        assert git("log", "--all", "--format=%s") == "base\n"
        said = await swarm(rig, "branch", rig.run_id, "one", "of-one")
        assert "2 of its commits are /root/one's own" in said
    assert git("status", "-s") == ""
    subjects = git("log", "--format=%s", "of-one").splitlines()
    assert subjects[-3:] == ["the second", "the first", "base"]
    assert git("log", "-1", "--format=%an", "of-one~1" if rest else "of-one") == "mason\n"
    assert len(git("log", "--format=%h", "of-one").split()) == (4 if rest else 3)
    assert git("show", "of-one:first") == "1\n2\n"
    files = ["first", "gone", "left", "text"] if rest else ["first", "text"]
    assert git("ls-tree", "--name-only", "of-one").split() == files
    git("fsck", "--strict")


async def test_commits_that_touch_what_no_change_may_are_left_out_of_the_branch(rig, project):
    git = make_repository(project)
    planted = git("hash-object", "-w", "text").strip()
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one", isolation="copy"),
            *turns(
                "/root/one",
                "echo 1 > first",
                f"git update-index --add --cacheinfo 100644,{planted},.swarm/config.toml && "
                "git add first && git commit -qm planted",
                "git log --format=%s",
            ),
            words=("--isolate=children", "--allow-commit"),
        )
        said = await swarm(rig, "branch", rig.run_id, "one", "of-one")
    assert "planted" in rig.outputs("/root/one")[-1]
    assert "its commits are not in the branch: they change .swarm/config.toml" in said
    assert ".swarm" not in git("ls-tree", "-r", "--name-only", "of-one")
    assert "first" in git("ls-tree", "-r", "--name-only", "of-one")


async def test_without_a_sandbox_a_copy_is_refused_before_anything_starts(rig, project):
    with trio.fail_after(LIMIT_S):
        started = await rig.run(rig.script(), "--isolate=children", sandbox="danger-full-access")
        ended = await started.wait_end()
    assert ended.code == 2
    assert "nothing holds agents to their copies" in ended.err
    assert not rig.has_run


async def test_doctor_says_whether_agents_can_work_in_copies(rig):
    with trio.fail_after(LIMIT_S):
        out = await swarm(rig, "doctor", "--json", code=0)
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert any(one["name"] == "copies of the project" for one in found)


@pytest.mark.parametrize("by", ["configuration", "task file"])
async def test_auto_gives_a_copy_to_the_second_of_two_agents_that_may_write(rig, project, by):
    script = rig.script(
        {"agent": "/root", "calls": [spawn("one"), spawn("look", agent_type="explorer"),
                                     spawn("two"), spawn("three", agent_type="merger")]},
        {"agent": "/root", "calls": [call("wait_agent", timeout_ms=30_000, **{"for": "all"})]},
        {"agent": "/root", "calls": [spawn("alone")]},
        {"agent": "/root", "calls": [call("wait_agent", timeout_ms=30_000, **{"for": "all"})]},
        {"agent": "/root", "text": "done", "repeat": "forever"},
        *turns("/root/one", "until test -e go; do sleep 0.02; done; echo 1 > of-one"),
        *turns("/root/two", "echo 2 > of-two"),
        {"agent": "/root/look", "text": "seen"},
        {"agent": "/root/three", "text": "nothing to do"},
        *turns("/root/alone", "echo 4 > of-alone"),
    )  # fmt: skip
    with trio.fail_after(LIMIT_S):
        task = rig.folder / "task.md"
        task.write_text("---\nisolation: auto\n---\nDo it.\n")
        what = ("-p", "do it", "-c", 'isolation="auto"') if by == "configuration" else (str(task),)
        where = ("--provider", script, "-s", "workspace-write", "--plain")
        started = await rig.start("run", *what, *where)
        await rig.wait(lambda: len(rig.bodies(AgentSpawned)) == 5)
        (project / "go").touch()
        ended = await started.wait_end()
    assert ended.code == 0, ended.err
    found = {body.path: body.limits.isolation for body in rig.bodies(AgentSpawned)}
    assert found == {
        "/root": "shared", "/root/one": "shared", "/root/look": "shared", "/root/two": "copy",
        "/root/three": "shared", "/root/alone": "shared",
    }  # fmt: skip
    assert sorted(os.listdir(project)) == ["go", "gone", "of-alone", "of-one", "text"]
    assert "not merged yet: /root/two 1 file" in ended.err


async def test_auto_without_a_sandbox_shares_the_project_and_says_so(rig, project):
    with trio.fail_after(LIMIT_S):
        script = rig.script(*root("one", "two"), *turns("/root/one", "true"),
                            *turns("/root/two", "true"))  # fmt: skip
        started = await rig.run(script, "-c", 'isolation="auto"', sandbox="danger-full-access")
        ended = await started.wait_end()
    assert ended.code == 0, ended.err
    assert "agents share the project, although isolation is auto" in ended.err
    assert {body.limits.isolation for body in rig.bodies(AgentSpawned)} == {"shared"}
