"""A run that is in a copy of the project as a whole: an overlay, or a folder of its own."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import trio

from support.copied_agents import BASE, LIMIT_S, call, project, root, spawn, turns
from support.questioned_terminal import answer_on_terminal
from swarm.mailbox.protocol.records import AgentSpawned, RunCompleted

__all__ = ["project"]

_MASKED = [path for path in ("/usr/bin/bwrap", "/bin/bwrap") if os.path.exists(path)]
_WITHOUT_BUBBLEWRAP = (
    *("unshare", "--mount" if os.geteuid() == 0 else "-rm", "--propagation", "private"),
    *("sh", "-c", "".join(f"mount --bind /dev/null {path}; " for path in _MASKED) + 'exec "$@"'),
    "sh",
)
_CAN_MASK = subprocess.run([*_WITHOUT_BUBBLEWRAP, "true"], capture_output=True).returncode == 0
_OVERLAYS = pytest.param(
    (), id="overlays",
    marks=pytest.mark.skipif(shutil.which("bwrap") is None, reason="overlays need bubblewrap"),
)  # fmt: skip
_FOLDERS = pytest.param(
    _WITHOUT_BUBBLEWRAP, id="folders",
    marks=pytest.mark.skipif(not _CAN_MASK, reason="needs a mount namespace to hide bubblewrap"),
)  # fmt: skip
pytestmark = pytest.mark.live

WRITES = "echo two >> text; rm gone; mkdir -p deep/er; echo x > deep/er/new"


@pytest.fixture(params=[_OVERLAYS, _FOLDERS])
def prefix(request) -> tuple[str, ...]:
    """What stands before a command, so that its copies are overlays, or folders."""
    return request.param


@pytest.fixture
def play_in(rig, prefix):
    async def play(*steps: dict[str, object], words: tuple[str, ...] = ("--isolate",)) -> str:
        started = await rig.run(rig.script(*steps), *words, sandbox="workspace-write",
                                prefix=prefix)  # fmt: skip
        ended = await started.wait_end()
        assert ended.code == 0, ended.err
        return ended.err

    return play


@pytest.fixture
def swarm(rig, prefix):
    async def swarm(*words: str, code: int = 0) -> str:
        ended = await (await rig.start(*words, prefix=prefix)).wait_end()
        assert ended.code == code, ended.err + ended.out
        return ended.out + ended.err

    return swarm


def state_of(folder: Path) -> dict[str, bytes]:
    files = (one for one in folder.rglob("*") if one.is_file())
    return {str(one.relative_to(folder)): one.read_bytes() for one in files}


async def test_the_project_stays_as_it_is_until_the_merge_and_an_undo_brings_it_back(
    rig, project, play_in, swarm
):
    before = state_of(project)
    with trio.fail_after(LIMIT_S):
        said = await play_in(*turns("/root", WRITES, "cat text"))
        assert said.splitlines()[0].startswith("swarm: the whole run works in a copy")
        assert "two" in rig.outputs("/root")[1]
        assert state_of(project) == before
        assert "not merged yet: /root 3 files" in said
        assert "+two" in await swarm("diff", rig.run_id)
        assert state_of(project) == before
        await swarm("merge", rig.run_id)
        assert (project / "text").read_text() == f"{BASE}two\n"
        assert sorted(os.listdir(project)) == ["deep", "text"]
        await swarm("undo", rig.run_id, "--merge", "1")
        assert state_of(project) == before
        await swarm("merge", rig.run_id, "/root", "--discard")
        await swarm("rm", rig.run_id)
    assert not list((rig.home / "state").glob("*/*/copies"))


async def test_auto_merges_at_the_end_what_the_root_changed(rig, project, play_in):
    with trio.fail_after(LIMIT_S):
        said = await play_in(*turns("/root", WRITES), words=("--isolate", "--merge", "auto"))
    assert "merged: /root 3 files" in said
    assert (project / "text").read_text() == f"{BASE}two\n"


async def test_a_reader_that_the_root_starts_sees_the_roots_copy_and_has_no_change(
    rig, project, prefix, play_in
):
    (project / "node_modules").mkdir()
    (project / "node_modules" / "old").write_text("old\n")
    (project / "folder").mkdir()
    (project / "folder" / "below").write_text("below\n")
    before = state_of(project)
    looks = "cat text deep/er/new; ls; ls folder node_modules; echo x > escaped; pwd"
    anew = "rm folder/below; rmdir folder; mkdir folder; echo n > folder/anew"
    installs = f"{anew}; echo m > node_modules/made"
    with trio.fail_after(LIMIT_S):
        said = await play_in(
            {"agent": "/root", "calls": [call("exec_command", cmd=f"{WRITES}; {installs}")]},
            *root("eye", agent_type="explorer"),
            {"agent": "/root/eye", "calls": [call("exec_command", cmd=looks)]},
            *root_of("/root/eye", "iris"),
            *turns("/root/eye/iris", looks),
            words=("--isolate", "--max-depth", "3"),
        )
    for agent in ("/root/eye", "/root/eye/iris"):
        seen = rig.outputs(agent)[0]
        assert "two" in seen and "x" in seen, (agent, seen)
        names = seen.split()
        assert "gone" not in names and "below" not in names, seen
        assert {"anew", "deep", "folder", "text"} <= {*names}, seen
        assert ("made" in names) is (not prefix), "what it installed lies in a layer"
        assert "Read-only file system" in seen or "Permission denied" in seen
    assert state_of(project) == before
    assert "not merged yet: /root 5 files" in said, said
    assert "eye" not in said.partition("not merged yet")[2].partition(";")[0]
    spawned = {one.path: one.limits.isolation for one in rig.bodies(AgentSpawned)}
    assert set(spawned.values()) == {"copy"} and len(spawned) == 3


def root_of(agent: str, name: str) -> list[dict[str, object]]:
    return [
        {"agent": agent, "calls": [spawn(name, agent_type="explorer")]},
        {"agent": agent, "calls": [call("wait_agent", targets=[name], timeout_ms=30_000)]},
        {"agent": agent, "text": "seen"},
    ]


async def test_a_killed_supervisor_goes_on_in_the_same_copy_after_a_resume(
    rig, project, prefix, swarm
):
    before = state_of(project)
    with trio.fail_after(LIMIT_S):
        script = rig.script(
            *turns("/root", "echo first > made")[:1],
            {"agent": "/root", "calls": [call("exec_command", cmd="touch waits; sleep 600")]},
            *turns("/root", "cat made; echo more >> made"),
        )
        started = await rig.run(script, "--isolate", sandbox="workspace-write", prefix=prefix)
        while not [*(rig.home / "state").rglob("waits")]:  # noqa: ASYNC110 - a command makes it
            await trio.sleep(0.02)
        os.kill(started.pid, signal.SIGKILL)
        await started.wait_end()
        assert state_of(project) == before
        await swarm("resume", rig.run_id)
        assert any("first" in output for output in rig.outputs("/root"))
        assert state_of(project) == before
        assert "made" in await swarm("diff", rig.run_id, "--stat")


@pytest.mark.parametrize(("key", "merged"), [(b"y\n", True), (b"\n", False)])
async def test_on_a_terminal_the_end_asks(rig, project, key, merged):
    script = rig.script(*turns("/root", WRITES))
    words = ("run", "-p", "x", "--provider", script, "--isolate", "--plain")
    with trio.fail_after(LIMIT_S):
        seen = await answer_on_terminal(
            rig, b"Merge this into the project?", key, *words, "-s", "workspace-write"
        )
    assert b"/root 3" in seen
    assert ((project / "text").read_text() != BASE) is merged


def named(said: str) -> set[str]:
    """What the last lines call unmerged."""
    return {*said.partition("not merged yet: ")[2].partition(";")[0].split(", ")}


async def test_a_fan_out_of_workers_changes_copies_alone_and_its_root_only_joins(
    rig, project, swarm
):
    (project / "task.md").write_text(
        "---\nfan_out:\n  each: {lines: 'printf \"a\\nb\\n\"'}\n"
        "  prompt: '{item}'\n  role: worker\nisolation: run\n---\nJoin."
    )
    before = state_of(project)
    script = rig.script(
        *turns("/root", "echo r > by-root"), *turns("/root/a", "echo a > by-a"),
        *turns("/root/b", "echo b > by-b"),
    )  # fmt: skip
    words = ("run", "task.md", "--provider", script, "-s", "workspace-write", "--plain")
    with trio.fail_after(LIMIT_S):
        said = await swarm(*words)
        assert "the whole run works in a copy" in said
        assert state_of(project) == before
        assert {"/root/a 1 file", "/root/b 1 file"} == named(said), said
        await swarm("merge", rig.run_id)
    assert {"by-a", "by-b"} <= {*os.listdir(project)}
    assert not (project / "by-root").exists()


async def test_hooks_see_the_copy_and_the_answers_file_is_where_the_person_said(
    rig, project, play_in
):
    hook = {"type": "command", "command": "ls > seen-by-hook; cat seen-by-hook >&2"}
    (rig.home / "hooks.json").write_text(
        json.dumps({"hooks": {"PostToolUse": [{"matcher": "*", "hooks": [hook]}]}})
    )
    with trio.fail_after(LIMIT_S):
        said = await play_in(
            *turns("/root", WRITES, "cat seen-by-hook"), words=("--isolate", "-o", "answer")
        )
        seen = rig.outputs("/root")[1]
    assert "deep" in seen and "gone" not in seen, said + seen
    assert sorted(os.listdir(project)) == ["answer", "gone", "text"]
    assert (project / "answer").read_text() == "done"


async def test_a_run_that_only_reads_needs_no_copy_and_one_without_a_sandbox_gets_none(
    rig, project, prefix, swarm
):
    script = rig.script(*turns("/root", "cat text"))
    settings = f'isolation = "run"\nmodel_provider = "{script}"\n'
    (rig.home / "config.toml").write_text(settings)
    with trio.fail_after(LIMIT_S):
        said = await swarm("exec", "--skip-git-repo-check", "look")
        assert "this run may only read, so it needs no copy of the project" in said
        assert BASE in rig.outputs("/root")[0]
        refused = await swarm(
            "exec", "--skip-git-repo-check", "-s", "danger-full-access", "x", code=2
        )
        assert "without a sandbox nothing holds agents to their copies" in refused
        assert not list((rig.home / "state").rglob("tree-0"))


async def test_a_detached_run_says_first_that_it_is_a_copy_and_ends_in_it(
    rig, project, prefix, swarm
):
    before = state_of(project)
    script = rig.script(*turns("/root", WRITES))
    words = ("run", "-p", "x", "--isolate", "--detach", "--provider", script, "--plain")
    with trio.fail_after(LIMIT_S):
        said = await swarm(*words, "-s", "workspace-write")
        assert "the whole run works in a copy" in said
        await rig.wait(lambda: rig.bodies(RunCompleted))
        assert state_of(project) == before
        assert "+two" in await swarm("diff", rig.run_id)


def asks(agent: str, **calls: dict[str, object]) -> list[dict[str, object]]:
    """One turn of the script for each call, by the tool's name (numbers at its end are dropped)."""
    return [
        {"agent": agent, "calls": [call(name.rstrip("0123456789"), **given)]}
        for name, given in calls.items()
    ]


