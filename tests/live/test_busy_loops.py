"""A process whose event loop stands still is ended all the same, by who does not depend on it."""

import signal
import sys

import pytest
import trio

from support.paths import ROOT
from swarm.mailbox.protocol.records import GatewayEnded, ProcessEnded, RunCompleted

pytestmark = pytest.mark.live
LIMIT_S = 60
_PROGRAM = ROOT / "tests" / "support" / "swarm_that_stands_still.py"
CALL = {"calls": [{"name": "exec_command", "arguments": {"cmd": "true"}}]}


def with_busy(victim):
    return (sys.executable, "-P", str(_PROGRAM), victim)


async def start_busy(rig, victim, *words):
    script = rig.script(CALL, {"text": "done"})
    run = await rig.run(script, *words, prefix=with_busy(victim))
    await rig.wait((rig.work / "busy").exists)
    return run


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
async def test_a_stop_signal_ends_a_supervisor_whose_loop_stands_still(rig, number):
    with trio.fail_after(LIMIT_S):
        run = await start_busy(rig, "supervisor")
        run.process.send_signal(number)
        assert (await run.wait_end()).code == -signal.SIGKILL
        await rig.wait_gone()


async def test_the_deadline_ends_a_supervisor_whose_loop_stands_still(rig):
    with trio.fail_after(LIMIT_S):
        run = await start_busy(rig, "supervisor", "--deadline", "3s")
        assert (await run.wait_end()).code == -signal.SIGKILL
        await rig.wait_gone()


async def test_kill_ends_a_run_that_answers_nobody_and_a_resume_goes_on(rig):
    with trio.fail_after(LIMIT_S):
        run = await start_busy(rig, "supervisor")
        kill = await rig.start("kill", rig.run_id, "--yes", prefix=with_busy("supervisor"))
        killed = await kill.wait_end()
        assert killed.code == 0, killed
        assert "did not answer" in killed.err
        assert "swarm resume" in killed.err
        assert (await run.wait_end()).code == -signal.SIGKILL
        await rig.wait_gone()
        assert (await (await rig.resume()).wait_end()).code == 0
        assert rig.completed.status == "completed"


async def test_a_stopped_supervisor_is_not_taken_for_a_busy_one(rig):
    with trio.fail_after(LIMIT_S):
        script = rig.script({"calls": [{"name": "exec_command", "arguments": {"cmd": "sleep 30"}}]})
        run = await rig.run(script, "--deadline", "2s", prefix=with_busy("nobody"))
        await rig.wait_call()
        run.process.send_signal(signal.SIGSTOP)
        await trio.sleep(5)  # the deadline passes, and more looks than a busy one would survive
        run.process.send_signal(signal.SIGCONT)
        assert (await run.wait_end()).code == 4
        await rig.wait_gone()


async def test_a_run_ends_in_order_although_an_agents_loop_stands_still(rig):
    with trio.fail_after(LIMIT_S):
        run = await start_busy(rig, "agent", "--deadline", "5s")
        assert (await run.wait_end()).code in {1, 4}
        await rig.wait_gone()
        assert rig.bodies(ProcessEnded)
        assert [one.status for one in rig.bodies(RunCompleted)] != []


async def test_a_script_of_megabytes_is_read_and_its_gateway_not_taken_for_dead(rig):
    turns = "".join(f"- agent: /root/n{number}\n  text: x{'y' * 60}\n" for number in range(30_000))
    path = rig.folder / "long.yaml"
    path.write_text(f"turns:\n{turns}default:\n  text: read\n")
    with trio.fail_after(180):
        run = await rig.run(f"scripted:{path}")
        ended = await run.wait_end()
    assert (ended.code, ended.out) == (0, "read\n"), ended.err
    assert rig.bodies(GatewayEnded) == []
