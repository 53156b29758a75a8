"""One play, performed by the real command under fire, and gone on with until it has ended.

Faults are thrown for a while; then it is calm, and the run must come to its end by itself, after as
many resumes as it was killed.
"""

import math
import random
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import trio
from chaos_scenario import make_scenario, task_text
from chaos_testbed import HERE, ChaosTestbed
from fault_injector import FaultInjector, InjectedFault
from fault_plan import plan_faults
from invariants import violations
from run_evidence import CommandStart, RunEvidence, collect_evidence
from simulated_person import SimulatedPerson
from stack_dump import dump_stuck_run

FAULT_PHASE_S = 18.0  # faults are thrown so long by default, unless the play ends before
RECOVERY_LIMIT_S = 90.0  # then it must end within this
GONE_S = 5.0  # all processes of a start must have followed it; the claim is 1 s on a free machine
_MOST_STARTS = 12
_VANISHING = 0.1  # share of the plays whose run's folder is deleted under it
_LOOK_S = 0.05


class ScenarioResult(NamedTuple):
    """What came of one play."""

    seed: str
    evidence: RunEvidence
    faults: tuple[InjectedFault, ...]
    violations: tuple[str, ...]
    gone_s: float  # the longest that a process outlived its supervisor


class ScenarioRun:
    """One play on its stage."""

    def __init__(self, stage: ChaosTestbed, seed: str, *, faults_s: float) -> None:
        self._stage, self._seed, self._faults_s = stage, seed, faults_s
        self._play = make_scenario(seed)
        lots = random.Random(f"{seed}/terms")
        self._max_agents = lots.choice((3, 4, 8))
        self._reviewer = lots.choice(("person", "person", "guardian"))
        self._starts: list[CommandStart] = []
        self._gone_s = 0.0
        self._person = SimulatedPerson(stage)
        self._nursery: trio.Nursery  # of the performance
        lots = random.Random(f"{seed}/vanish")
        vanishes = faults_s and lots.random() < _VANISHING
        self._vanishes_s = lots.uniform(1, faults_s) if vanishes else None
        self._vanished = ""

    async def run(self) -> ScenarioResult:
        """Perform it to its end, and look at what is left."""
        in_time = False
        async with trio.open_nursery() as nursery:
            thrower = FaultInjector(self._stage, nursery)
            nursery.start_soon(self._person.answer_approvals)
            lots = random.Random(f"{self._seed}/words")
            nursery.start_soon(self._person.send_messages, tuple(self._play), lots, self._faults_s)
            nursery.start_soon(self._inject_faults, thrower)
            self._nursery = nursery
            if self._vanishes_s is not None:
                nursery.start_soon(self._vanish, thrower, self._vanishes_s)
            with trio.move_on_after(self._faults_s + RECOVERY_LIMIT_S):
                await self._run_to_its_end(thrower)
                in_time = True
            thrower.reset()
            nursery.cancel_scope.cancel()
        self._stage.kill_processes()
        facts = collect_evidence(self._stage, self._play, self._max_agents, self._person)
        facts = facts._replace(
            starts=tuple(self._starts), ended_in_time=in_time, vanished=self._vanished
        )
        wrong = tuple(violations(facts))
        return ScenarioResult(self._seed, facts, tuple(thrower.injected), wrong, self._gone_s)

    async def _vanish(self, thrower: FaultInjector, after_s: float) -> None:
        """Delete the folder of the run while it lives."""
        await trio.sleep(after_s)
        if self._stage.run_id and thrower.supervisor is not None:
            folder = self._stage.places.folder
            self._vanished = str(folder)
            await trio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))

    async def _inject_faults(self, thrower: FaultInjector) -> None:
        seed, has_disk = f"{self._seed}/strikes", self._stage.has_disk
        await thrower.inject_all(plan_faults(seed, self._faults_s, disk=has_disk))
        await trio.sleep(1)
        thrower.reset()

    async def _run_to_its_end(self, thrower: FaultInjector) -> None:
        words = self._run_arguments()
        while len(self._starts) < _MOST_STARTS:
            start = await self._start(words, thrower)
            self._starts.append(start)
            if not start.code or self._vanished:
                return
            if start.disk_was_full:
                self._stage.free_disk()
            if self._stage.run_id:
                words = ["resume", self._stage.run_id, "--plain"]
        await trio.sleep(math.inf)

    def _run_arguments(self) -> list[str]:
        return [
            "run", *self._task(), "--plain", "-s", "workspace-write",
            "--approval", "on-request", "--reviewer", self._reviewer,
            "--max-agents", str(self._max_agents), "--budget-requests", "100000",
            "--deadline", "5h", "-C", str(self._stage.work),
        ]  # fmt: skip

    def _task(self) -> list[str]:
        """A prompt, or a task file whose items are folders with the names of their parts."""
        items = [path for path, part in self._play.items() if part.is_item]
        if not items:
            return ["-p", task_text("/root")]
        for path in items:
            (self._stage.work / path.rpartition("/")[2]).mkdir()
        task = self._stage.folder / "task.md"
        prompt = task_text("/root/{item}")
        fan_out = f'fan_out:\n  each: {{dirs: "?"}}\n  role: worker\n  prompt: "{prompt}"\n'
        task.write_text(f"---\n{fan_out}---\n{task_text('/root')}\n")
        return [str(task)]

    async def _start(self, words: list[str], thrower: FaultInjector) -> CommandStart:
        number = len(self._starts)
        folder = self._stage.folder / f"start{number}"
        folder.mkdir()
        thrower.supervisor_killed = thrower.disk_filled = thrower.ended = False
        argv = [
            sys.executable,
            "-P",
            str(HERE / "swarm_with_faults.py"),
            str(self._stage.folder / "page"),
        ]
        paths = [self._stage.folder / f"{name}{number}" for name in ("out", "err")]
        with paths[0].open("wb") as out, paths[1].open("wb") as err:
            process = await trio.lowlevel.open_process(
                [*argv, *words],
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env=self._stage.environment(self._seed), cwd=folder,
            )  # fmt: skip
        self._nursery.start_soon(self._remove_when_begun, folder)
        thrower.supervisor = process.pid
        try:
            code = await self._wait_end(process)
        finally:
            thrower.supervisor = None
            if process.returncode is None:
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(dump_stuck_run, self._stage, process.pid)
                    process.kill()
                    await process.wait()
        left = await self._wait_gone()
        said = paths[1].read_text(errors="replace")
        return CommandStart(
            code,
            said,
            was_killed=thrower.supervisor_killed,
            disk_was_full=thrower.disk_filled,
            ended=thrower.ended,
            left=left,
        )

    async def _remove_when_begun(self, folder: Path) -> None:
        """Nothing may depend on the folder where the command was started."""
        while not self._stage.run_id:  # noqa: ASYNC110 — a file tells no event
            await trio.sleep(_LOOK_S)
        await trio.to_thread.run_sync(folder.rmdir)

    async def _wait_end(self, process: trio.Process) -> int:
        """Its exit code. Meanwhile it is looked at, so that who leaves its family is known."""
        async with trio.open_nursery() as nursery:

            async def look() -> None:
                while True:
                    await trio.to_thread.run_sync(partial(self._stage.list_processes, process.pid))
                    await trio.sleep(_LOOK_S * 4)

            nursery.start_soon(look)
            code = await process.wait()
            nursery.cancel_scope.cancel()
        return code

    async def _wait_gone(self) -> tuple[str, ...]:
        began = trio.current_time()
        while left := self._stage.list_processes(None):
            if trio.current_time() > began + GONE_S:
                return tuple(one.title for one in left)
            await trio.sleep(_LOOK_S)
        self._gone_s = max(self._gone_s, trio.current_time() - began)
        return ()


async def run_scenario(stage: ChaosTestbed, seed: str, faults_s: float) -> ScenarioResult:
    """One play with its model server, under fire for `faults_s` seconds."""
    with stage.start_model(seed) as model:
        try:
            return await ScenarioRun(stage, seed, faults_s=faults_s).run()
        finally:
            model.kill()
