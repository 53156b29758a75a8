"""Faults hit whom the plan means, and nobody else."""

import os
import subprocess

import trio
from chaos_testbed import ChaosTestbed
from fault_injector import FaultInjector
from fault_plan import PlannedFault


async def test_a_supervisor_whose_pid_is_not_known_yet_is_not_taken_for_a_command(
    tmp_path, nursery
):
    stage = ChaosTestbed(tmp_path / "stage", has_disk=False)
    # A supervisor of its own: this process has children of other tests.
    words = ["sh", "-c", "sleep 60 & wait $!"]
    supervisor = await trio.lowlevel.open_process(words, env=stage.environment("1"))
    thrower = FaultInjector(stage, nursery)
    try:
        with trio.fail_after(30):
            while not any(one.title == "sleep 60" for one in stage.list_processes(None)):
                await trio.lowlevel.checkpoint()
            await thrower.inject_all((PlannedFault(0.0, "kill", "command"),))
            assert (thrower.injected, supervisor.poll()) == ([], None)
            thrower.supervisor = supervisor.pid
            await thrower.inject_all((PlannedFault(0.0, "kill", "command"),))
            assert await supervisor.wait() == 128 + 9
    finally:
        supervisor.kill()
        stage.kill_processes()


def test_a_stage_is_swept_of_whatever_carries_its_mark(tmp_path):
    stage = ChaosTestbed(tmp_path / "stage", has_disk=False)
    with subprocess.Popen(["sleep", "60"], env=stage.environment("1")) as process:
        stage.kill_processes()
        assert process.wait(10) == -9


def test_a_run_that_was_killed_before_its_first_file_is_none_to_go_on_with(tmp_path):
    stage = ChaosTestbed(tmp_path / "stage", has_disk=False)
    for name in ("0-killed-early", "1-begun"):
        (stage.state / "runs" / name / "journal").mkdir(parents=True)
    assert stage.run_id == ""
    (stage.state / "runs" / "1-begun" / "run.json").touch()
    assert stage.run_id == "1-begun"


async def test_no_agent_is_killed_a_fourth_time(tmp_path, nursery):
    stage = ChaosTestbed(tmp_path / "stage", has_disk=False)
    thrower = FaultInjector(stage, nursery)
    thrower.supervisor = os.getpid()
    environment = stage.environment("1")
    for life in (1, 2, 3, 4):
        argv = ["swarm: /root/a [default] 1", "60"]
        process = await trio.lowlevel.open_process(argv, executable="/bin/sleep", env=environment)
        try:
            with trio.fail_after(10):
                while process.pid not in {one.pid for one in stage.list_processes(os.getpid())}:
                    await trio.lowlevel.checkpoint()
                await thrower.inject_all((PlannedFault(0.0, "kill", "agent"),))
                if life < 4:
                    assert await process.wait() == -9
            assert len(thrower.injected) == min(life, 3)
        finally:
            process.kill()
            await process.wait()