def worked_below(agent: str, name: str, *commands: str) -> list[dict[str, object]]:
    """The agent writes, starts a writer, waits for it, and merges what it did."""
    return [
        *turns(agent, *commands)[:-1],
        {"agent": agent, "calls": [spawn(name)]},
        *asks(
            agent,
            wait_agent={"targets": [name], "timeout_ms": 60_000},
            merge_changes={"agents": [name]},
            exec_command={"cmd": "cat by-* text; ls -a"},
        ),
        {"agent": agent, "text": "done"},
    ]


async def test_copies_of_copies_two_deep_go_up_one_level_at_a_time(
    rig, project, prefix, play_in, swarm
):
    before = state_of(project)
    deep = "cat by-* text; echo c > by-c; sed -i 's/line 9/line c/' text; rm by-b"
    with trio.fail_after(LIMIT_S):
        said = await play_in(
            *worked_below("/root", "b", "echo a > by-a; rm gone"),
            *worked_below(
                "/root/b", "c", "cat by-a; ls; echo b > by-b; sed -i 's/line 0/line b/' text"
            ),
            *turns("/root/b/c", deep),
            words=("--isolate", "--max-depth", "3"),
        )
        assert state_of(project) == before
        assert "gone" not in rig.outputs("/root/b")[0].split()
        assert {"a", "b"} <= {*rig.outputs("/root/b/c")[0].split()}
        assert "line b" in rig.outputs("/root/b/c")[0]
        for agent in ("/root/b", "/root"):
            assert "merged into" in rig.outputs(agent)[-2], rig.outputs(agent)
            seen = rig.outputs(agent)[-1]
            assert "line c" in seen and "line b" in seen and "\nc" in seen, seen
            assert "by-b" not in seen and ".swarm-merge" not in seen
        assert named(said) == {"/root 4 files"}
        await swarm("merge", rig.run_id)
    assert sorted(os.listdir(project)) == ["by-a", "by-c", "text"]
    assert "line b" in (project / "text").read_text() and "line c" in (project / "text").read_text()
    spawned = {one.path: one.limits.isolation for one in rig.bodies(AgentSpawned)}
    assert spawned == dict.fromkeys(("/root", "/root/b", "/root/b/c"), "copy")


