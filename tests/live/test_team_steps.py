"""One process of a team dies, hangs or crashes at one step of another's life: nothing is lost.

Lost would be: an answer, a message, a call without an end, a slot, a process. All are counted.
"""

from collections import Counter
from pathlib import Path

import msgspec
import pytest
import trio

from support.paths import PROGRAMS
from support.scripted_team_run import ScriptedRun, call, calls, says, spawns, waits
from swarm.mailbox.protocol.events import CallBegan, CallEnded
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    GatewayEnded,
    ItemRecorded,
    MailHandled,
    MailPosted,
    ProcessEnded,
    RunCompleted,
)

pytestmark = pytest.mark.live
FAULTY = str(PROGRAMS / "swarm_with_one_fault.py")
LIMIT_S = 45
SIGNALS = ("SIGKILL", "SIGSTOP", "SIGSEGV")
STEPS = ("started", "turn", "tool", "answer")
TURNS = [
    calls("/root", *spawns("a", "b")),
    calls("/root", *spawns("a", "b")),  # whom a fault has cost is wanted again; else refused
    calls("/root", waits("a", "b")),
    calls("/root", waits("a", "b")),  # a wait that was cut off is made again
    says("/root", "{last_output}"),
    calls("/root/*", call("exec_command", cmd="echo once")),
    {**says("/root/*", "{agent} is done"), "repeat": "forever"},
]


async def run_with(folder: Path, step: str, name: str, victim: str) -> ScriptedRun:
    """The whole run with its fault; a killed supervisor's run is taken up again."""
    scripted = ScriptedRun(folder)
    _, *words = scripted.argv(TURNS, "--max-agents", "4")
    driver = [FAULTY, step, name, victim]
    with trio.fail_after(LIMIT_S):
        done = await scripted.ended([*driver, *words])
        if victim == "supervisor":
            assert done.returncode < 0, "it was to die"
            done = await scripted.ended(scripted.resume_argv())
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    assert b"Traceback" not in done.stderr
    return scripted


def assert_nothing_is_lost(scripted: ScriptedRun) -> None:
    completed = scripted.of(RunCompleted)[-1]
    assert completed.status == "completed"
    finished = msgspec.json.decode(completed.result or "{}")["finished"]
    assert {one["agent_name"]: (one["end_state"], one["result"]) for one in finished} == {
        f"/root/{name}": ("completed", f"/root/{name} is done") for name in "ab"
    }
    records = scripted.records()
    posted = [one.mail for one in scripted.of(MailPosted)]
    answers = Counter(mail.author for mail in posted if mail.kind == "final_answer")
    assert answers == {"/root/a": 1, "/root/b": 1}
    read = {one.item_id for one in scripted.of(ItemRecorded) if one.source == "mail"}
    settled = read | {one.mail_id for one in scripted.of(MailHandled)}
    assert {mail.mail_id for mail in posted} <= settled
    begun = Counter((one.agent, one.body.call_id) for one in records if is_a(one, CallBegan))
    ended = Counter((one.agent, one.body.call_id) for one in records if is_a(one, CallEnded))
    assert begun == ended
    assert set(begun.values()) == {1}  # also by a gateway that began its script again
    lines = Counter(one.item_id for one in scripted.of(ItemRecorded))
    assert set(lines.values()) == {1}


def assert_every_process_is_accounted_for(scripted: ScriptedRun) -> None:
    started = Counter((one.agent_id, one.epoch) for one in scripted.of(AgentSpawned))
    gone = Counter((one.agent_id, one.epoch) for one in scripted.of(ProcessEnded))
    assert started == gone
    assert scripted.slots_at_the_end() == 1
    assert scripted.most <= 4


def is_a(record, kind) -> bool:
    return isinstance(record.body, kind)


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("step", STEPS)
async def test_an_agent_that_is_hit_at_any_step_lives_again_and_answers(tmp_path, step, name):
    scripted = await run_with(tmp_path, step, name, "agent")
    assert_nothing_is_lost(scripted)
    assert_every_process_is_accounted_for(scripted)
    assert 1 <= len(scripted.of(AgentSpawned, "/root/a")) <= 2  # its last word may have gone out
    assert len(scripted.of(AgentSpawned, "/root/b")) == 1


@pytest.mark.parametrize("name", SIGNALS)
async def test_an_agent_that_is_hit_before_its_hello_was_never_there(tmp_path, name):
    scripted = await run_with(tmp_path, "mute", name, "agent")
    assert_nothing_is_lost(scripted)
    assert_every_process_is_accounted_for(scripted)
    assert "collab spawn failed" in scripted.outputs()[0]
    assert len(scripted.of(AgentSpawned, "/root/a")) == 1
    assert len({one.agent_id for one in scripted.of(AgentEnded, "/root/a")}) == 1


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("step", ["started", "tool"])
async def test_a_fork_server_that_is_hit_costs_a_team_nobody(tmp_path, step, name):
    scripted = await run_with(tmp_path, step, name, "fork-server")
    assert_nothing_is_lost(scripted)
    assert_every_process_is_accounted_for(scripted)
    assert len(scripted.of(AgentSpawned)) == 3


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("step", ["started", "turn", "answer"])
async def test_a_gateway_that_is_hit_is_replaced_under_a_team(tmp_path, step, name):
    scripted = await run_with(tmp_path, step, name, "gateway")
    assert_nothing_is_lost(scripted)
    assert_every_process_is_accounted_for(scripted)
    assert len(scripted.of(AgentSpawned)) == 3
    assert len(scripted.of(GatewayEnded)) <= 1


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_supervisor_that_is_hit_is_resumed_with_its_team(tmp_path, step, name):
    scripted = await run_with(tmp_path, step, name, "supervisor")
    assert_nothing_is_lost(scripted)
