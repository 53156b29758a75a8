"""Questions of real runs, answered from other terminals: once, first, and never by the asker."""

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.events import CallEnded, TurnAborted
from swarm.mailbox.protocol.records import (
    AgentSpawned,
    ApprovalRequested,
    ApprovalResolved,
    GrantGiven,
)

pytestmark = pytest.mark.live
LIMIT_S = 40
SWARM = str(Path(sys.executable).parent / "swarm")


def outside(name: str = "made") -> dict[str, Any]:
    """A call that wants to leave the sandbox."""
    wish = {"sandbox_permissions": "require_escalated", "justification": "it must be there"}
    return {"name": "exec_command", "arguments": {"cmd": f"touch {name}", **wish}}


def asks(*calls: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"calls": list(calls or (outside(),))}, {"text": "done"}]


@pytest.fixture
def person(rig):
    """A person in another terminal of this home."""

    class Person:
        async def tell(self, *words: str):
            return await (await rig.start(*words)).wait_end()

        async def wait_asked(self, count: int = 1) -> ApprovalRequested:
            def found() -> list[ApprovalRequested]:
                asked = rig.bodies(ApprovalRequested)
                return asked if len(asked) >= count else []

            return (await rig.wait(found))[-1]

        async def start(self, *turns, words=("--reviewer", "person"), sandbox="workspace-write"):
            return await rig.run(rig.script(*turns), *words, sandbox=sandbox)

    return Person()


async def test_another_terminal_answers_and_the_command_runs(rig, person):
    with trio.fail_after(LIMIT_S):
        run = await person.start(*asks())
        await person.wait_asked()
        listed = await person.tell("approvals")
        while "a1  /root  command" not in listed.out:  # it is written before it is shown
            listed = await person.tell("approvals")
        assert "touch made" in listed.out
        assert "it must be there" in listed.out
        assert (await person.tell("approve", "a1")).code == 0
        ended = await run.wait_end()
        late = await person.tell("approve", "--last", "a1")
    assert ended.code == 0
    assert (rig.work / "made").exists()
    assert late.code == 2
    (resolved,) = rig.bodies(ApprovalResolved)
    assert (resolved.outcome, resolved.by) == ("approved", "person")
    assert rig.alive() == {}


async def test_a_no_is_read_by_the_model_and_the_run_goes_on(rig, person):
    with trio.fail_after(LIMIT_S):
        run = await person.start(*asks())
        await person.wait_asked()
        said = await person.tell("deny", short_id(rig.run_id), "a1", "--reason", "use the other")
        assert said.code == 0
        ended = await run.wait_end()
    assert ended.code == 0
    assert not (rig.work / "made").exists()
    (output,) = rig.outputs()
    assert "rejected by user: use the other" in output
    assert rig.bodies(CallEnded)[0].status == "declined"


async def test_an_abort_ends_the_turn(rig, person):
    with trio.fail_after(LIMIT_S):
        run = await person.start(*asks())
        await person.wait_asked()
        assert (await person.tell("deny", "a1", "--abort")).code == 0
        ended = await run.wait_end()
    assert rig.bodies(TurnAborted)
    assert ended.code == 130
    assert not (rig.work / "made").exists()


async def test_a_detached_run_waits_and_is_answered_later(rig, person):
    with trio.fail_after(LIMIT_S):
        started = await person.start(*asks(), words=("--reviewer", "person", "--detach"))
        assert (await started.wait_end()).code == 0
        await person.wait_asked()
        assert (await person.tell("approve", "a1")).code == 0
        await rig.wait_gone()
    assert (rig.work / "made").exists()
    assert rig.completed.status == "completed"


@pytest.mark.parametrize("form", ["{swarm} {wish}", "setsid -w {swarm} {wish}"])
async def test_nobody_approves_himself_also_without_a_sandbox(rig, person, form):
    attempt = form.format(swarm=SWARM, wish="approve --last a1; ")
    attempt += form.format(swarm=SWARM, wish="approve --last a2; echo code $?")
    calls = [
        {"name": "exec_command", "arguments": {"cmd": attempt, "yield_time_ms": 20_000}},
        outside("mine"),
    ]
    words = ("--reviewer", "person", "-a", "untrusted")
    with trio.fail_after(LIMIT_S):
        run = await person.start(*asks(*calls), words=words, sandbox="danger-full-access")
        await person.wait_asked(2)
        asked = {
            one.approval_id: one.request.action.script for one in rig.bodies(ApprovalRequested)
        }
        (mine,) = [name for name, script in asked.items() if "approve" in script]
        (other,) = set(asked) - {mine}
        assert (await person.tell("approve", mine)).code == 0
        await rig.wait(lambda: [one for one in rig.bodies(CallEnded) if one.status != "declined"])
        assert [one.approval_id for one in rig.bodies(ApprovalResolved)] == [mine]
        assert (await person.tell("deny", other)).code == 0
        assert (await run.wait_end()).code == 0
    assert "code 3" in rig.outputs()[0]
    assert "may not steer" in rig.outputs()[0]
    assert not (rig.work / "mine").exists()