async def test_a_conflict_with_the_parents_copy_names_both_sides_and_is_resolved(
    rig, project, play_in
):
    waits = {"targets": ["b"], "timeout_ms": 60_000}
    whole = "resolved\n"
    with trio.fail_after(LIMIT_S):
        said = await play_in(
            {"agent": "/root", "calls": [spawn("b")]},
            *asks(
                "/root",
                exec_command={"cmd": "echo of-root > text"},
                wait_agent=waits,
                merge_changes={"agents": ["b"]},
                merge_changes2={
                    "agents": ["b"], "resolved": [{"path": "text", "content": whole}]
                },
                exec_command2={"cmd": "cat text; ls"},
            ),
            {"agent": "/root", "text": "done"},
            *turns("/root/b", "echo of-b > text; echo b > by-b"),
        )  # fmt: skip
    outputs = rig.outputs("/root")
    assert "the other side is the copy of /root, changed since" in outputs[-3], outputs[-3]
    assert "of-root" in outputs[-3] and "of-b" in outputs[-3] and "/root/b" in outputs[-3]
    assert "merged into" in outputs[-2]
    assert "resolved" in outputs[-1] and "by-b" in outputs[-1]
    assert (project / "text").read_text() == BASE
    assert named(said) == {"/root 2 files"}


