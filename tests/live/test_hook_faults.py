"""Hooks that misbehave, and runs that are cut off around them."""

import json
import os
import signal

import pytest
import trio

from support.hook_files import LIMIT_S, call, outputs, ran, run_trusted, trust, write_groups

pytestmark = pytest.mark.live
DONE = {"text": "done"}
NOBODY = ("--reviewer", "nobody")
NAME = ".swarm/hooks.json"


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        # Forks, leaves its session, and keeps its output open.
        ("setsid sh -c 'sleep 600 & sleep 600' & exit 0", "completed", ""),
        ("setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' & exit 2", "blocked",
         ""),
        ("head -c 100000000 /dev/zero", "failed", "printed more than 1 MiB"),
        ("head -c 100000000 /dev/zero >&2; echo no >&2; exit 2", "blocked", ""),
        ("exec < /dev/null; exit 0", "completed", ""),
        ("kill -SEGV $$", "failed", "hook exited"),
        ("kill -TERM 0", "failed", "hook exited"),
    ],
)  # fmt: skip
async def test_a_hook_that_misbehaves_is_named_and_leaves_nothing(rig, command, status, said):
    write_groups(rig, NAME, {"PreToolUse": [("Bash", {"command": command, "timeout": 20})]})
    ended = await run_trusted(
        rig, {"calls": [call("x=" + "y" * 100_000 + "; echo fine")]}, DONE, words=NOBODY
    )
    assert ended.code == 0, ended.err
    (one,) = ran(rig)
    assert one.status == status
    assert said in one.text
    if status == "failed":
        assert said in ended.err
        assert "could not be asked" in ended.err
    assert ("fine\n" in outputs(rig)[0]) is (status == "completed")
    with trio.fail_after(LIMIT_S):
        await rig.wait_gone()


async def test_hooks_of_the_future_are_named_and_the_others_run(rig):
    (rig.work / ".git").mkdir()
    path = rig.work / NAME
    path.parent.mkdir()
    hooks = [
        {"type": "telepathy", "thought": "no"},
        {"type": "command", "command": "touch ran", "mood": ["good"]},
    ]
    events = {"PreToolUse": [{"matcher": "Bash", "hooks": hooks, "whim": 1}], "Tomorrow": [{}]}
    path.write_text(json.dumps({"version": 99, "hooks": events}))
    ended = await run_trusted(rig, {"calls": [call("echo fine")]}, DONE, words=NOBODY)
    assert ended.code == 0, ended.err
    assert (rig.work / "ran").exists()
    for word in ("'version'", "telepathy", "'mood'", "hooks.Tomorrow"):
        assert ended.err.count(word) == 1, ended.err


@pytest.mark.parametrize("victim", ["supervisor", "agent"])
async def test_a_hook_that_ran_does_not_run_again_after_a_kill(rig, victim):
    note = {"command": 'grep -o \'"hook_event_name":"[A-Za-z]*"\' | cut -d\'"\' -f4 >> seen'}
    names = ("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse")
    write_groups(rig, NAME, {name: [("", note)] for name in names})
    waits = call("touch begun; until [ -e go ]; do sleep 0.05; done")
    turns = ({"calls": [waits]}, {"text": "done"})
    with trio.fail_after(LIMIT_S):
        await trust(rig)
        run = await rig.run(rig.script(*turns), "-p", "go", sandbox="workspace-write")
        await rig.wait((rig.work / "begun").exists)
        if victim == "agent":
            os.kill(rig.lives()[-1].pid, signal.SIGKILL)
        else:
            os.kill(run.pid, signal.SIGKILL)
            await rig.wait_gone()
        (rig.work / "go").touch()
        if victim == "supervisor":
            run = await rig.resume()
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    again = ["SessionStart"] if victim == "supervisor" else []  # with the source `resume`
    assert (rig.work / "seen").read_text().split() == [
        "SessionStart", "UserPromptSubmit", "PreToolUse", *again
    ]  # fmt: skip


async def test_a_broken_hook_is_seen_in_the_list_the_log_and_on_the_console(rig):
    write_groups(rig, NAME, {"PreToolUse": [("Bash", {"command": "exit 7"})]})
    ended = await run_trusted(rig, {"calls": [call("echo fine")]}, DONE, words=NOBODY)
    assert "code 7" in ended.err
    with trio.fail_after(LIMIT_S):
        listed = await (await rig.start("hooks", "list")).wait_end()
        logged = await (await rig.start("hooks", "log", rig.run_id)).wait_end()
        rows = await (await rig.start("hooks", "list", "--json")).wait_end()
    assert "failed" in listed.out
    assert "code 7" in logged.out
    assert json.loads(rows.out.splitlines()[0])["last"]["text"] == "hook exited with code 7"
