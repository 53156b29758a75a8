"""One seed from beginning to end: `play(seed)` → what came of it, and the digest of its journal."""

import gc
import hashlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import trio
from simulated_faults import SimulatedFaults
from simulated_model import SimulatedModel, gateway_app_opener
from simulated_scenario import RUN_ID, SimulatedScenario, make_simulated_scenario
from simulated_tools import SideEffects, SimulatedTool
from simulated_world import SimulatedWorld
from simulation_checks import check_journal, check_side_effects
from trio.testing import MockClock, wait_all_tasks_blocked

from swarm.mailbox.parts.part_messages import PartSettings
from swarm.mailbox.parts.wakeups.wakeup_messages import WakeUpSettings
from swarm.mailbox.protocol.records import RunCompleted
from swarm.mailbox.protocol.values.limits import Budget
from swarm.supervisor.base.silent_display import SilentDisplay
from swarm.supervisor.context.run_context import RunContext
from swarm.supervisor.request.run_request import (
    ApprovalSettings,
    FanOut,
    RunLifetime,
    RunRequest,
    TeamLimits,
)
from swarm.supervisor.run import run_to_end
from swarm.supervisor.runs.paths import UserPaths, paths_of_run
from swarm.supervisor.workload.run_shutdown import RunShutdown
from swarm.supervisor.workload.task_workload import TaskWorkload

LIMIT_S = 6 * 3600  # of virtual time: whatever happens, a run ends
_DISK_S = (0.0, 0.0, 0.0, 0.0, 0.001, 0.01, 0.2)  # what a thread's work takes, by chance
_MOST_LIVES = 12  # of a supervisor
STOPPED = frozenset({"interrupted", "terminated"})


class SimulationResult(NamedTuple):
    """`violations` empty: all that must hold held."""

    seed: int
    status: str
    violations: tuple[str, ...]
    digest: str  # of the journal's bytes
    records: int
    agents: int
    lives: int  # of the supervisor
    seconds: float  # real ones


def simulate(seed: int, *, keep: Path | None = None) -> SimulationResult:
    """Run one seed. `keep`: where its run folder is left, to be looked at."""
    began = time.perf_counter()
    base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="swarm-sim-", dir=base) as name:
        folder = Path(name)
        with deterministic(seed):
            clock = MockClock(autojump_threshold=0)
            story = make_simulated_scenario(seed)
            found: list[str] = []
            try:
                scene = trio.run(_simulate_run, story, folder, found, clock=clock)
            except BaseException as error:  # a bug that ended the supervisor
                if isinstance(error, KeyboardInterrupt):
                    raise
                found.append(_told(error))
                scene = None
        places = paths_of_run(places_in(folder), RUN_ID)
        digest, records = journal_digest(places.journal)
        if keep is not None:
            shutil.copytree(places.folder, keep / f"seed-{seed}", dirs_exist_ok=True)
        status, agents, lives = scene or ("broken", 0, 0)
        seconds = time.perf_counter() - began
    return SimulationResult(seed, status, tuple(found), digest, records, agents, lives, seconds)


def journal_digest(folder: Path) -> tuple[str, int]:
    """Of every file's name and bytes, in order of the names; and how many lines there are."""
    total, lines = hashlib.sha256(), 0
    for file in sorted(folder.glob("*.jsonl")):
        data = file.read_bytes()
        lines += data.count(b"\n")
        total.update(file.name.encode() + b"\0" + data)
    return total.hexdigest(), lines


def _told(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_told(one) for one in error.exceptions)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else "?"
    return f"the run broke: {type(error).__name__}: {error} ({where})"


@contextmanager
def deterministic(seed: int) -> Iterator[None]:
    """Trio's scheduler from the seed; what a thread would do is done in the loop, and
    takes its time: a disk may be slow."""
    runner = trio._core._run
    usual = trio.to_thread.run_sync, runner._r, runner._ALLOW_DETERMINISTIC_SCHEDULING

    async def at_once(work: Callable[..., object], *arguments: object, **_: object) -> object:
        await trio.sleep(disk.choice(_DISK_S))
        return work(*arguments)

    disk = random.Random(f"disk:{seed}")
    trio.to_thread.run_sync = at_once
    runner._r, runner._ALLOW_DETERMINISTIC_SCHEDULING = random.Random(f"trio:{seed}"), True
    zone = os.environ.get("TZ")
    os.environ["TZ"] = "Etc/UTC"
    time.tzset()
    try:
        yield
    finally:
        trio.to_thread.run_sync, runner._r, runner._ALLOW_DETERMINISTIC_SCHEDULING = usual
        if zone is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = zone
        time.tzset()


def places_in(folder: Path) -> UserPaths:
    return UserPaths(
        config=folder / "config", state=folder / "state", cache=folder / "cache",
        runtime=folder / "r",
    )  # fmt: skip


def empty_folder() -> str:
    """Where agents work: empty, and always of the same name, since journals tell it."""
    folder = Path(tempfile.gettempdir()) / f"swarm-simulated-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return str(folder)


