"""Runs that stay: when their work has ended they wait for input, at no cost, and end as told."""

import os
from contextlib import asynccontextmanager

import pytest
import trio

from support.team_in_memory import WORK, calls, open_team, says, spawn
from swarm.mailbox.delivery.control_channel import ControlRequest
from swarm.mailbox.protocol.control import (
    Done,
    EndRun,
    InterruptAgent,
    KillAgent,
    SendText,
    decode_control_reply,
    encode_control,
)
from swarm.mailbox.protocol.events import CallBegan, TurnStarted
from swarm.mailbox.protocol.records import RunCompleted, RunIdle
from swarm.supervisor.journal.replay import RunPast
from swarm.supervisor.routing.control_server import ControlService

LIMIT_S = 6000


class Client:
    """A terminal at the control socket, without the socket."""

    def __init__(self) -> None:
        self._in, self._calls = trio.open_memory_channel[ControlRequest](9)
        self._answers, self._replies = trio.open_memory_channel[bytes](9)

    async def receive(self) -> ControlRequest:
        return await self._calls.receive()

    def reply(self, call: ControlRequest, body: bytes) -> None:
        self._answers.send_nowait(body)

    async def ask(self, request):
        self._in.send_nowait(ControlRequest(os.getpid(), encode_control(request), None))
        return decode_control_reply(await self._replies.receive())


class Staying:
    """A run that was started, and what a client sees of it."""

    def __init__(self, team, client: Client) -> None:
        self.team, self.client = team, client
        self.ended: list[RunCompleted] = []

    async def run(self, past: RunPast | None = None) -> None:
        self.ended.append(await self.team.work(past))

    async def wait_idle(self, count: int = 1) -> RunIdle:
        await self.team.until(lambda: len(self.team.bodies(RunIdle)) == count)
        await self.team.until(lambda: not self.team.alive)
        return self.team.bodies(RunIdle)[-1]

    async def wait_end(self) -> RunCompleted:
        await self.team.until(lambda: bool(self.ended))
        return self.ended[0]

    async def say(self, text: str) -> None:
        await self.client.ask(SendText(agent="root", text=text))


@asynccontextmanager
async def open_run(folder, *replies, past=None, **request):
    scripts = {"/root": list(replies), "/root/a": [calls(WORK), says("a")]}
    async with open_team(folder, scripts, **request) as team:
        client = Client()
        team.nursery.start_soon(ControlService(team.running, client, team.controlled).serve)
        shown = Staying(team, client)
        team.nursery.start_soon(shown.run, past)
        with trio.fail_after(LIMIT_S):
            yield shown


async def test_a_run_that_stays_answers_each_input_and_ends_by_word_with_its_last_answer(
    tmp_path, autojump_clock
):
    async with open_run(tmp_path, says("one"), says("two"), keep_open=True) as run:
        idle = await run.wait_idle()
        assert (idle.status, idle.result, run.team.slots) == ("completed", "one", 0)
        await run.say("more")
        assert (await run.wait_idle(2)).result == "two"
        await run.client.ask(EndRun())
        completed = await run.wait_end()
    assert (completed.status, completed.result) == ("completed", "two")


async def test_the_idle_timeout_counts_from_the_last_end_of_work(tmp_path, autojump_clock):
    limits = {"keep_open": True, "idle_timeout_s": 60.0}
    async with open_run(tmp_path, says("one"), calls(WORK), says("two"), **limits) as run:
        await run.wait_idle()
        await trio.sleep(50)
        await run.say("more")
        await run.wait_idle(2)
        began = trio.current_time()
        await trio.sleep(50)
        assert not run.ended
        completed = await run.wait_end()
        assert 60 <= trio.current_time() - began < 62
    assert (completed.status, completed.result) == ("completed", "two")


async def test_an_interrupted_turn_leaves_the_agent_and_the_earlier_answer(
    tmp_path, autojump_clock
):
    replies = (says("one"), calls(WORK), says("three"))
    async with open_run(tmp_path, *replies, keep_open=True) as run:
        await run.wait_idle()
        await run.say("more")
        await run.team.until(lambda: run.team.bodies(CallBegan))
        await run.client.ask(InterruptAgent(agent="/root"))
        assert (await run.wait_idle(2)).status == "interrupted"
        await run.client.ask(EndRun())
        completed = await run.wait_end()
    assert (completed.status, completed.result) == ("completed", "one")


