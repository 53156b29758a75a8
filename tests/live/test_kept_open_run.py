"""Real runs that stay: turns by `swarm send`, ends by `swarm end`, and what kills leave behind."""

import json
import os
import signal
from pathlib import Path

import pytest
import trio

from swarm.mailbox.protocol.records import RunIdle

from .conftest import Rig

pytestmark = pytest.mark.live
LIMIT_S = 120
SLOW = {"name": "exec_command", "arguments": {"cmd": "echo x >> runs; sleep 300"}}


async def start_staying(rig: Rig, *turns: dict[str, object], words: tuple[str, ...] = ()) -> None:
    provider = rig.script(*turns, default={"text": "nothing more"})
    await rig.run(provider, "--keep-open", *words)


async def wait_idle(rig: Rig, count: int) -> RunIdle:
    """Until the run waits for the n-th time, with no process of an agent."""
    await rig.wait(lambda: len(rig.bodies(RunIdle)) == count)
    await rig.wait(lambda: not any("swarm: agent" in title for title in rig.alive().values()))
    return rig.bodies(RunIdle)[-1]


async def command(rig: Rig, *words: str) -> str:
    done = await (await rig.start(*words)).wait_end()
    assert done.code == 0, done.err
    return done.out


async def test_three_turns_of_one_run_and_its_end(rig: Rig) -> None:
    with trio.fail_after(LIMIT_S):
        provider = rig.script({"text": "one"}, {"text": "two"}, {"text": "three"})
        started = await rig.run(provider, "--keep-open")
        for count, text in enumerate(("one", "two", "three"), start=1):
            assert (await wait_idle(rig, count)).result == text
            (row,) = (await command(rig, "ps", "--json")).splitlines()
            assert json.loads(row)["state"] == "idle"
            if count < 3:
                await command(rig, "send", rig.run_id, "root", "more")
        await command(rig, "end", rig.run_id)
        done = await started.wait_end()
    assert (done.code, done.out) == (0, "one\ntwo\nthree\n")


async def test_a_root_that_is_killed_in_a_later_turn_goes_on_with_it(rig: Rig) -> None:
    with trio.fail_after(LIMIT_S):
        await start_staying(rig, {"text": "one"}, {"calls": [SLOW]}, {"text": "after"})
        await wait_idle(rig, 1)
        await command(rig, "send", rig.run_id, "root", "more")
        await rig.wait_runs()
        os.kill(rig.lives()[-1].pid, signal.SIGKILL)
        assert (await wait_idle(rig, 2)).result == "after"
        assert (rig.work / "runs").read_text() == "x\n"


async def test_a_supervisor_that_is_killed_while_it_waits_is_resumed_and_waits(rig: Rig) -> None:
    with trio.fail_after(LIMIT_S):
        provider = rig.script({"text": "one"}, {"text": "two"})
        started = await rig.run(provider, "--keep-open")
        await wait_idle(rig, 1)
        os.kill(started.pid, signal.SIGKILL)
        await rig.wait_gone()
        resumed = await rig.resume()
        await wait_idle(rig, 2)
        await command(rig, "send", rig.run_id, "root", "more")
        assert (await wait_idle(rig, 3)).result == "two"
        await command(rig, "end", rig.run_id)
        done = await resumed.wait_end()
    assert (done.code, done.out) == (0, "one\ntwo\n")


async def test_an_idle_timeout_completes_the_run_with_its_last_answer(rig: Rig) -> None:
    with trio.fail_after(LIMIT_S):
        started = await rig.run(rig.script({"text": "one"}), "--keep-open", "--idle-timeout", "1s")
        done = await started.wait_end()
    assert (done.code, done.out, len(rig.bodies(RunIdle))) == (0, "one\n", 1)


async def test_a_background_command_of_the_root_goes_on_while_the_run_waits(rig: Rig) -> None:
    server = "while :; do echo x >> runs; sleep 0.1; done"
    call = {"name": "exec_command", "arguments": {"cmd": server, "yield_time_ms": 300}}
    with trio.fail_after(LIMIT_S):
        await start_staying(rig, {"calls": [call]}, {"text": "it serves"}, {"text": "again"})
        await rig.wait(lambda: rig.bodies(RunIdle))
        before = _size(rig.work / "runs")
        await rig.wait(lambda: _size(rig.work / "runs") > before + 40)
        await command(rig, "send", rig.run_id, "root", "more")
        await rig.wait(lambda: len(rig.bodies(RunIdle)) == 2)
        assert len(rig.lives()) == 1  # in the same process


def _size(path: Path) -> int:
    return path.stat().st_size
