"""What the end of a run does with work in copies: merges what fits, asks, or leaves it."""

import os
import shutil

import pytest
import trio

from support.copied_agents import BASE, LIMIT_S, call, play, project, root, spawn, swarm, turns
from support.questioned_terminal import answer_on_terminal
from swarm.mailbox.protocol.merge_records import MergeEnded
from swarm.mailbox.protocol.records import AgentSpawned, MailPosted

__all__ = ["project"]

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="copies need bubblewrap")
pytestmark = [pytest.mark.live, needs_bwrap]

TWO_EDITS = (
    *root("one", "two"),
    *turns("/root/one", "sed -i 's/line 1$/A/' text; rm gone"),
    *turns("/root/two", "sed -i 's/line 8/B/' text; echo 2 > two"),
)


async def test_auto_merges_what_fits_and_the_last_lines_say_how_it_is_taken_back(rig, project):
    with trio.fail_after(LIMIT_S):
        err = await play(rig, *TWO_EDITS, words=("--isolate=children", "--merge", "auto"))
        assert "merged: /root/" in err
        assert "not merged yet" not in err
        text = (project / "text").read_text()
        assert ("\nA\n" in text, "\nB\n" in text) == (True, True)
        assert sorted(os.listdir(project)) == ["text", "two"]
        await swarm(rig, "undo", rig.run_id, "--merge", "1")
    assert (project / "text").read_text() == BASE


async def test_auto_leaves_the_change_that_does_not_fit_and_names_it(rig, project):
    clash = (
        {"agent": "/root", "calls": [spawn("one")]},
        {"agent": "/root", "calls": [call("wait_agent", targets=["one"], timeout_ms=30_000)]},
        {"agent": "/root", "calls": [spawn("two"), spawn("three")]},
        {"agent": "/root", "calls": [call("wait_agent", targets=["two", "three"],
                                          timeout_ms=30_000, **{"for": "all"})]},
        {"agent": "/root", "text": "done", "repeat": "forever"},
        *turns("/root/one", "sed -i 's/line 1$/A/' text; rm gone"),
        *turns("/root/two", "sed -i 's/line 1$/B/' text"),
        *turns("/root/three", "echo 3 > three"),
    )  # fmt: skip
    with trio.fail_after(LIMIT_S):
        err = await play(rig, *clash, words=("--isolate=children", "--merge", "auto"))
    assert "merged: /root/one 2 files, /root/three 1 file" in err
    assert "not merged yet: /root/two 1 file" in err
    assert (project / "text").read_text().startswith("line 0\nA\n")
    assert (project / "three").exists()


async def test_a_run_that_failed_merges_nothing(rig, project):
    started = await rig.run(
        rig.script(
            *root("one")[:2],
            {"agent": "/root", "fault": {"status": 400}},
            *turns("/root/one", "sed -i 's/line 1$/A/' text"),
        ),
        "--isolate=children",
        "--merge",
        "auto",
        sandbox="workspace-write",
    )
    with trio.fail_after(LIMIT_S):
        ended = await started.wait_end()
    assert ended.code != 0
    assert "not merged yet: /root/one 1 file" in ended.err
    assert (project / "text").read_text() == BASE


@pytest.mark.parametrize(("key", "merged"), [(b"y\n", True), (b"\n", False), (b"d\ny\n", True)])
async def test_on_a_terminal_the_end_asks_and_only_a_yes_merges(rig, project, key, merged):
    script = rig.script(*TWO_EDITS)
    words = ("run", "-p", "x", "--provider", script, "--isolate=children", "--plain")
    with trio.fail_after(LIMIT_S):
        seen = await answer_on_terminal(
            rig, b"Merge this into the project?", key, *words, "-s", "workspace-write"
        )
    assert seen.count(b"/root/one 2 clean") == 1
    assert b"text  +1 -1" in seen
    assert (b"+++ b/text" in seen) is key.startswith(b"d")
    assert ((project / "text").read_text() != BASE) is merged
    assert [one.applied for one in rig.bodies(MergeEnded)] == [True] * merged
    assert (b"merged; to take it back: swarm undo" in seen) is merged


@pytest.mark.parametrize("chosen", ["leave", "ask"])
async def test_where_nobody_is_asked_all_stays_and_is_named(rig, project, chosen):
    with trio.fail_after(LIMIT_S):
        err = await play(rig, *TWO_EDITS, words=("--isolate=children", "--merge", chosen))
    assert "not merged yet: /root/" in err
    assert (project / "text").read_text() == BASE


async def test_a_merger_resolves_what_its_siblings_changed_and_works_in_no_copy(rig, project):
    whole = BASE.replace("line 1\n", "A and B\n")
    calls = [
        call("list_changes"),
        call("merge_changes", agents=["one", "two"]),
        call("merge_changes", agents=["one", "two"],
             resolved=[{"path": "text", "content": whole}]),
    ]  # fmt: skip
    script = (
        *root("one", "two")[:2],
        {"agent": "/root", "calls": [spawn("m", agent_type="merger")]},
        {"agent": "/root", "calls": [call("wait_agent", targets=["m"], timeout_ms=30_000)]},
        {"agent": "/root", "text": "done", "repeat": "forever"},
        *turns("/root/one", "sed -i 's/line 1$/A/' text"),
        *turns("/root/two", "sed -i 's/line 1$/B/' text"),
        *({"agent": "/root/m", "calls": [one]} for one in calls),
        {"agent": "/root/m", "text": "merged both"},
    )
    with trio.fail_after(LIMIT_S):
        err = await play(rig, *script, words=("--isolate=children",))
    listed, refused, merged = rig.outputs("/root/m")
    assert "/root/one" in listed
    assert "the task of /root/one: work" in refused
    assert "the task of /root/two: work" in refused
    assert "merged; to take it back" in merged
    assert (project / "text").read_text() == whole
    assert "not merged yet" not in err
    spawned = {body.path: body.limits.isolation for body in rig.bodies(AgentSpawned)}
    assert spawned["/root/m"] == "shared"
    assert spawned["/root/one"] == "copy"


async def test_an_answer_says_what_is_in_conflict_with_the_project(rig, project):
    waits = call("wait_agent", targets=["one"], timeout_ms=30_000)
    script = (
        {"agent": "/root", "calls": [spawn("one")]},
        {"agent": "/root", "calls": [waits]},
        {"agent": "/root", "calls": [call("exec_command", cmd="sed -i 's/line 1$/X/' text")]},
        {"agent": "/root", "calls": [call("followup_task", target="one", message="now")]},
        {"agent": "/root", "calls": [waits]},
        {"agent": "/root", "text": "done", "repeat": "forever"},
        {"agent": "/root/one", "text": "ready"},
        *turns("/root/one", "sed -i 's/line 1$/A/' text"),
    )
    with trio.fail_after(LIMIT_S):
        await play(rig, *script, words=("--isolate=children",))
    mails = [body.mail for body in rig.bodies(MailPosted) if body.mail.kind == "final_answer"]
    first, second = [mail.content for mail in mails]
    assert "changed no file there" in first
    assert "+1 -1 in 1 file; 1 file in conflict with the project now" in second
