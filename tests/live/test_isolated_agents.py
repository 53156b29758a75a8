"""Agents in copies of the project, with real processes, mounts and commands in the sandbox."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
import trio

from swarm.mailbox.protocol.merge_records import MergeEnded
from swarm.mailbox.protocol.records import AgentSpawned, RunIdle

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="copies need bubblewrap")
pytestmark = [pytest.mark.live, needs_bwrap]
LIMIT_S = 60
BASE = "".join(f"line {number}\n" for number in range(10))


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def spawn(name: str, **more: object) -> dict[str, object]:
    return call("spawn_agent", task_name=name, message="work", fork_turns="none", **more)


def turns(agent: str, *commands: str) -> list[dict[str, object]]:
    """One command after the other, then an answer."""
    asked = [{"agent": agent, "calls": [call("exec_command", cmd=one)]} for one in commands]
    return [*asked, {"agent": agent, "text": "done"}]


def root(*names: str, **more: object) -> list[dict[str, object]]:
    return [
        {"agent": "/root", "calls": [spawn(name, **more) for name in names]},
        {"agent": "/root", "calls": [call("wait_agent", targets=list(names), mode="all",
                                          timeout_ms=30_000)]},
        {"agent": "/root", "text": "done", "repeat": "forever"},
    ]  # fmt: skip


async def play(rig, *turns: dict[str, object], words: tuple[str, ...] = ()) -> str:
    started = await rig.run(rig.script(*turns), *words, sandbox="workspace-write")
    ended = await started.wait_end()
    assert ended.code == 0, ended.err
    return ended.err


async def swarm(rig, *words: str, code: int = 0) -> str:
    ended = await (await rig.start(*words)).wait_end()
    assert ended.code == code, ended.err + ended.out
    return ended.out + ended.err


@pytest.fixture
def project(rig):
    (rig.work / "text").write_text(BASE)
    (rig.work / "gone").write_text("gone\n")
    return rig.work


async def test_two_agents_write_the_same_file_and_the_project_gets_both_by_a_merge(rig, project):
    one = "sed -i 's/line 1$/LINE 1/' text && rm gone && echo new > made && cat text | head -2"
    with trio.fail_after(LIMIT_S):
        err = await play(
            rig,
            *root("one", "two", isolation="copy"),
            *turns("/root/one", one),
            *turns("/root/two", "sed -i 's/line 8/LINE 8/' text; ls; test -e made || echo alone"),
        )
        assert (project / "text").read_text() == BASE
        assert sorted(os.listdir(project)) == ["gone", "text"]
        assert "LINE 1" in rig.outputs("/root/one")[0]
        assert "alone" in rig.outputs("/root/two")[0]
        assert "/root/one 3 files" in err.partition("not merged yet: ")[2]
        shown = await swarm(rig, "diff", rig.run_id, "one")
        assert "-line 1\n+LINE 1\n" in shown
        assert "deleted file" in shown
        assert "3 clean" in await swarm(rig, "merge", rig.run_id, "--check")
        assert (project / "text").read_text() == BASE
        await swarm(rig, "rm", rig.run_id, code=2)
        await swarm(rig, "merge", rig.run_id)
        text = (project / "text").read_text()
        assert ("LINE 1\n" in text, "LINE 8\n" in text) == (True, True)
        assert sorted(os.listdir(project)) == ["made", "text"]
        assert "nothing to merge" in await swarm(rig, "merge", rig.run_id)
        await swarm(rig, "undo", rig.run_id, "--merge", "1")
        assert (project / "text").read_text() == BASE
        assert sorted(os.listdir(project)) == ["gone", "text"]
        assert "3 clean" in await swarm(rig, "merge", rig.run_id, "--check")
    ended = rig.bodies(MergeEnded)
    assert [one.applied for one in ended] == [True]


CONFLICT_HOOK = """
import json, sys
told = json.load(sys.stdin)
one = told["conflicts"][0]
print(json.dumps({"systemMessage": f"{told['conflict_count']} {one['path']} {one['with']}"}))
open("ran", "w")  # fails: the sandbox is read-only
"""


async def test_lines_that_two_agents_changed_are_a_conflict_and_nothing_is_written(rig, project):
    command = f"python3 -c {shlex.quote(CONFLICT_HOOK)}; true"
    hook = {"hooks": [{"type": "command", "command": command}]}
    (rig.home / "hooks.json").write_text(json.dumps({"hooks": {"MergeConflict": [hook]}}))
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one", "two", isolation="copy"),
            *turns("/root/one", "sed -i 's/line 1$/A/' text; echo 1 > one"),
            *turns("/root/two", "sed -i 's/line 1$/B/' text; echo 2 > two"),
        )
        said = await swarm(rig, "merge", rig.run_id, code=1)
        assert "both sides changed the same lines" in said
        assert f"1 {project}/text ['/root/one']" in said
        assert sorted(os.listdir(project)) == ["gone", "text"]
        await swarm(rig, "merge", rig.run_id, "one")
        assert (project / "text").read_text().startswith("line 0\nA\n")
        await swarm(rig, "merge", rig.run_id, "two", "--discard")
        assert "nothing to merge" in await swarm(rig, "merge", rig.run_id)


async def make_two_changes(rig) -> None:
    """Two agents change one file in different places, and one removes another."""
    await play(
        rig,
        *root("one", "two", isolation="copy"),
        *turns("/root/one", "sed -i 's/line 1$/A/' text; rm gone"),
        *turns("/root/two", "sed -i 's/line 8/B/' text; echo 2 > two"),
    )


async def test_a_merge_goes_in_only_if_a_command_succeeds_in_the_merged_copy(rig, project):
    (project / "node_modules").mkdir()
    (project / "node_modules" / "tool").write_text("tool\n")
    failing = (
        "pwd; cat text node_modules/tool; ls; touch made node_modules/made; "
        f"echo x > {rig.home}/escaped; printf '\\033[2J'; exit 3"
    )
    with trio.fail_after(LIMIT_S):
        await make_two_changes(rig)
        said = await swarm(rig, "merge", rig.run_id, "--yes", "--run", failing, code=1)
        assert f"{project}\nline 0\nA\n" in said
        assert "\nB\n" in said
        assert "\ntool\n" in said
        assert "\ngone\n" not in said
        assert "\x1b" not in said
        assert "exit code 3 in the merged copy; nothing was merged" in said
        assert sorted(os.listdir(project)) == ["gone", "node_modules", "text"]
        assert os.listdir(project / "node_modules") == ["tool"]
        assert not (rig.home / "escaped").exists()
        checked = await swarm(rig, "merge", rig.run_id, "--check", "--run", "test -e two")
        assert "the command succeeded" in checked
        assert (project / "gone").exists()
        await swarm(rig, "merge", rig.run_id, "--yes", "--run", "grep -q A text && test -e two")
        assert (project / "text").read_text().startswith("line 0\nA\n")
        assert sorted(os.listdir(project)) == ["node_modules", "text", "two"]
        assert not list((rig.home / "state/runs" / rig.run_id / "copies/trials").iterdir())


async def test_a_project_that_changes_while_the_command_runs_is_not_merged_untested(rig, project):
    trials = rig.home / "state/runs"
    # A sandboxed command reads what lies outside of the project and of /tmp.
    with tempfile.TemporaryDirectory(dir="/var/tmp") as signs, trio.fail_after(LIMIT_S):
        await make_two_changes(rig)
        waits = f"until test -e {signs}/go; do sleep 0.02; done"
        merging = await rig.start("merge", rig.run_id, "--yes", "--run", waits)
        await rig.wait(lambda: list(trials.glob("*/copies/trials/*/agents/trial/copy")))
        mine = BASE.replace("line 5", "mine")
        (project / "text").write_text(mine)
        (Path(signs) / "go").touch()
        ended = await merging.wait_end()
        assert ended.code == 1
        assert "is not what the command was run on any more" in ended.err
        assert (project / "text").read_text() == mine
        assert sorted(os.listdir(project)) == ["gone", "text"]


async def test_a_merge_into_a_branch_leaves_the_project_as_it_is(rig, project):
    def git(*words: str) -> str:
        argv = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(project), *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "start")
    with trio.fail_after(LIMIT_S):
        await make_two_changes(rig)
        await swarm(rig, "merge", rig.run_id, "--into", "both", "--run", "test -e two")
        assert git("status", "--porcelain") == ""
        merged = git("show", "both:text")
        assert "\nA\n" in merged
        assert "\nB\n" in merged
        assert git("ls-tree", "--name-only", "both").split() == ["text", "two"]
        again = await swarm(rig, "merge", rig.run_id, "--into", "both", code=2)
        assert "there is a branch both already" in again
        assert "/root/one" in await swarm(rig, "merge", rig.run_id, "--check")


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


async def test_a_live_run_merges_and_a_supervisor_that_is_killed_loses_no_work(rig, project):
    with trio.fail_after(LIMIT_S):
        started = await rig.run(
            rig.script(
                *root("one", "two", isolation="copy"),
                *turns("/root/one", "echo 1 > of-one"),
                *turns("/root/two", "echo 2 > of-two"),
            ),
            "--keep-open",
            sandbox="workspace-write",
        )
        await rig.wait(lambda: bool(rig.bodies(RunIdle)))
        assert "merged; to take it back" in await swarm(rig, "merge", rig.run_id, "one")
        assert sorted(os.listdir(project)) == ["gone", "of-one", "text"]
        await swarm(rig, "undo", rig.run_id, "--merge", "1")
        assert sorted(os.listdir(project)) == ["gone", "text"]
        os.kill(started.pid, signal.SIGKILL)
        await started.wait_end()
        await rig.wait_gone()
        assert "1 clean" in await swarm(rig, "merge", rig.run_id, "--check")
        await swarm(rig, "merge", rig.run_id)
        assert sorted(os.listdir(project)) == ["gone", "of-one", "of-two", "text"]


async def test_with_isolate_children_get_copies_and_the_root_shares_the_project(rig, project):
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            {"agent": "/root", "calls": [call("exec_command", cmd="echo r > of-root")]},
            *root("one"),
            *turns("/root/one", "cat of-root && echo 1 > of-one"),
            words=("--isolate",),
        )
    assert sorted(os.listdir(project)) == ["gone", "of-root", "text"]
    assert "r" in rig.outputs("/root/one")[0]
    spawned = {one.path: one.limits.isolation for one in rig.bodies(AgentSpawned)}
    assert spawned == {"/root": "shared", "/root/one": "copy"}


async def test_an_agent_in_a_copy_starts_no_agents_and_leaves_the_sandbox_in_no_way(rig, project):
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one", isolation="copy"),
            {"agent": "/root/one", "calls": [spawn("below"), call(
                "exec_command", cmd="echo out > escaped", justification="so",
                sandbox_permissions="require_escalated")]},
            {"agent": "/root/one", "text": "done"},
            words=("--reviewer", "nobody"),
        )  # fmt: skip
    assert sorted(os.listdir(project)) == ["gone", "text"]
    assert [one.path for one in rig.bodies(AgentSpawned)] == ["/root", "/root/one"]


async def test_a_branch_holds_what_the_agent_changed_and_nothing_else_moves(rig, project):
    def git(*words: str) -> str:
        settings = ("-c", "user.name=x", "-c", "user.email=x@x")
        done = subprocess.run(["git", *settings, *words], cwd=project, capture_output=True,
                              check=True)  # fmt: skip
        return done.stdout.decode()

    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "base")
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


async def test_without_a_sandbox_a_copy_is_refused_before_anything_starts(rig, project):
    with trio.fail_after(LIMIT_S):
        started = await rig.run(rig.script(), "--isolate", sandbox="danger-full-access")
        ended = await started.wait_end()
    assert ended.code == 2
    assert "nothing holds agents to their copies" in ended.err
    assert not rig.has_run


async def test_doctor_says_whether_agents_can_work_in_copies(rig):
    with trio.fail_after(LIMIT_S):
        out = await swarm(rig, "doctor", "--json", code=0)
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert any(one["name"] == "copies of the project" for one in found)