async def test_a_person_merges_into_the_copy_first_and_then_into_the_project(
    rig, project, play_in, swarm
):
    before = state_of(project)
    with trio.fail_after(LIMIT_S):
        said = await play_in(*root("b"), *turns("/root/b", WRITES))
        assert named(said) == {"/root/b 3 files (into the copy of /root)"}
        assert "nothing to merge" in (await swarm("merge", rig.run_id, "--check")).lower()
        told = await swarm("merge", rig.run_id, "/root", "/root/b", "--check", code=2)
        assert "a merge goes up one level" in told
        refused = await swarm("branch", rig.run_id, "/root/b", "of-b", code=2)
        assert "merge it there first" in refused
        assert "merged into the copy of /root" in await swarm("merge", rig.run_id, "/root/b")
        assert state_of(project) == before
        assert "+two" in await swarm("diff", rig.run_id)
        await swarm("merge", rig.run_id)
        assert sorted(os.listdir(project)) == ["deep", "text"]
        await swarm("undo", rig.run_id, "--merge", "1")
        assert state_of(project) == before


async def test_a_kill_of_all_leaves_nothing_mounted_and_a_resume_goes_on_in_the_same_two_copies(
    rig, project, prefix, swarm
):
    before = state_of(project)
    script = rig.script(
        {"agent": "/root", "calls": [call("exec_command", cmd="echo a > by-a")]},
        *root("b"),
        {"agent": "/root/b", "calls": [call("exec_command", cmd="echo b > by-b")]},
        {"agent": "/root/b", "calls": [call("exec_command", cmd="touch waits; sleep 600")]},
        *turns("/root/b", "cat by-a by-b"),
    )
    with trio.fail_after(LIMIT_S):
        started = await rig.run(script, "--isolate", sandbox="workspace-write", prefix=prefix)
        while not [*(rig.home / "state").rglob("waits")]:  # noqa: ASYNC110 - a command makes it
            await trio.sleep(0.02)
        pids = [one.pid for one in rig.bodies(AgentSpawned)]
        os.kill(started.pid, signal.SIGKILL)
        await started.wait_end()
        await rig.wait(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))
        mounts = await trio.Path("/proc/self/mountinfo").read_text()
        assert str(rig.home) not in mounts and f" {project} " not in mounts
        assert state_of(project) == before
        await swarm("resume", rig.run_id)
        assert any("a\nb" in output for output in rig.outputs("/root/b"))
        assert state_of(project) == before
        assert not [*project.rglob(".swarm*")]