async def test_an_interrupt_withdraws_the_question(rig, person):
    with trio.fail_after(LIMIT_S):
        run = await person.start(*asks())
        await person.wait_asked()
        assert (await person.tell("interrupt", rig.run_id)).code == 0
        await run.wait_end()
    (resolved,) = rig.bodies(ApprovalResolved)
    assert (resolved.outcome, resolved.by) == ("aborted", "nobody")
    assert not (rig.work / "made").exists()


async def test_an_agent_that_is_killed_has_withdrawn_its_question(rig, person):
    with trio.fail_after(LIMIT_S):
        run = await person.start(*asks())
        await person.wait_asked()
        os.kill(rig.bodies(AgentSpawned)[0].pid, 9)
        await rig.wait(lambda: rig.bodies(ApprovalResolved))
        run.process.terminate()
        await run.wait_end()
    assert rig.bodies(ApprovalResolved)[0].outcome == "aborted"
    assert not (rig.work / "made").exists()


async def test_a_yes_for_the_session_survives_a_resume(rig, person):
    turns = [*asks(), *asks()]
    with trio.fail_after(LIMIT_S):
        run = await person.start(*turns)
        await person.wait_asked()
        assert (await person.tell("approve", "a1", "--session")).code == 0
        await run.wait_end()
        (rig.work / "made").unlink()
        ended = await (await rig.resume("-p", "again")).wait_end()
    assert ended.code == 0
    assert (rig.work / "made").exists()
    assert len(rig.bodies(ApprovalRequested)) == 1
    assert len(rig.bodies(GrantGiven)) == 1


async def test_a_question_that_a_crash_left_open_is_closed_by_the_resume(rig, person):
    with trio.fail_after(LIMIT_S):
        run = await person.start(*asks(), {"text": "done"})
        await person.wait_asked()
        run.process.kill()
        await run.wait_end()
        await rig.wait_gone()
        assert rig.bodies(ApprovalResolved) == []
        ended = await (await rig.resume()).wait_end()
    assert ended.code == 0
    assert [one.approval_id for one in rig.bodies(ApprovalResolved)] == ["a1"]
    assert not (rig.work / "made").exists()


def wishing(command: str, *prefix: str) -> dict[str, Any]:
    """A call that wants to leave the sandbox, and to have these words allowed for ever."""
    call = outside()
    call["arguments"] |= {"cmd": command, "prefix_rule": list(prefix)}
    return call


async def test_always_saves_a_rule_and_the_next_command_of_its_kind_is_not_asked(rig, person):
    for name in ("one", "two"):
        (rig.work / name).write_text(f"text of {name}")
    first, second = wishing("diff one two", "diff"), wishing("diff two one", "diff")
    with trio.fail_after(LIMIT_S):
        run = await person.start({"calls": [first]}, {"calls": [second]}, {"text": "done"})
        asked = await person.wait_asked()
        assert asked.request.proposed_prefix == ("diff",)
        assert not asked.request.proposed_exact
        assert (await person.tell("approve", "a1", "--always")).code == 0
        assert (await run.wait_end()).code == 0
    assert "< text of two" in rig.outputs()[1]
    assert len(rig.bodies(ApprovalRequested)) == 1
    rules = (rig.home / "rules" / "default.rules").read_text()
    assert 'prefix_rule(pattern=["diff"], decision="allow")' in rules


async def test_always_covers_exactly_the_words_where_further_ones_could_write(rig, person):
    again = wishing("touch one", "touch")
    turns = [{"calls": [one]} for one in (again, again, wishing("touch two", "touch"))]
    with trio.fail_after(LIMIT_S):
        run = await person.start(*turns, {"text": "done"})
        asked = await person.wait_asked()
        assert asked.request.proposed_prefix == ("touch", "one")
        assert asked.request.proposed_exact
        assert (await person.tell("approve", "a1", "--always")).code == 0
        other = await person.wait_asked(2)
        assert len(rig.outputs()) == 2
        assert (await person.tell("deny", other.approval_id)).code == 0
        assert (await run.wait_end()).code == 0
    assert (rig.work / "one").exists()
    assert not (rig.work / "two").exists()
    rules = (rig.home / "rules" / "default.rules").read_text()
    assert 'prefix_rule(pattern=["touch", "one"], decision="allow", exact=True)' in rules


