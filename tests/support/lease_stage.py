"""One run's lease service in virtual time, with agents that are no processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import trio
import trio.testing

from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.parts.leases.lease_messages import (
    HeavyCommandEnded,
    LeaseGiven,
    LeaseSettings,
    TakeLease,
)
from swarm.mailbox.parts.part_messages import PartSettings
from swarm.supervisor.base.run_pauses import RunPauses
from swarm.supervisor.parts.leases.lease_folder import LeaseFolderBusy, look
from swarm.supervisor.parts.leases.lease_ledger import LeaseLedger
from swarm.supervisor.parts.leases.service.lease_service import LEASES_FOLDER, LeaseService
from swarm.supervisor.processes.machine_facts import MachineState
from swarm.supervisor.processes.machine_state import TreeUsage
from swarm.supervisor.request.run_request import RunRequest
from swarm.supervisor.runs.paths import RunPaths

ONE = LeaseSettings(most=1, reserve_memory=0, max_wait=1_000, max_hold=500)


class FakeAgent:
    """What the service knows of an agent: where it is, which process, and when that ends."""

    def __init__(self, path: str, pid: int = 0) -> None:
        self.path, self.epoch, self.ended = path, 1, trio.Event()
        child = SimpleNamespace(pid=pid, wait_ended=self.ended.wait)
        self.process = SimpleNamespace(child=child)
        self.plan = SimpleNamespace(host="")


class Stage:
    """One run's service, and what its agents were answered."""

    def __init__(self, folder, settings: LeaseSettings, nursery: trio.Nursery) -> None:
        self.answers: dict[tuple[str, int], list[object]] = {}
        self._news = trio.Event()
        self.notes: list[object] = []
        self.used_s: dict[int, float] = {}  # seconds of a processor by pid
        self.measures_in_lock: list[bool] = []
        self.ledger = LeaseLedger(folder / "runs", settings, cwd="/")
        self.pauses = RunPauses()
        host = SimpleNamespace(
            run_id="run1",
            request=RunRequest(cwd="/", parts=PartSettings(leases=settings)),
            paths=RunPaths(folder=folder / "runs" / "run1", sockets=folder / "runtime" / "s"),
            journal=SimpleNamespace(redactor=Redactor(("hunter2hunter2",))),
            pauses=self.pauses,
            send=self._send,
            note=self.notes.append,
        )
        self.places = folder / "runtime" / LEASES_FOLDER
        self.service = LeaseService(
            host, self.ledger, nursery, clock=trio.current_time,
            read_machine=lambda: MachineState(processors=2), measure=self._measure_trees,
        )  # fmt: skip

    async def _measure_trees(self, pids) -> dict[int, TreeUsage]:
        try:
            look(self.places)
        except LeaseFolderBusy:
            self.measures_in_lock.append(True)
        else:
            self.measures_in_lock.append(False)
        return {pid: TreeUsage(cpu_s=self.used_s[pid]) for pid in pids}

    async def _send(self, agent, op) -> None:
        self.answers.setdefault((agent.path, op.request_id), []).append(op.reply)
        self._news.set()
        self._news = trio.Event()

    def ask(self, agent: FakeAgent, number: int = 1, command: str = "pytest") -> None:
        request = TakeLease(number=number, kind="test", command=command, head="pytest", cwd="/w")
        self.service.serve(agent, number, request)

    def end(self, agent: FakeAgent, number: int = 1, **more) -> None:
        ended = HeavyCommandEnded(
            lease=number, kind="test", command="pytest", head="pytest", cwd="/w", **more
        )
        self.service.end(agent, ended)

    def replies(self, agent: FakeAgent, number: int = 1) -> list[object]:
        return self.answers.get((agent.path, number), [])

    async def wait_lease(self, agent: FakeAgent, number: int) -> None:
        while not self.has_lease(agent, number):
            await self._news.wait()

    def has_lease(self, agent: FakeAgent, number: int = 1) -> bool:
        return any(isinstance(one, LeaseGiven) for one in self.replies(agent, number))


@asynccontextmanager
async def stage(folder, settings: LeaseSettings = ONE) -> AsyncIterator[Stage]:
    async with trio.open_nursery() as nursery:
        yield Stage(folder, settings, nursery)
        nursery.cancel_scope.cancel()


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)