async def test_auto_brings_in_what_copies_of_copies_hold_one_level_after_the_other(
    rig, project, play_in
):
    with trio.fail_after(LIMIT_S):
        said = await play_in(
            *root("b"), *turns("/root/b", WRITES), words=("--isolate", "--merge", "auto")
        )
    assert "merged: /root/b 3 files (into the copy of /root)" in said, said
    assert "merged: /root 3 files; `swarm undo" in said
    assert sorted(os.listdir(project)) == ["deep", "text"]


def write_prepare(rig, *commands: str, mode: str = "run", inputs: tuple[str, ...] = ()) -> None:
    lines = [f"mode = {json.dumps(mode)}", f"prepare = {json.dumps(commands)}"]
    lines += [f"prepare_inputs = {json.dumps(inputs)}"] if inputs else []
    (rig.home / "config.toml").write_text("[isolation]\n" + "\n".join(lines) + "\n")


INSTALL = (
    "mkdir -p node_modules && cp package.json node_modules/of && echo x >> node_modules/runs && "
    "echo beside > beside && mkdir -p sub/.venv && echo v > sub/.venv/v"
)
LOOKS = "cat node_modules/of; cat node_modules/runs; cat sub/.venv/v; ls"


async def test_what_prepare_makes_is_in_all_copies_once_for_each_state_of_its_files(
    rig, project, prefix, play_in
):
    (project / "sub").mkdir()
    (project / "sub" / "file").write_text("file\n")
    (project / "package.json").write_text("first\n")
    before = state_of(project)
    write_prepare(rig, INSTALL, mode="children")
    changed = f"{LOOKS}; echo mine >> node_modules/runs; rm sub/.venv/v"
    with trio.fail_after(LIMIT_S):
        said = await play_in(
            *root("a", "b")[:-1],
            {"agent": "/root", "calls": [call("exec_command", cmd="echo second > package.json")]},
            *root("c"),
            *turns("/root/a", changed, "cat node_modules/runs; ls sub"),
            *turns("/root/b", LOOKS),
            *turns("/root/c", LOOKS),
            words=(),
        )
    for agent, wanted in (("/root/a", "first"), ("/root/b", "first"), ("/root/c", "second")):
        seen = rig.outputs(agent)[0].split("Output:")[-1].split()
        assert seen[:3] == [wanted, "x", "v"], (agent, seen)
        assert "beside" not in seen, "only what tools fill is kept"
    written = rig.outputs("/root/a")[1].split("Output:")[-1].split()
    assert ("mine" in written) is (not prefix), "its own in a layer; a link can only be read"
    made = [*(rig.home / "state").rglob("copies/prepared/*/done")]
    assert len(made) == 2, "once for each state of package.json"
    assert "not merged yet" not in said, said
    assert state_of(project) == {**before, "package.json": b"second\n"}


async def test_a_prepare_that_fails_says_which_command_and_leaves_nothing(
    rig, project, prefix, swarm
):
    write_prepare(rig, "true", "mkdir node_modules; echo no such package >&2; exit 7")
    words = ("run", "-p", "x", "--provider", rig.script(*turns("/root", "true")), "--plain")
    with trio.fail_after(LIMIT_S):
        said = await swarm(*words, "-s", "workspace-write", code=1)
    assert "[isolation] prepare failed" in said and "exit code 7" in said, said
    assert "no such package" in said
    assert not [*(rig.home / "state").rglob("node_modules")]
    assert sorted(os.listdir(project)) == ["gone", "text"]


async def test_a_copy_of_a_copy_and_its_readers_have_what_was_prepared(rig, project, play_in):
    write_prepare(rig, "mkdir -p node_modules && echo made > node_modules/of")
    with trio.fail_after(LIMIT_S):
        await play_in(
            {"agent": "/root", "calls": [spawn("b"), spawn("eye", agent_type="explorer")]},
            *asks(
                "/root", wait_agent={"targets": ["b", "eye"], "for": "all", "timeout_ms": 60_000}
            ),
            {"agent": "/root", "text": "done"},
            *turns("/root/b", "cat node_modules/of"),
            *turns("/root/eye", "cat node_modules/of"),
            words=(),
        )
    assert "made" in rig.outputs("/root/b")[0] and "made" in rig.outputs("/root/eye")[0]