async def test_always_is_known_to_every_agent_at_once_and_nobody_is_asked_twice(rig, person):
    names, far = ("one", "two"), rig.folder / "far"
    far.mkdir()
    command = f"touch {far}/made"
    spawn = [
        {"name": "spawn_agent", "arguments": {"task_name": one, "message": f"be {one}"}}
        for one in names
    ]
    wait = {"name": "wait_agent", "arguments": {"timeout_ms": 30_000}}
    turns = [{"agent": "/root", "calls": spawn}, {"agent": "/root", "calls": [wait, wait]}]
    for one in names:
        asking = wishing(command, *command.split())
        later = {"name": "exec_command", "arguments": {"cmd": command}}
        turns += [{"agent": f"/root/{one}", "calls": [call]} for call in (asking, later)]
    done = {"default": {"text": "done"}}
    with trio.fail_after(LIMIT_S):
        provider = rig.script(*turns, **done)
        run = await rig.run(provider, "--reviewer", "person", sandbox="workspace-write")
        await person.wait_asked(2)
        assert not list(far.iterdir())
        assert (await person.tell("approve", "a2", "--always")).code == 0
        assert (await run.wait_end()).code == 0
    assert {(one.approval_id, one.by) for one in rig.bodies(ApprovalResolved)} == {
        ("a2", "person"),
        ("a1", "grant"),
    }
    assert (far / "made").exists()
    # Outside of the sandbox, unasked, as a rule of a file lets it: both judge by the new rule.
    for one in names:
        statuses = [body.status for body in rig.bodies(CallEnded, agent=f"/root/{one}")]
        assert statuses == ["completed", "completed"]
        assert all("exited with code 0" in output for output in rig.outputs(f"/root/{one}"))


@pytest.mark.parametrize("words", [("--reviewer", "nobody"), ("-a", "never")])
async def test_what_nobody_can_answer_is_refused_and_asks_nobody(rig, person, words):
    with trio.fail_after(LIMIT_S):
        await (await person.start(*asks(), words=words)).wait_end()
    assert rig.bodies(ApprovalRequested) == []
    assert not (rig.work / "made").exists()


async def test_under_ci_no_person_is_waited_for(rig, person):
    rig.environment["CI"] = "true"
    with trio.fail_after(LIMIT_S):
        ended = await (await person.start(*asks())).wait_end()
    assert "nobody can answer" in ended.err
    assert rig.bodies(ApprovalRequested) == []


NO = '{"outcome": "deny", "risk_level": "high", "rationale": "nobody asked for it"}'


async def test_a_person_overrules_the_reviewer_for_exactly_that_once(rig, person):
    """Denied; then approved by a person; then it runs, and the third time it is reviewed again."""
    until = {"cmd": "while [ ! -e go ]; do sleep 0.05; done", "yield_time_ms": 20_000}
    mine = [
        {"calls": [outside()]},
        {"calls": [{"name": "exec_command", "arguments": until}]},
        {"calls": [outside()]},
        {"calls": [outside()]},
        {"text": "done"},
    ]
    turns = [{"agent": "/root", **turn} for turn in mine]
    turns += [{"agent": "/guardian**", "text": NO, "repeat": "forever"}]
    with trio.fail_after(LIMIT_S):
        run = await person.start(*turns, words=("--reviewer", "guardian"))
        await rig.wait(lambda: rig.bodies(ApprovalResolved))
        listed = await person.tell("approvals")
        assert "denied: nobody asked for it" in listed.out
        assert (await person.tell("approve", "a1")).code == 0
        (rig.work / "go").touch()
        assert (await run.wait_end()).code == 0
    denied, _, made, again = rig.outputs()
    assert "nobody asked for it" in denied
    assert "rejected" not in made
    assert "nobody asked for it" in again
    assert (rig.work / "made").exists()
    assert [one.used_up for one in rig.bodies(GrantGiven)] == [False, True]


@pytest.mark.parametrize(("key", "made"), [(b"y", True), (b"n", False)])
async def test_a_key_at_the_terminal_answers(rig, key, made):
    """The live tree on a real terminal: the panel comes, a key answers, the run ends."""
    parent, child = pty.openpty()
    words = ["run", "-p", "do it", "--provider", rig.script(*asks())]
    environment = {**rig.environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    with trio.fail_after(LIMIT_S):
        process = rig.adopt(await trio.lowlevel.open_process(
            ["setsid", "-c", "-w", SWARM, *words], stdin=child, stdout=child, stderr=child,
            env=environment, cwd=rig.work,
        ))  # fmt: skip
        os.close(child)
        seen = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read_all, parent, seen)
            await rig.wait(lambda: b"and end its turn" in seen)
            await trio.sleep(0.6)  # a key that comes sooner is no answer
            os.write(parent, key)
            code = await process.wait()
            nursery.cancel_scope.cancel()
    os.close(parent)
    assert code == 0
    assert b"needs approval a1" in seen
    assert (rig.work / "made").exists() == made
    (resolved,) = rig.bodies(ApprovalResolved)
    assert resolved.by == "person"


async def _read_all(fd: int, into: bytearray) -> None:
    while True:
        await trio.lowlevel.wait_readable(fd)
        try:
            into += os.read(fd, 65_536)
        except OSError:
            return


def test_a_run_that_is_gone_says_what_to_do(tmp_path):
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SWARM_HOME": str(tmp_path)}
    done = subprocess.run([SWARM, "approve", "a1"], capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert "no run" in done.stderr
