"""Teams where something dies, is stopped, closed or cannot start: nothing is lost."""

import os
import signal

import msgspec
import pytest
import trio

from support.scripted_team_run import (
    ScriptedRun,
    call,
    calls,
    open_scripted_run,
    says,
    spawns,
    waits,
    wakes,
)
from swarm.mailbox.delivery.control_channel import send_control_request
from swarm.mailbox.protocol.control import Done, KillAgent, decode_control_reply, encode_control
from swarm.mailbox.protocol.events import CallBegan
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    MailHandled,
    MailPosted,
    ProcessEnded,
    RunCompleted,
)

pytestmark = pytest.mark.live


async def test_32_explorers_under_9_slots_survive_a_kill_and_a_stop(tmp_path):
    names = [f"e{number}" for number in range(32)]
    turns = [
        calls("/root", *spawns(*names, agent_type="explorer")),
        calls("/root", waits(*names)),
        says("/root", "all is told"),
        calls("/root/*", call("exec_command", cmd="sleep 0.5; echo seen")),
        says("/root/*", "{agent} has looked"),
    ]
    async with open_scripted_run(tmp_path, turns, "--max-agents", "9") as scripted:
        for name, number in (("e2", signal.SIGKILL), ("e4", signal.SIGSTOP)):
            path = f"/root/{name}"
            await scripted.until(lambda path=path: scripted.of(CallBegan, path))
            os.kill(scripted.of(AgentSpawned, path)[0].pid, number)
    assert scripted.code == 0, (tmp_path / "out").read_text()[-2000:]
    completed = scripted.of(RunCompleted)[0]
    assert (completed.status, completed.result) == ("completed", "all is told")
    assert completed.agents == 33
    ends = {one.agent: one.body for one in scripted.records() if isinstance(one.body, AgentEnded)}
    assert {ends[f"/root/{name}"].state for name in names} == {"completed"}
    answers = [one.mail for one in scripted.of(MailPosted) if one.mail.kind == "final_answer"]
    assert sorted(mail.author for mail in answers) == sorted(f"/root/{name}" for name in names)
    assert scripted.slots_at_the_end() == 1
    assert scripted.most <= 9
    assert (
        len(scripted.of(AgentSpawned, "/root/e2"))
        == len(scripted.of(AgentSpawned, "/root/e4"))
        == 2
    )
    finished = msgspec.json.decode(scripted.outputs()[32])["finished"]
    assert len(finished) == 32


async def test_a_wait_on_an_agent_that_is_killed_ends_and_says_so(tmp_path):
    turns = [
        calls("/root", *spawns("a")),
        calls("/root", waits("a")),
        says("/root", "told"),
        calls("/root/a", call("exec_command", cmd="sleep 50")),
    ]
    async with open_scripted_run(tmp_path, turns) as scripted:
        await scripted.until(lambda: scripted.of(CallBegan, "/root/a"))
        reply = await send_control_request(
            scripted.control(), encode_control(KillAgent(agent="/root/a")), timeout_s=10
        )
        assert decode_control_reply(reply) == Done(message="ended 1 agent")
    assert scripted.code == 0
    waited = msgspec.json.decode(scripted.outputs()[1])
    assert waited["finished"][0]["end_state"] == "killed"
    assert scripted.slots_at_the_end() == 1


async def test_with_one_slot_nothing_is_spawned_and_the_model_is_told(tmp_path):
    turns = [calls("/root", *spawns("a")), says("/root", "alone")]
    async with open_scripted_run(tmp_path, turns, "--max-agents", "1") as scripted:
        pass
    assert scripted.code == 0
    assert len(scripted.of(AgentSpawned)) == 1
    assert "max_agents is 1" in scripted.outputs()[0] or "unsupported call" in scripted.outputs()[0]


async def test_two_agents_that_wake_each_other_for_ever_end_at_the_deadline(tmp_path):
    turns = [
        calls("/root", *spawns("a", "b")),
        calls("/root", waits("a", "b", seconds=600)),
        {**calls("/root/a", wakes("/root/b")), "repeat": "forever"},
        {**calls("/root/b", wakes("/root/a")), "repeat": "forever"},
    ]
    async with open_scripted_run(tmp_path, turns, "--deadline", "4s") as scripted:
        pass
    assert scripted.code == 4
    assert scripted.of(RunCompleted)[0].status == "deadline"
    assert len([one for one in scripted.of(MailPosted) if one.mail.kind == "followup"]) > 4


