"""Questions of a real agent, answered by a person from another terminal, through real processes."""

import json

import pytest
import trio

from swarm.mailbox.protocol.events import CallEnded, TurnAborted
from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved

pytestmark = pytest.mark.live
LIMIT_S = 60


def call(name="exec_command", **arguments):
    return {"calls": [{"name": name, "arguments": arguments}]}


async def answer(rig, number, verb, *words):
    """Wait for the run's `number`-th question and answer it as a person would."""
    asked = await rig.wait(lambda: rig.bodies(ApprovalRequested)[number - 1 : number])
    approval_id = asked[0].approval_id
    ended = await (await rig.start(verb, rig.run_id, approval_id, *words)).wait_end()
    assert ended.code == 0, ended.err
    return asked[0].request


async def test_what_a_person_says_decides_what_is_done(rig):
    out = rig.folder / "out"
    out.mkdir()
    leave = {"sandbox_permissions": "require_escalated", "justification": "May I?"}
    choice = {"label": "red", "description": "as now"}
    question = {"id": "colour", "header": "Colour", "question": "Which?", "options": [choice]}
    provider = rig.script(
        call(cmd=f"echo one >{out}/a", **leave),
        call(cmd=f"echo two >{out}/b", **leave),
        call("request_permissions", permissions={"file_system": {"write": [str(out)]}}),
        call(cmd=f"echo three >{out}/c"),
        call("request_user_input", questions=[question]),
        {"text": "done"},
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider, "--reviewer", "person", sandbox="workspace-write")
        first = await answer(rig, 1, "approve")
        assert (first.cause, first.reason, first.action.sandboxed) == (
            "escalation",
            "May I?",
            False,
        )
        await answer(rig, 2, "deny", "--reason", "not this one")
        await answer(rig, 3, "approve", "--session")
        await answer(rig, 4, "approve", "--answer", "colour=green")
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert sorted(path.name for path in out.iterdir()) == ["a", "c"]
    outputs = rig.outputs()
    assert "not this one" in outputs[1]
    assert json.loads(outputs[2]) == {
        "permissions": {"file_system": {"write": [str(out)]}}, "scope": "session",
    }  # fmt: skip
    assert json.loads(outputs[4]) == {"answers": {"colour": {"answers": ["green"]}}}
    assert [one.outcome for one in rig.bodies(ApprovalResolved)] == [
        "approved", "denied", "approved", "approved",
    ]  # fmt: skip
    assert rig.alive() == {}


async def test_a_no_that_ends_the_turn_ends_the_run(rig):
    (rig.work / "x").mkdir()
    provider = rig.script(call(cmd="rm -rf x"), {"text": "never said"})
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider, "--reviewer", "person", sandbox="workspace-write")
        asked = await answer(rig, 1, "deny", "--abort")
        await run.wait_end()
    assert asked.cause == "dangerous"
    assert (rig.work / "x").is_dir()
    assert [one.status for one in rig.bodies(CallEnded)] == ["declined"]
    assert len(rig.bodies(TurnAborted)) == 1
    assert "rejected by user" in rig.outputs()[0]


async def test_what_the_sandbox_stopped_runs_again_outside_when_a_person_says_so(rig):
    target = rig.work / "made"
    provider = rig.script(call(cmd=f"echo tried; touch {target}"), {"text": "done"})
    with trio.fail_after(LIMIT_S):
        words = ("--reviewer", "person", "--approval", "on-failure")
        run = await rig.run(provider, *words, sandbox="read-only")
        asked = await answer(rig, 1, "approve")
        await run.wait_end()
    assert (asked.cause, asked.reason) == ("retry", "command failed; retry without sandbox?")
    assert f"{target}" in asked.retry_reason
    assert target.exists()
    assert rig.outputs()[0].count("tried") == 2
