"""Real runs that sleep: all wait without a process, and a wake-up outlives kill -9."""

import json
import os
import signal

import pytest
import trio

from swarm.mailbox.parts.wakeups.wakeup_messages import WakeUpFired, WakeUpMade

from .conftest import Rig

pytestmark = pytest.mark.live
LIMIT_S = 150
SLEEP = {"name": "wake_me", "arguments": {"after_s": 60, "why": "look at the build"}}
TURNS = ({"calls": [SLEEP]}, {"text": "later"}, {"text": "woken"})


async def wait_asleep(rig: Rig) -> None:
    await rig.wait(lambda: rig.bodies(WakeUpMade))
    await rig.wait(lambda: not any("swarm: /root" in title for title in rig.alive().values()))


async def command(rig: Rig, *words: str) -> str:
    done = await (await rig.start(*words)).wait_end()
    assert done.code == 0, done.err
    return done.out + done.err


async def test_a_run_sleeps_is_killed_and_is_woken_once_when_it_is_resumed(rig: Rig) -> None:
    with trio.fail_after(LIMIT_S):
        started = await rig.run(rig.script(*TURNS))
        await wait_asleep(rig)
        (row,) = (await command(rig, "wakeups", "list", rig.run_id, "--json")).splitlines()
        assert json.loads(row) | {"made_unix_s": 0, "due_unix_s": 0} == {
            "number": 1,
            "agent": "/root",
            "cause": "clock",
            "why": "look at the build",
            "made_unix_s": 0,
            "due_unix_s": 0,
        }
        os.kill(started.pid, signal.SIGKILL)
        await rig.wait_gone()
        done = await (await rig.resume()).wait_end()
    assert (done.code, done.out) == (0, "woken\n")
    assert [one.number for one in rig.bodies(WakeUpFired)] == [1]


async def test_a_person_takes_the_wake_up_back_and_the_run_ends(rig: Rig) -> None:
    with trio.fail_after(LIMIT_S):
        started = await rig.run(rig.script(*TURNS))
        await wait_asleep(rig)
        refused = await (await rig.start("wakeups", "cancel", rig.run_id, "7")).wait_end()
        assert (refused.code, "those that do: 1" in refused.err) == (1, True)
        assert "is taken back" in await command(rig, "wakeups", "cancel", rig.run_id, "1")
        done = await started.wait_end()
    assert (done.code, done.out) == (0, "later\n")
    assert rig.bodies(WakeUpFired) == []