async def test_a_closed_agents_mails_come_back_and_its_children_end_with_it(tmp_path):
    turns = [
        calls("/root", *spawns("a")),
        calls("/root", waits(seconds=10, mode="any")),
        calls("/root", call("send_message", target="a", message="unread")),
        calls("/root", call("close_agent", target="a")),
        calls("/root", call("send_message", target="a", message="too late")),
        says("/root", "closed"),
        calls("/root/a", *spawns("b")),
        calls("/root/a", call("send_message", target="/root", message="it is there"),
              call("exec_command", cmd="sleep 50")),
        calls("/root/a/b", call("exec_command", cmd="sleep 50")),
    ]  # fmt: skip
    async with open_scripted_run(tmp_path, turns) as scripted:
        pass
    assert scripted.code == 0, (tmp_path / "out").read_text()[-3000:]
    assert {one.agent for one in scripted.records() if isinstance(one.body, ProcessEnded)} >= {
        "/root/a", "/root/a/b",
    }  # fmt: skip
    posted = {one.mail.mail_id: one.mail for one in scripted.of(MailPosted)}
    returned = [posted[one.mail_id] for one in scripted.of(MailHandled) if one.dead]
    by_root = sorted(mail.content for mail in returned if mail.author == "/root")
    assert by_root == ["too late", "unread"]  # its child's report may have come too late as well
    assert "ended for good" in scripted.outputs()[-1]
    assert scripted.slots_at_the_end() == 1


async def test_an_agent_that_keeps_dying_is_given_up_and_its_parent_reads_why(tmp_path):
    turns = [
        calls("/root", *spawns("a")),
        calls("/root", waits("a")),
        says("/root", "{last_output}"),
        {**calls("/root/a", call("exec_command", cmd="sleep 50")), "repeat": "forever"},
    ]
    async with open_scripted_run(tmp_path, turns) as scripted:
        for life in range(1, 5):
            begun = await scripted.until(
                lambda life=life: [
                    one for one in scripted.of(AgentSpawned, "/root/a") if one.epoch == life
                ]
            )
            await scripted.until(lambda life=life: len(scripted.of(CallBegan, "/root/a")) >= life)
            os.kill(begun[0].pid, signal.SIGKILL)
    assert scripted.code == 0
    finished = msgspec.json.decode(scripted.of(RunCompleted)[0].result)["finished"]
    assert finished[0]["end_state"] == "crashed"
    mails = [one.mail for one in scripted.of(MailPosted, "/root")]
    assert [message.kind for message in mails] == ["final_answer"]
    assert mails[0].content.startswith("(crashed)")
    assert scripted.slots_at_the_end() == 1


async def test_a_resumed_run_has_its_team_and_its_unfinished_agents_go_on(tmp_path):
    turns = [
        calls("/root", *spawns("a", "b")),
        calls("/root", waits("a", "b")),
        calls("/root", waits("a", "b")),
        says("/root", "{last_output}"),
        says("/root/a", "a was done before"),
        calls("/root/b", call("exec_command", cmd="sleep 30")),
        says("/root/b", "b went on"),
    ]
    scripted = ScriptedRun(tmp_path)
    with trio.fail_after(60):
        first = await trio.lowlevel.open_process(
            scripted.argv(turns), env=scripted.environment, stderr=-3, stdout=-3
        )
        await scripted.until(
            lambda: (
                scripted.of(CallBegan, "/root/b")
                and any(one.tool == "wait_agent" for one in scripted.of(CallBegan, "/root"))
                and scripted.of(AgentEnded, "/root/a")
            )
        )
        first.kill()
        await first.wait()
        done = await scripted.ended(scripted.resume_argv())
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    finished = msgspec.json.decode(scripted.of(RunCompleted)[-1].result)["finished"]
    assert {one["agent_name"]: one["result"] for one in finished} == {
        "/root/a": "a was done before", "/root/b": "b went on",
    }  # fmt: skip


def until(name: str) -> str:
    """A command that ends once the file is there."""
    return f"until test -e {name}; do sleep 0.02; done"


async def test_a_parent_that_dies_while_its_child_stands_in_line_leaves_nothing_behind(tmp_path):
    turns = [
        calls("/root", *spawns("a", "c")),
        calls("/root", waits("a", "c")),
        says("/root", "over"),
        calls("/root/a", call("exec_command", cmd=until("c"))),  # now there is no slot for b
        calls("/root/a", *spawns("b")),
        says("/root/a", "a lives again"),
        calls("/root/c", call("exec_command", cmd=f"touch c; {until('end')}")),
        says("/root/c", "c is done"),
    ]
    async with open_scripted_run(tmp_path, turns, "--max-agents", "3") as scripted:
        await scripted.until(lambda: scripted.of(MailPosted, "/root/a/b"))
        os.kill(scripted.of(AgentSpawned, "/root/a")[0].pid, signal.SIGKILL)
        await scripted.until(lambda: len(scripted.of(AgentSpawned, "/root/a")) == 2)
        (tmp_path / "end").touch()
    assert scripted.code == 0, (tmp_path / "out").read_text()[-3000:]
    ends = {one.agent: one.body for one in scripted.records() if isinstance(one.body, AgentEnded)}
    assert ends["/root/a"].message == "a lives again"
    assert not scripted.of(AgentSpawned, "/root/a/b")
    assert [one.dead for one in scripted.of(MailHandled, "/root/a/b")] == [True]
    assert scripted.slots_at_the_end() == 1
    assert scripted.most <= 3