async def test_an_interrupt_of_all_turns_lets_a_run_that_stays_wait(tmp_path, autojump_clock):
    replies = (calls(spawn("a")), calls(WORK), says("after"))
    async with open_run(tmp_path, *replies, keep_open=True) as run:
        await run.team.until(lambda: len(run.team.bodies(CallBegan)) >= 3)
        await run.client.ask(InterruptAgent())
        assert (await run.wait_idle()).status == "interrupted"
        assert run.team.ends() == {"/root": ["interrupted"], "/root/a": ["interrupted"]}
        await run.say("go on")
        assert (await run.wait_idle(2)).result == "after"


async def test_a_run_waits_for_input_after_its_only_agent_was_interrupted(tmp_path, autojump_clock):
    async with open_run(tmp_path, calls(WORK), says("done")) as run:
        await run.team.until(lambda: run.team.bodies(CallBegan))
        await run.client.ask(InterruptAgent(agent="/root"))
        assert (await run.wait_idle()).status == "interrupted"
        await trio.sleep(3600)
        assert not run.ended
        await run.say("go on")
        completed = await run.wait_end()
    assert (completed.status, completed.result) == ("completed", "done")


async def test_a_run_that_waits_after_an_interrupt_ends_with_the_second_one(
    tmp_path, autojump_clock
):
    async with open_run(tmp_path, calls(WORK), says("done")) as run:
        await run.team.until(lambda: run.team.bodies(CallBegan))
        await run.client.ask(InterruptAgent(agent="/root"))
        await run.wait_idle()
        await run.client.ask(InterruptAgent())
        assert (await run.wait_end()).status == "interrupted"


async def test_ctrl_c_ends_a_run_that_waits_and_interrupts_one_that_works(tmp_path, autojump_clock):
    async with open_run(tmp_path, calls(WORK), keep_open=True) as run:
        await run.team.until(lambda: run.team.bodies(CallBegan))
        run.team.ending.interrupt()
        assert (await run.wait_idle()).status == "interrupted"
        assert not run.ended
        run.team.ending.interrupt()
        assert (await run.wait_end()).status == "interrupted"


async def test_a_run_that_stays_ends_at_its_deadline_and_when_it_is_killed(
    tmp_path, autojump_clock
):
    (tmp_path / "one").mkdir()
    async with open_run(tmp_path / "one", says("one"), keep_open=True, deadline_s=90.0) as run:
        await run.wait_idle()
        completed = await run.wait_end()
        assert (completed.status, completed.result) == ("deadline", "one")
    (tmp_path / "two").mkdir()
    async with open_run(tmp_path / "two", says("one"), keep_open=True) as run:
        await run.wait_idle()
        await run.client.ask(KillAgent())
        assert (await run.wait_end()).status == "terminated"


async def test_a_word_to_end_lets_the_work_be_finished(tmp_path, autojump_clock):
    async with open_run(tmp_path, calls(WORK), says("done"), keep_open=True) as run:
        await run.team.until(lambda: run.team.bodies(CallBegan))
        reply = await run.client.ask(EndRun())
        assert reply.message == "the run ends when its work is done"
        completed = await run.wait_end()
    assert (completed.status, completed.result, run.team.bodies(RunIdle)) == (
        "completed",
        "done",
        [],
    )


async def test_a_run_that_was_lost_while_it_waited_waits_again_after_a_resume(
    tmp_path, autojump_clock
):
    """Also after an interrupt: nobody asked the agent to go on."""
    async with open_run(tmp_path, says("one"), calls(WORK), keep_open=True) as run:
        await run.wait_idle()
        await run.say("more")
        await run.team.until(lambda: run.team.bodies(CallBegan))
        await run.client.ask(InterruptAgent(agent="/root"))
        await run.wait_idle(2)
        past = run.team.past()
    asked = {"keep_open": True, "resumes": True}
    async with open_run(tmp_path, says("three"), past=past, **asked) as run:
        idle = await run.wait_idle(3)
        assert (idle.status, len(run.team.bodies(TurnStarted))) == ("interrupted", 2)
        await run.say("now")
        assert (await run.wait_idle(4)).result == "three"


@pytest.mark.parametrize("disk_s", [0.0, 0.02])
async def test_words_to_a_resumed_run_that_is_only_starting_are_answered(
    tmp_path, autojump_clock, disk_s
):
    async with open_run(tmp_path, says("one"), keep_open=True) as run:
        await run.wait_idle()
        past = run.team.past()
    asked = {"keep_open": True, "resumes": True, "disk_s": disk_s}
    async with open_run(tmp_path, says("two"), past=past, **asked) as run:
        assert isinstance(await run.client.ask(SendText(agent="/root", text="now")), Done)
        await run.team.until(lambda: run.team.bodies(RunIdle)[-1].result == "two")
