"""Merges of what agents changed in copies: by a person, tested first, as a branch, by a model."""

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

from support.copied_agents import BASE, LIMIT_S, call, play, project, root, swarm, turns
from swarm.mailbox.protocol.approvals import PatchAction
from swarm.mailbox.protocol.merge_records import MergeEnded
from swarm.mailbox.protocol.records import ApprovalRequested, MailPosted, RunIdle

__all__ = ["project"]

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="copies need bubblewrap")
pytestmark = [pytest.mark.live, needs_bwrap]


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
        said = await swarm(rig, "merge", rig.run_id, "one", "two", code=1)
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
        "pwd; cat text node_modules/tool; ls; touch made node_modules/made; env | grep API_KEY; "
        f"echo x > {rig.home}/escaped; printf '\\033[2J'; exit 3"
    )
    rig.environment["OPENAI_API_KEY"] = "sk-secret-of-the-person-0123456789"
    with trio.fail_after(LIMIT_S):
        await make_two_changes(rig)
        said = await swarm(rig, "merge", rig.run_id, "--yes", "--run", failing, code=1)
        assert f"{project}\nline 0\nA\n" in said
        assert "\nB\n" in said
        assert "\ntool\n" in said
        assert "\ngone\n" not in said
        assert "\x1b" not in said
        assert "exit code 3 in the merged copy; nothing was merged" in said
        assert "sk-secret" not in said
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
        assert "is not what it was when the merge was checked" in ended.err
        assert (project / "text").read_text() == mine
        assert sorted(os.listdir(project)) == ["gone", "text"]


async def test_the_command_ends_with_a_merge_that_is_killed(rig, project):
    with trio.fail_after(LIMIT_S):
        await make_two_changes(rig)
        merging = await rig.start("merge", rig.run_id, "--yes", "--run", "setsid sleep 98; true")
        await rig.wait(lambda: "sleep 98 " in rig.alive().values())
        os.kill(merging.pid, signal.SIGKILL)
        await rig.wait_gone()
    assert sorted(os.listdir(project)) == ["gone", "text"]


def merging_root(*calls: dict[str, object], **more: object) -> list[dict[str, object]]:
    """A root that starts two agents, waits for them, and makes these calls one after the other."""
    begin = root("one", "two", isolation="copy", **more)[:2]
    asked = [{"agent": "/root", "calls": [one]} for one in calls]
    return [*begin, *asked, {"agent": "/root", "text": "done", "repeat": "forever"}]


TWO_EDITS = (
    *turns("/root/one", "sed -i 's/line 1$/A/' text; rm gone"),
    *turns("/root/two", "sed -i 's/line 8/B/' text; echo 2 > two"),
)

TWO_CLASHES = (
    *turns("/root/one", "sed -i 's/line 1$/A/' text"),
    *turns("/root/two", "sed -i 's/line 1$/B/' text"),
)


async def test_a_model_reads_and_merges_what_its_agents_changed(rig, project):
    calls = (
        call("list_changes"),
        call("merge_changes", agents=["one", "two"], check=True),
        call("merge_changes", agents=["one", "/root/two"]),
        call("exec_command", cmd="cat text; ls"),
        call("merge_changes", agents=["one"]),
        call("merge_changes", agents=["nobody"]),
    )
    with trio.fail_after(LIMIT_S):
        err = await play(rig, *merging_root(*calls), *TWO_EDITS, words=("--isolate=children",))
        listed, checked, merged, seen, again, unknown = rig.outputs("/root")[-6:]
        posted = [body.mail for body in rig.bodies(MailPosted)]
        answers = [mail.content for mail in posted if mail.kind == "final_answer"]
        fits = "it fits the project now; `merge_changes` brings it in"
        assert sorted(answers) == [
            f"done\n\n(In its copy of the project: +1 -2 in 2 files; {fits}.)",
            f"done\n\n(In its copy of the project: +2 -1 in 2 files; {fits}.)",
        ]
        assert "/root/one" in listed
        assert "+A" in listed
        assert "2 clean" in checked
        assert "merged; to take it back" in merged
        assert "line 0\nA\n" in seen
        assert "\nB\n" in seen
        assert "there is nothing to merge" in again
        assert "nobody is not an agent of yours in a copy" in unknown
        assert "not merged yet" not in err
        assert sorted(os.listdir(project)) == ["text", "two"]
        assert [body.applied for body in rig.bodies(MergeEnded)] == [True]
        await swarm(rig, "undo", rig.run_id, "--merge", "1", "--yes")
        assert (project / "text").read_text() == BASE


async def test_a_conflict_is_told_to_the_model_and_it_may_give_a_change_up(rig, project):
    calls = (
        call("merge_changes", agents=["one", "two"]),
        call("discard_changes", agent="two"),
        call("merge_changes", agents=["one"]),
    )
    with trio.fail_after(LIMIT_S):
        err = await play(rig, *merging_root(*calls), *TWO_CLASHES, words=("--isolate=children",))
        refused, given_up, merged = rig.outputs("/root")[-3:]
        assert "both sides changed the same lines" in refused
        assert "given up: /root/two" in given_up
        assert "merged" in merged
        assert (project / "text").read_text().startswith("line 0\nA\n")
        assert "not merged yet" not in err


async def test_a_model_resolves_a_conflict_and_all_of_it_goes_in(rig, project):
    whole = BASE.replace("line 1\n", "A and B\n")
    calls = (
        call("merge_changes", agents=["one", "two"]),
        call("merge_changes", agents=["one", "two"],
             resolved=[{"path": "text", "content": whole}, {"path": "gone", "content": ""}]),
        call("merge_changes", agents=["one", "two"],
             resolved=[{"path": "text", "content": whole}]),
    )  # fmt: skip
    with trio.fail_after(LIMIT_S):
        await play(rig, *merging_root(*calls), *TWO_CLASHES, words=("--isolate=children",))
        told, wrong, merged = rig.outputs("/root")[-3:]
        assert "<<<<<<< /root/one\nA\n" in told
        assert "B\n>>>>>>> /root/two\n" in told
        assert "gone is in no conflict" in wrong
        assert "merged; to take it back" in merged
        assert (project / "text").read_text() == whole


async def test_a_merge_needs_the_approval_that_a_patch_of_its_files_would_need(rig, project):
    calls = (call("merge_changes", agents=["one", "two"]),)
    with trio.fail_after(LIMIT_S):
        words = ("--isolate=children", "-a", "untrusted", "--reviewer", "person")
        script = rig.script(*merging_root(*calls), *TWO_EDITS)
        started = await rig.run(script, *words, sandbox="workspace-write")
        answered: set[str] = set()
        while True:
            asked = await rig.wait(
                lambda: [
                    one for one in rig.bodies(ApprovalRequested) if one.approval_id not in answered
                ]
            )
            if isinstance(asked[0].request.action, PatchAction):
                break
            answered.add(asked[0].approval_id)
            await swarm(rig, "approve", asked[0].approval_id)
        assert sorted(os.path.basename(one) for one in asked[0].request.action.files) == [
            "gone",
            "text",
            "two",
        ]
        await swarm(rig, "deny", asked[0].approval_id)
        await started.wait_end()
        assert (project / "text").read_text() == BASE


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
