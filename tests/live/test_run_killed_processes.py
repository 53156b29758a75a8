"""Processes of a run are killed in mid-work: what was begun is told, nothing runs twice."""

import os
import signal
from pathlib import Path

import pytest
import trio

from swarm.mailbox.protocol.events import CallBegan, CallEnded, TurnStarted
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.records import (
    AgentEnded,
    GatewayEnded,
    InputPosted,
    ItemRecorded,
    ProcessEnded,
)

pytestmark = pytest.mark.live
LIMIT_S = 40
# Writes one line each time it is run, then stays; its child hears no SIGTERM and no hang-up.
STAY = "echo once >> runs; (trap '' TERM HUP; setsid nohup sleep 305 >/dev/null 2>&1 &) ; sleep 304"


def command(script: str) -> dict:
    return {"name": "exec_command", "arguments": {"cmd": script}}


def stay_then(text: str) -> tuple[dict, dict]:
    return {"calls": [command(STAY)]}, {"text": text}


def sleepers(rig) -> list[int]:
    return [
        pid for pid, title in rig.alive().items() if title.startswith(("sleep 304", "sleep 305"))
    ]


def cut_after(path: Path, mark: bytes) -> None:
    """Keep the lines up to the first that holds `mark`."""
    lines = path.read_bytes().splitlines(keepends=True)
    last = next(number for number, line in enumerate(lines) if mark in line)
    path.write_bytes(b"".join(lines[: last + 1]))


async def in_mid_call(rig) -> None:
    await rig.wait_call()
    await rig.wait(lambda: len(sleepers(rig)) == 2)


def launcher_of_root(rig) -> int:
    (pid,) = [
        pid for pid, name in rig.alive().items() if name.startswith("swarm: launcher of /root")
    ]
    return pid


async def test_an_agent_killed_in_mid_call_lives_again_and_hears_of_it(rig):
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(*stay_then("heard: {last_output}")))
        await in_mid_call(rig)
        os.kill(rig.lives()[0].pid, signal.SIGKILL)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert [life.epoch for life in rig.lives()] == [1, 2]
    assert [end.signal for end in rig.bodies(ProcessEnded)] == [9, None]
    assert (rig.work / "runs").read_text() == "once\n"
    assert [end.status for end in rig.bodies(CallEnded)] == ["interrupted"]
    (told,) = rig.outputs()
    assert told.startswith("interrupted: ")
    assert "heard: interrupted: " in ended.out
    assert rig.alive() == {}


async def test_an_agent_killed_while_it_waits_for_the_model_asks_again(rig):
    slow = {"text": "slow", "delay_s": 300.0}
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(slow))
        await rig.wait(lambda: rig.bodies(TurnStarted))
        rig.script({"text": "quick"})
        os.kill(await rig.wait_pid("gateway"), signal.SIGKILL)
        os.kill(rig.lives()[0].pid, signal.SIGKILL)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert ended.out == "quick\n"
    assert len(rig.lives()) == 2


async def test_an_agent_that_keeps_dying_is_given_up_and_the_run_says_so(rig):
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script({"text": "never", "delay_s": 300.0}))
        for count in (1, 2, 3, 4):
            await rig.wait(lambda count=count: len(rig.lives()) == count)
            os.kill(rig.lives()[-1].pid, signal.SIGKILL)
        ended = await run.wait_end()
    assert ended.code == 1, ended.err
    (root,) = rig.bodies(AgentEnded)
    assert root.state == "crashed"
    assert "killed by SIGKILL" in root.message
    assert "4 times" in ended.err
    assert rig.alive() == {}


async def test_an_agent_whose_launcher_died_between_commands_lives_again_with_another(rig):
    turns = (
        {"calls": [command("echo one >> runs")]},
        {"calls": [command("echo two >> runs")], "delay_s": 1.5},
        {"text": "done"},
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(*turns))
        await rig.wait(lambda: rig.bodies(CallEnded))
        os.kill(launcher_of_root(rig), signal.SIGKILL)
        ended = await run.wait_end()
    assert (ended.code, ended.out) == (0, "done\n"), ended.err
    assert [life.epoch for life in rig.lives()] == [1, 2]
    assert (rig.work / "runs").read_text() == "one\ntwo\n"
    assert [end.status for end in rig.bodies(CallEnded)] == ["completed", "completed"]
    assert rig.alive() == {}


