"""Ctrl-C, SIGTERM and the way back: each rung of the ladder, and resuming after it."""

import os
import signal

import pytest
import trio

from swarm.mailbox.protocol.events import CallEnded, TurnAborted, TurnCompleted, TurnStarted
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.records import AgentEnded, ItemRecorded, RunCompleted

pytestmark = pytest.mark.live
LIMIT_S = 30
TAKEN_S = 0.2  # signals of one number that come at once are one: no fact tells it was taken
STAY = {"name": "exec_command", "arguments": {"cmd": "echo once >> runs; sleep 306"}}


def said(rig) -> list[str]:
    items = [body.item for body in rig.bodies(ItemRecorded)]
    return [text_of(item.content) for item in items if isinstance(item, Message)]


async def test_ctrl_c_interrupts_and_a_next_prompt_goes_on_with_the_whole_history(rig):
    provider = rig.script({"text": "let me look", "calls": [STAY]}, {"text": "on: {last_user}"})
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider)
        await rig.wait_runs()
        run.process.send_signal(signal.SIGINT)
        ended = await run.wait_end()
        assert ended.code == 130, ended.err
        assert rig.completed.status == "interrupted"
        assert [end.status for end in rig.bodies(CallEnded)] == ["interrupted"]
        assert [end.reason for end in rig.bodies(TurnAborted)] == ["interrupted"]
        assert rig.alive() == {}
        ended = await (await rig.resume("-p", "and now?")).wait_end()
    assert ended.code == 0, ended.err
    assert ended.out == "on: and now?\n"
    assert (rig.work / "runs").read_text() == "once\n"
    words = said(rig)
    places = [next(n for n, one in enumerate(words) if text in one)
              for text in ("do it", "let me look", "and now?", "on: and now?")]  # fmt: skip
    assert places == sorted(places)
    assert rig.completed.status == "completed"
    assert len(rig.bodies(RunCompleted)) == 2


async def test_sigterm_ends_in_order_and_resume_takes_up_the_open_turn(rig):
    provider = rig.script({"calls": [STAY]}, {"text": "after: {last_output}"})
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider)
        await rig.wait_runs()
        run.process.send_signal(signal.SIGTERM)
        ended = await run.wait_end()
        assert ended.code == 143, ended.err
        assert rig.completed.status == "terminated"
        assert rig.alive() == {}
        ended = await (await rig.resume("-p", "go on")).wait_end()
    assert ended.code == 0, ended.err
    assert (rig.work / "runs").read_text() == "once\n"


async def test_a_reader_that_hangs_up_does_not_harm_the_run(rig):
    provider = rig.script({"calls": [{"name": "exec_command", "arguments": {"cmd": "echo a"}}]},
                          {"text": "done"})  # fmt: skip
    closed = ("sh", "-c", '"$@" | true', "sh")
    with trio.fail_after(LIMIT_S):
        words = ("-p", "do it", "--provider", provider, "--json")
        ended = await (await rig.start("run", *words, prefix=closed)).wait_end()
        await rig.wait_gone()
    assert "Traceback" not in ended.err
    assert rig.completed.status == "completed"


async def test_a_second_ctrl_c_ends_a_run_whose_turn_will_not_end(rig):
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script({"calls": [STAY]}, {"text": "never"}))
        await rig.wait_call()
        agent = rig.lives()[0].pid
        signal.pidfd_send_signal(pid_fd(agent), signal.SIGSTOP)
        run.process.send_signal(signal.SIGINT)
        await trio.sleep(TAKEN_S)
        assert run.process.returncode is None
        run.process.send_signal(signal.SIGINT)
        ended = await run.wait_end()
    assert ended.code == 130, ended.err
    assert rig.bodies(AgentEnded)[-1].state == "interrupted"
    assert rig.alive() == {}


async def test_three_ctrl_c_end_a_run_whose_agent_hears_nothing(rig):
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script({"calls": [STAY]}, {"text": "never"}))
        await rig.wait_call()
        signal.pidfd_send_signal(pid_fd(rig.lives()[0].pid), signal.SIGSTOP)
        for _ in range(3):
            run.process.send_signal(signal.SIGINT)
            await trio.sleep(TAKEN_S)
        ended = await run.wait_end()
    assert ended.code == 130, ended.err
    assert rig.alive() == {}


async def test_a_deadline_ends_the_run_with_a_code_of_its_own(rig):
    with trio.fail_after(LIMIT_S):
        provider = rig.script({"calls": [STAY]}, {"text": "never"})
        ended = await (await rig.run(provider, "--deadline", "1s")).wait_end()
    assert ended.code == 4, ended.err
    assert rig.completed.status == "deadline"
    assert rig.alive() == {}


async def test_ctrl_c_while_nothing_has_begun_ends_the_run(rig):
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script({"text": "never", "delay_s": 300}))
        await rig.wait(lambda: rig.bodies(TurnStarted))
        run.process.send_signal(signal.SIGINT)
        ended = await run.wait_end()
    assert ended.code == 130, ended.err
    assert not rig.bodies(TurnCompleted)
    assert rig.alive() == {}


def pid_fd(pid: int) -> int:
    return os.pidfd_open(pid)