def _request(story: SimulatedScenario) -> RunRequest:
    fan_out = FanOut(items=story.items, prompt="{item}") if story.items else None
    return RunRequest(
        cwd=empty_folder(),
        prompt="Begin.",
        run_id=RUN_ID,
        fan_out=fan_out,
        team=TeamLimits(max_agents=story.slots, max_depth=5),
        approvals=ApprovalSettings(reviewer=story.reviewer),
        budget=Budget(tokens=story.tokens),
        environment={"TZ": "Etc/UTC"},
        lifetime=RunLifetime(linger_s=0.0),
        parts=PartSettings(wakeups=WakeUpSettings(wait_for_limit_s=86_400.0)),
    )


class _Scene(NamedTuple):
    status: str
    agents: int
    lives: int


async def _simulate_run(story: SimulatedScenario, folder: Path, found: list[str]) -> _Scene | None:
    outside = SideEffects()
    async with trio.open_nursery() as nursery:
        world = SimulatedWorld(str(story.seed), nursery)
        mind = SimulatedModel(story, world)
        world.open_gateway_app = gateway_app_opener(mind, story, world)
        world.make_tools = lambda spec: tuple(
            SimulatedTool(name, spec.path, outside) for name in ("work", "risky")
        )
        run_folder = paths_of_run(places_in(folder), RUN_ID).folder
        faults = SimulatedFaults(story, world, run_folder)
        nursery.start_soon(faults.run)
        completed, lives = None, 0
        with trio.move_on_after(LIMIT_S) as limit:
            while completed is None and lives < _MOST_LIVES:
                lives += 1
                completed = await _run_supervisor(
                    story, world, faults, folder, found, resumes=lives > 1
                )
                if faults.was_stopped and completed is not None and completed.status in STOPPED:
                    completed = None  # it was ended from outside: a resume goes on
        if limit.cancelled_caught:
            alive = sorted(str(child.spec.identity) for child in world.alive)
            found.append(f"the run did not end in {LIMIT_S} s; alive: {alive}")
        elif completed is None:
            found.append(f"no end after {lives} supervisors")
        await wait_all_tasks_blocked()
        if world.alive and completed is not None:
            found.append(f"left behind: {[child.spec.path for child in world.alive]}")
        nursery.cancel_scope.cancel()
    found += world.agent_errors
    places = paths_of_run(places_in(folder), RUN_ID)
    if completed is not None:
        found += check_journal(places, story, completed)
        found += check_side_effects(places, outside)
        if story.is_undisturbed and mind.gave_up:
            found.append(f"given up: {mind.gave_up[:3]}")
    agents = sum(name != "gateway" for name in world.children)
    return _Scene(completed.status if completed else "none", agents, lives)


async def _run_supervisor(
    story: SimulatedScenario,
    world: SimulatedWorld,
    faults: SimulatedFaults,
    folder: Path,
    found: list[str],
    *,
    resumes: bool,
) -> RunCompleted | None:
    """One supervisor; None if it was lost."""
    request = msgspec.structs.replace(_request(story), resumes=resumes)
    watch = _SlotMonitor(world, found, faults)
    faults.ending, faults.was_stopped = None, False
    try:
        with trio.CancelScope() as faults.supervisor:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch.run)
                completed = await run_to_end(
                    request,
                    SilentDisplay(),
                    None,
                    places_in(folder),
                    watch.work,
                    world.dependencies(),
                )
                nursery.cancel_scope.cancel()
                with suppress(AttributeError):
                    if watch.running.agents.registry.used:
                        found.append(f"slots in use at the end: {watch.running.agents.registry}")
            faults.restore_disk()
            return completed
    except Exception:
        if not faults.supervisor.cancel_called:
            raise  # else it was killed, and whatever broke in it then, nobody could see
    faults.restore_disk()
    return None


class _SlotMonitor:
    """Checks at every quiet moment that slots in use are live processes, and who is alive."""

    def __init__(self, world: SimulatedWorld, found: list[str], faults: SimulatedFaults) -> None:
        self._world, self._found, self._faults = world, found, faults
        self.running: RunContext | None = None

    def work(self, running: RunContext, *others: Any) -> TaskWorkload:
        """Stands for `TaskWorkload`, to get hold of what a run is made of."""
        self.running = running
        self._faults.ending = next(one for one in others if isinstance(one, RunShutdown))
        return TaskWorkload(running, *others)

    async def run(self) -> None:
        while True:
            await trio.sleep(0.7)
            await wait_all_tasks_blocked()
            if self.running is None:
                continue
            registry, alive = self.running.agents.registry, len(self._world.alive)
            registry.check()
            if not alive <= registry.used <= registry.max_agents:
                paths = [child.spec.path for child in self._world.alive]
                self._found.append(f"{alive} live, slots say {registry}: {paths}")
                return
            directory = self.running.agents
            for path, agent in directory.members.items():
                if agent.is_live != (path in directory.live):
                    self._found.append(f"{path} in {agent.phase.name}: nobody knows if it lives")
                    return


def collect() -> None:
    """Between two seeds: what one left is not found during the next."""
    gc.collect()
