"""The next agent's process is ready before it is wanted: it is whose it becomes, and nobody else's.

The root starts `a`, waits for the file `go`, and starts the explorer `b`, who tries to write.
"""

import os
import signal

import pytest
import trio

from swarm.mailbox.base.process_tree import children_of
from swarm.mailbox.protocol.records import AgentEnded, ProcessEnded

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("started_anew")]
LIMIT_S = 40
SPARE, ITS_LAUNCHER = "swarm: spare ", "swarm: launcher of spare "


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def spawn(name: str, role: str) -> dict[str, object]:
    return call("spawn_agent", task_name=name, agent_type=role, message="go", fork_turns="none")


WAIT_ALL = {"targets": ["a", "b"], "for": "all", "timeout_ms": 60_000}
UNTIL_GO = call("exec_command", cmd="until test -e go; do sleep 0.02; done", yield_time_ms=30_000)
WRITES = call("exec_command", cmd="touch written; echo touched $?; echo word >&2")
TURNS = (
    {"agent": "/root", "calls": [spawn("a", "default")]},
    {"agent": "/root", "calls": [UNTIL_GO]},
    {"agent": "/root", "calls": [spawn("b", "explorer")]},
    {"agent": "/root", "calls": [call("wait_agent", **WAIT_ALL)]},
    {"agent": "/root", "text": "over"},
    {"agent": "/root/b", "calls": [WRITES]},
    {"agent": "/root/*", "text": "{agent} is done", "repeat": "forever"},
)


async def wait_titled(rig, title: str) -> int:
    def find() -> list[int]:
        return [pid for pid, name in rig.alive().items() if name.startswith(title)]

    (pid,) = await rig.wait(find)
    return pid


async def assert_ends_well(rig, run) -> None:
    ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err
    ends = {one.message for one in rig.bodies(AgentEnded)}
    assert {"/root/a is done", "/root/b is done", "over"} <= ends
    assert not (rig.work / "written").exists()
    assert len(rig.bodies(ProcessEnded)) == 3  # of agents alone
    await rig.wait_gone()


async def test_a_spare_becomes_the_agent_that_is_wanted_next_with_its_launcher_and_its_lock(rig):
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(*TURNS))
        spare, launcher = await wait_titled(rig, SPARE), await wait_titled(rig, ITS_LAUNCHER)
        assert children_of(spare) == [launcher]
        (rig.work / "go").touch()
        await rig.wait(lambda: rig.lives("/root/b"))
        (life,) = rig.lives("/root/b")
        assert (life.pid, life.warm) == (spare, True)
        await assert_ends_well(rig, run)
        (said,) = rig.outputs("/root/b")
        assert "touched 1" in said
        assert "word" in said


async def test_a_spare_that_dies_costs_nothing_but_a_fork(rig):
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(*TURNS))
        spare = await wait_titled(rig, SPARE)
        os.kill(spare, signal.SIGKILL)
        await rig.wait(lambda: spare not in rig.alive())
        (rig.work / "go").touch()
        await assert_ends_well(rig, run)
        assert spare not in {one.pid for one in rig.lives("/root/b")}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_spare_that_nobody_can_use_does_not_outlive_its_fork_server(rig, number):
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(*TURNS))
        spare, launcher = await wait_titled(rig, SPARE), await wait_titled(rig, ITS_LAUNCHER)
        os.kill(await rig.wait_pid("fork-server"), number)
        (rig.work / "go").touch()
        await assert_ends_well(rig, run)
        assert not {spare, launcher} & set(rig.alive())


async def test_a_spare_ends_with_a_killed_supervisor(rig):
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(*TURNS))
        await wait_titled(rig, SPARE)
        os.kill(run.pid, signal.SIGKILL)
        await run.process.wait()
        await rig.wait_gone()