async def test_a_launcher_killed_in_mid_call_ends_the_command_and_the_model_hears_of_it(rig):
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(*stay_then("heard: {last_output}")))
        await in_mid_call(rig)
        os.kill(launcher_of_root(rig), signal.SIGKILL)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert [life.epoch for life in rig.lives()] == [1, 2]
    assert (rig.work / "runs").read_text() == "once\n"
    assert "heard: interrupted: " in ended.out
    assert sleepers(rig) == []
    assert rig.alive() == {}


async def test_a_stopped_agent_is_silent_so_it_is_killed_and_lives_again(rig):
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(*stay_then("on")))
        await in_mid_call(rig)
        os.kill(rig.lives()[0].pid, signal.SIGSTOP)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert "heartbeat" in rig.bodies(ProcessEnded)[0].reason
    assert (rig.work / "runs").read_text() == "once\n"


async def test_a_lost_fork_server_costs_no_agent_and_another_takes_its_place(rig):
    turns = (
        {"calls": [command("until test -e go; do sleep 0.05; done; echo went")]},
        {"text": "ok"},
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(*turns))
        await rig.wait_call()
        first = await rig.wait_pid("fork-server")
        os.kill(first, signal.SIGKILL)
        await rig.wait_pid("fork-server", but=first)
        assert len(rig.lives()) == 1
        os.kill(rig.lives()[0].pid, signal.SIGKILL)  # now a new one must be forked
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert [life.epoch for life in rig.lives()] == [1, 2]
    assert rig.alive() == {}


async def test_a_gateway_lost_in_mid_stream_is_replaced_and_the_model_asked_again(rig):
    items = [{"text": "first", "phase": "commentary"}, {"text": "never whole, " * 50}]
    cut = {"items": items, "chunk_chars": 5, "chunk_delay_s": 0.1}
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(cut, {"text": "whole"}))
        await rig.wait(lambda: said(rig) == ["first"])
        os.kill(await rig.wait_pid("gateway"), signal.SIGKILL)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert ended.out == "whole\n"
    assert said(rig) == ["first", "whole"]
    assert len(rig.bodies(GatewayEnded)) == 1
    assert len(rig.lives()) == 1


def said(rig) -> list[str]:
    """What the model said, in order."""
    items = [body.item for body in rig.bodies(ItemRecorded) if body.source == "model"]
    return [text_of(item.content) for item in items if isinstance(item, Message)]


async def test_a_gateway_that_dies_before_it_knew_anybody_costs_no_turn(rig):
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script({"text": "quick"}))
        os.kill(await rig.wait_pid("gateway"), signal.SIGKILL)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert ended.out == "quick\n"
    assert [end.state for end in rig.bodies(AgentEnded)] == ["completed"]


async def test_a_root_that_died_before_it_was_told_its_task_is_told_by_resume(rig):
    with trio.fail_after(LIMIT_S):
        provider = rig.script({"text": "heard: {last_user}", "repeat": "forever"})
        await (await rig.run(provider)).wait_end()
        journal = rig.places.journal
        (journal / f"{rig.lives()[0].agent_id}.jsonl").unlink()  # as if killed right after start
        cut_after(journal / "run.jsonl", b'"agent_spawned"')
        ended = await (await rig.resume()).wait_end()
        assert ended.code == 0, ended.err
        assert ended.out == "heard: do it\n"
    assert [life.epoch for life in rig.lives()] == [1, 2]


async def test_a_line_torn_by_a_power_loss_is_cut_and_the_run_goes_on(rig):
    with trio.fail_after(LIMIT_S):
        provider = rig.script({"text": "heard: {last_user}", "repeat": "forever"})
        await (await rig.run(provider)).wait_end()
        for file in rig.places.journal.iterdir():
            with file.open("ab") as end:
                end.write(b'{"seq":99,"ts":1.0,"bo')
        for words in ("one", "two"):
            ended = await (await rig.resume("-p", words)).wait_end()
            assert ended.code == 0, ended.err
            assert ended.out == f"heard: {words}\n"


async def test_when_the_supervisor_is_killed_all_is_gone_and_it_resumes(rig):
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(*stay_then("heard: {last_output}")))
        await in_mid_call(rig)
        run.process.kill()
        with trio.fail_after(20):
            await rig.wait_gone()
        ended = await (await rig.resume()).wait_end()
    assert ended.code == 0, ended.err
    assert "heard: interrupted: " in ended.out
    assert (rig.work / "runs").read_text() == "once\n"
    assert len(rig.bodies(CallBegan)) == 1
    assert [end.status for end in rig.bodies(CallEnded)] == ["interrupted"]
    assert len(rig.bodies(InputPosted)) >= 1
    names = [record.item_id for record in rig.bodies(ItemRecorded)]
    assert len(names) == len(set(names))
    assert rig.alive() == {}
