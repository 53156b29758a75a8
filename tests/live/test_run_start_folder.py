"""The folder where swarm was started, or where its agents work, is removed in mid-run."""

import os
import shutil
import signal

import pytest
import trio

from swarm.mailbox.protocol.records import AgentEnded

pytestmark = pytest.mark.live
LIMIT_S = 40


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def until(path) -> dict[str, object]:
    return call("exec_command", cmd=f"echo one >> runs; until test -e {path}; do sleep 0.02; done")


CHILD = call("spawn_agent", task_name="a", message="go", fork_turns="none")
WAIT = call("wait_agent", **{"targets": ["a"], "for": "all", "timeout_ms": 60_000})
WRITES = call("exec_command", cmd="echo written > made; pwd; cat made")


def turns(go) -> tuple[dict, ...]:
    return (
        {"agent": "/root", "calls": [until(go)]},
        {"agent": "/root", "calls": [WRITES]},
        {"agent": "/root", "calls": [CHILD]},
        {"agent": "/root", "calls": [WAIT]},
        {"agent": "/root", "text": "over"},
        {"agent": "/root/a", "calls": [WRITES]},
        {"agent": "/root/a", "text": "{last_output}"},
    )


@pytest.mark.parametrize("lost", ["nothing", "the fork-server"])
async def test_children_are_started_though_the_folder_where_swarm_was_started_is_gone(rig, lost):
    start, go = rig.folder / "start", rig.folder / "go"
    start.mkdir()
    provider = rig.script(*turns(go))
    within = ("sh", "-c", f'cd {start} && exec "$@"', "sh")
    where = ("--provider", provider, "-s", "danger-full-access", "-C", str(rig.work))
    answer = ("-o", "answer.txt")
    with trio.fail_after(LIMIT_S):
        run = await rig.start("run", "-p", "do it", *where, "--plain", *answer, prefix=within)
        await rig.wait_call()
        start.rmdir()
        if lost == "the fork-server":
            first = await rig.wait_pid("fork-server")
            os.kill(first, signal.SIGKILL)
            await rig.wait_pid("fork-server", but=first)
        go.touch()
        ended = await run.wait_end()
    assert "Traceback" not in ended.err
    assert rig.completed.status == "completed"
    assert "over" in ended.out
    assert "written" in rig.bodies(AgentEnded, agent="/root/a")[0].message
    assert ended.code == 1  # the folder in which the answer was to be written is gone
    assert str(start) in ended.err


@pytest.mark.parametrize("sandbox", ["danger-full-access", "workspace-write"])
async def test_agents_work_in_a_working_folder_that_was_removed_and_made_again(rig, sandbox):
    go = rig.folder / "go"
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(*turns(go)), sandbox=sandbox)
        await rig.wait_runs()  # its placeholders are made by then
        shutil.rmtree(rig.work)
        rig.work.mkdir()
        go.touch()
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    told = rig.outputs()[1]
    assert f"{rig.work}\nwritten" in told, told
    child = rig.bodies(AgentEnded, agent="/root/a")[0].message
    assert f"{rig.work}\nwritten" in child
    assert (rig.work / "made").read_text() == "written\n"


async def test_no_empty_mount_points_stay_in_a_runs_folder(rig):
    with trio.fail_after(LIMIT_S):
        script = rig.script({"calls": [WRITES]}, {"text": "over"})
        ended = await (await rig.run(script, sandbox="workspace-write")).wait_end()
    assert ended.code == 0, ended.err
    assert "written" in rig.outputs()[0]
    assert [*rig.places.tmp.iterdir()] == []


@pytest.mark.parametrize("sandbox", ["danger-full-access", "workspace-write"])
async def test_a_command_in_a_working_folder_that_is_gone_is_told_which_it_is(rig, sandbox):
    go = rig.folder / "go"
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(*turns(go)), sandbox=sandbox)
        await rig.wait_runs()  # its placeholders are made by then
        shutil.rmtree(rig.work)
        go.touch()
        ended = await run.wait_end()
        rig.work.mkdir()
    assert ended.code == 0, ended.err
    assert str(rig.work) in rig.outputs()[1]
    assert "No such file" in rig.outputs()[1]
