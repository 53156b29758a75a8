"""A whole run under the guardian: refusals say why, and a lost reviewer costs one action."""

import os
import signal
from pathlib import Path

import pytest
import trio

from swarm.mailbox.protocol.records import AgentEnded, AgentSpawned, ProcessEnded, Reviewed

pytestmark = pytest.mark.live

UNDER_REVIEW = ("-a", "on-request", "--reviewer", "guardian")
DENY = '{"outcome": "deny", "rationale": "nobody asked for this"}'
ALLOW = '{"outcome": "allow"}'


def removes(folder):
    call = {"name": "exec_command", "arguments": {"cmd": f"rm -rf {folder}"}}
    return {"agent": "/root", "calls": [call]}


async def test_a_denied_action_is_not_done_and_an_allowed_one_is(rig):
    for name in ("one", "two"):
        (rig.work / name).mkdir()
    provider = rig.script(
        removes("one"),
        removes("two"),
        {"agent": "/root", "text": "done"},
        {"agent": "/guardian", "text": DENY},
        {"agent": "/guardian", "text": ALLOW},
    )
    with trio.fail_after(30):
        run = await rig.run(provider, *UNDER_REVIEW, sandbox="workspace-write")
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert [path.name for path in sorted(rig.work.iterdir())] == ["one"]
    assert "Reason: nobody asked for this" in rig.outputs()[0]
    assert [one.outcome for one in rig.bodies(Reviewed)] == ["denied", "approved"]
    assert rig.completed.agents == 1
    assert [one.body.state for one in rig.records() if isinstance(one.body, AgentEnded)] == [
        "completed"
    ]
    assert {one.path for one in rig.bodies(AgentSpawned)} == {"/root", "/guardian"}


async def test_a_reviewer_killed_in_the_middle_costs_that_action_and_nothing_else(rig):
    for name in ("one", "two"):
        (rig.work / name).mkdir()
    provider = rig.script(
        removes("one"),
        removes("two"),
        {"agent": "/root", "text": "done"},
        {"agent": "/guardian", "text": ALLOW, "delay_s": 1},
        {"agent": "/guardian", "text": ALLOW},
    )
    with trio.fail_after(30):
        run = await rig.run(provider, *UNDER_REVIEW, sandbox="workspace-write")
        (life, *_) = await rig.wait(lambda: rig.bodies(AgentSpawned, agent="/guardian"))
        os.kill(life.pid, signal.SIGKILL)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert [path.name for path in sorted(rig.work.iterdir())] == ["one"]
    assert "Nobody judged the action itself" in rig.outputs()[0]
    assert [one.outcome for one in rig.bodies(Reviewed)] == ["failed", "approved"]
    assert len(rig.lives("/root")) == 1
    assert rig.bodies(ProcessEnded, agent="/guardian")[0].signal == 9
    await rig.wait_gone()


async def test_with_one_slot_a_review_still_finds_its_process(rig):
    (rig.work / "one").mkdir()
    provider = rig.script(
        removes("one"),
        {"agent": "/root", "text": "done"},
        {"agent": "/guardian", "text": ALLOW},
    )
    with trio.fail_after(30):
        run = await rig.run(provider, *UNDER_REVIEW, "--max-agents", "1", sandbox="workspace-write")
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert list(rig.work.iterdir()) == []


async def test_a_childs_review_shows_what_the_person_told_the_root(rig):
    (rig.work / "one").mkdir()
    spawn = {
        "name": "spawn_agent",
        "arguments": {"task_name": "a", "message": "remove one", "fork_turns": "none"},
    }
    wait = {"name": "wait_agent", "arguments": {"targets": ["a"], "timeout_ms": 20_000}}
    child = removes("one") | {"agent": "/root/a"}
    provider = rig.script(
        {"agent": "/root", "calls": [spawn]},
        {"agent": "/root", "calls": [wait]},
        {"agent": "/root", "text": "done"},
        child,
        {"agent": "/root/a", "text": "removed"},
        {"agent": "/guardian", "text": ALLOW},
    )
    with trio.fail_after(30):
        run = await rig.run(provider, *UNDER_REVIEW, sandbox="workspace-write")
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    (guardian,) = rig.bodies(AgentSpawned, agent="/guardian")
    asked = (Path(rig.places.journal) / f"{guardian.agent_id}.jsonl").read_text()
    assert "[1] user to /root: do it" in asked
    assert "[2] message from agent /root: " in asked
    assert "Reviewed agent: /root/a" in asked
