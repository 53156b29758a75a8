"""A whole team in memory and in virtual time: the real supervisor, the real agents, no process.

Replaced are only the processes (each is a task), the sockets (`swarm.mailbox.delivery.pair`) and
the model
(a script for each path). The journal and its readers are the real ones, but they use no threads.
"""

import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import trio

from support.nested_fields import with_fields
from swarm.mailbox.base.entropy import SYSTEM_ENTROPY, EntropySources
from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.delivery.interfaces import Mailbox
from swarm.mailbox.delivery.pair import open_pair_server
from swarm.mailbox.protocol.items import (
    AnyItem,
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
)
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import AgentEnded, ItemRecorded, RunCompleted, RunStarted
from swarm.mailbox.protocol.spec import AgentSpec, RoleBrief
from swarm.mailbox.protocol.values.limits import Limits
from swarm.supervisor.agents.agent_directory import AgentDirectory
from swarm.supervisor.agents.agent_record import Agent, AgentPlan, GatewayAddress
from swarm.supervisor.agents.finished_agents import FinishedAgents
from swarm.supervisor.agents.life.agent_manager import AgentManager
from swarm.supervisor.agents.life.agent_start import StartServices
from swarm.supervisor.agents.slots import AgentRegistry
from swarm.supervisor.approvals.approval_grants import ApprovalGrants
from swarm.supervisor.approvals.queue.approval_queue import open_approval_queue
from swarm.supervisor.base.run_pauses import RunPauses
from swarm.supervisor.context.current_skills import CurrentSkills
from swarm.supervisor.context.event_broadcast import EventBroadcast
from swarm.supervisor.context.run_context import RunContext
from swarm.supervisor.context.run_phases import RunEvent
from swarm.supervisor.journal.journal import Journal, open_journal
from swarm.supervisor.journal.journal_reader import read_records, run_records
from swarm.supervisor.journal.replay import RunPast, fold_run
from swarm.supervisor.part_calls.run_folds import RunFolds
from swarm.supervisor.parts.copies.project_copies import ProjectCopies
from swarm.supervisor.parts.hosts.placement.remote_hosts import RemoteHosts
from swarm.supervisor.parts.mcp.mcp_requests import McpEndpoint
from swarm.supervisor.parts.mcp.run_hubs import RunHubs
from swarm.supervisor.parts.run_parts import RunParts
from swarm.supervisor.parts.undo.live.file_history import FileHistory
from swarm.supervisor.processes.process_types import ProcessEnd
from swarm.supervisor.request.run_request import RunRequest
from swarm.supervisor.routing.control_server import ControlledParts
from swarm.supervisor.routing.event_router import EventRouter, open_tables
from swarm.supervisor.routing.file_requests import FileRequests
from swarm.supervisor.routing.request_table import RequestTable
from swarm.supervisor.runs.paths import RunPaths
from swarm.supervisor.team.team_service import TeamService, run_team_service
from swarm.supervisor.views.run_state import RunState
from swarm.supervisor.workload.run_shutdown import RunShutdown
from swarm.supervisor.workload.task_workload import TaskWorkload
from swarm.worker.agent.agent_lifecycle import run_agent_lifecycle
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.policy.command_decision import Refuse
from swarm.worker.testing.agent_harness import END, FAKE_MODEL, FakeGateway, FakeToolHost, done
from swarm.worker.testing.fake_tools import FakeTool, FakeToolBehavior
from swarm.worker.tools.toolset import team_tools

Reply = Sequence[object]
Decide = Callable[[str, Sequence[AnyItem]], Reply]


@contextmanager
def without_threads(disk_s: float = 0.0) -> Iterator[None]:
    """What a thread would do is done in the loop, after `disk_s`: the clock waits for no thread."""
    usual = trio.to_thread.run_sync

    async def at_once(work, *arguments, **options):
        await trio.sleep(disk_s)
        return work(*arguments)

    trio.to_thread.run_sync = at_once
    try:
        yield
    finally:
        trio.to_thread.run_sync = usual


class TaskChild:
    """A `Child` that is a task."""

    warm = True

    def __init__(self) -> None:
        self.pid = os.getpid()  # an agent tells its real one
        self.scope = trio.CancelScope()
        self._ended, self._end = trio.Event(), ProcessEnd()

    async def wait_ended(self) -> ProcessEnd:
        await self._ended.wait()
        return self._end

    def end(self, number: int | None) -> None:
        if not self._ended.is_set():
            self._end = ProcessEnd(signal=number, reason=f"signal {number}" if number else "left")
            self._ended.set()

    @property
    def is_alive(self) -> bool:
        return not self._ended.is_set()

    def signal_group(self, number: int) -> None:
        self.scope.cancel()
        self.end(number)

    def kill_group(self) -> None:
        self.signal_group(signal.SIGKILL)


class Decided:
    """Replies derived from the history, so an agent that is killed loses none."""

    def __init__(self, gateway: FakeGateway, decide: Callable[[Sequence[AnyItem]], Reply]) -> None:
        self._gateway, self._decide = gateway, decide

    def pop(self, index: int) -> Reply:
        return self._decide(self._gateway.inputs[-1])


class TeamInMemory:
    """A run. `scripts` holds each agent's replies by path; each reply is used once."""

    def __init__(self, server, nursery: trio.Nursery, scripts: dict[str, list[Reply]]) -> None:
        self.server, self.nursery, self.scripts = server, nursery, scripts
        self.start_limiter = trio.CapacityLimiter(16)
        self.children: dict[str, list[TaskChild]] = {}
        self.decide: Decide | None = None  # instead of scripts
        self.lives: dict[str, list[tuple[AgentSpec, CurrentSpec]]] = {}  # by path, in order
        self.asked: dict[str, list[FakeGateway]] = {}  # likewise: what their models were asked
        self.mute: set[str] = set()  # paths whose processes never say anything
        self.running: RunContext
        self.starts: StartServices
        self.control: AgentManager
        self.service: TeamService
        self.ending: RunShutdown
        self.controlled: ControlledParts

    # --- stands in for the process manager --------------------------------------------------

    async def start(self, spec: AgentSpec, *, title: str, keys=None) -> TaskChild:
        child = TaskChild()
        self.children.setdefault(spec.path, []).append(child)
        if spec.path not in self.mute:
            self.nursery.start_soon(self._live, spec, child)
        return child

    async def _live(self, spec: AgentSpec, child: TaskChild) -> None:
        with child.scope:
            async with open_pair_server(epoch=1) as gateways, trio.open_nursery() as nursery:
                gateways.admit(spec.identity, epoch=spec.epoch)
                gateway = FakeGateway(gateways, (), FAKE_MODEL)
                gateway._replies = self.scripts.setdefault(spec.path, [])
                if self.decide is not None:
                    gateway._replies = Decided(gateway, partial(self.decide, spec.path))
                self.asked.setdefault(spec.path, []).append(gateway)
                nursery.start_soon(gateway.run)
                mailbox = self.server.connect(spec.identity, epoch=spec.epoch)
                tools = (
                    FakeTool("work", FakeToolBehavior(seconds=10)),
                    FakeTool("forbidden", FORBIDDEN),
                    FakeTool("edit", FakeToolBehavior(changes=("/f",))),
                )
                tool_host = FakeToolHost(tools, partial(team_tools, None))
                current, dial = CurrentSpec(spec), partial(_dial, gateways, spec)
                self.lives.setdefault(spec.path, []).append((spec, current))
                await run_agent_lifecycle(current, mailbox, dial, tool_host, EntropySources())
                nursery.cancel_scope.cancel()
        self.server.disconnect_child(spec.identity)
        child.end(None)

    # --- what a test says and sees ------------------------------------------------------------

    async def begin(self, *, text: str = "go", schema: bytes | None = None) -> None:
        """Start the root and give it its task."""
        plan = AgentPlan(
            path="/root",
            agent_id=new_uuid7(),
            role=RoleBrief(),
            limits=Limits(max_depth=9),
            cwd="/",
        )
        root = Agent(plan)
        await self.control.spawn(root)
        words = UserInput(input_id=new_uuid7(), parts=(TextInput(text=text),), output_schema=schema)
        await self.control.send_input(root, words)

    async def work(self, past: RunPast | None = None) -> RunCompleted:
        """The whole work of a run, with its order of ending; `past` of one that is resumed."""
        gateway_manager = SimpleNamespace(failed=trio.Event(), failure="", model=None)
        note = RunStarted(run_id="r", task="-", title="", cwd="/", version="", resumed=bool(past))
        self.running.note(note)
        parts = (self.running, self.control, self.service, gateway_manager, self.ending)
        work = TaskWorkload(*parts, past or RunPast())
        completed = await work.run()
        self.control.run_life.apply(RunEvent.END_BEGAN)
        self.service.close()
        await self.control.end_all()
        work.close()
        await self.running.commit(completed)
        return completed

    def past(self) -> RunPast:
        """What a resume knows of it."""
        return fold_run(run_records(self.running.paths))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Look ten times a virtual second."""
        while not holds():  # noqa: ASYNC110 — what a journal holds has no event
            await trio.sleep(0.1)

    def bodies(self, kind: type, agent: str | None = None) -> list:
        records = read_records(self.running.paths)
        return [one.body for one in records
                if isinstance(one.body, kind) and agent in (None, one.agent)]  # fmt: skip

    def outputs(self, agent: str = "/root") -> list[str]:
        items = [one.item for one in self.bodies(ItemRecorded, agent)]
        return [str(item.output) for item in items if isinstance(item, FunctionCallOutput)]

    def ends(self) -> dict[str, list[str]]:
        """Path → its end states, in order."""
        found: dict[str, list[str]] = {}
        for record in read_records(self.running.paths):
            if isinstance(record.body, AgentEnded):
                found.setdefault(record.agent, []).append(record.body.state)
        return found

    @property
    def alive(self) -> set[str]:
        return {path for path, lives in self.children.items() if lives[-1].is_alive}

    @property
    def slots(self) -> int:
        return self.running.agents.registry.used


@asynccontextmanager
async def open_team(
    folder: Path,
    scripts: dict[str, list[Reply]],
    *,
    disk_s: float = 0.0,
    entropy: EntropySources = SYSTEM_ENTROPY,
    **request: object,
) -> AsyncIterator[TeamInMemory]:
    """A run that has not begun; everything of it is gone after the block."""
    run_paths = RunPaths(folder=folder / "state/runs/run", sockets=folder / "runtime/s")
    for one in (run_paths.journal, run_paths.tmp, *run_paths.kept_apart):
        one.mkdir(parents=True, exist_ok=True)
    run_request = with_fields(RunRequest(cwd="/"), linger_s=0.0, **request)
    with without_threads(disk_s):
        async with (
            open_pair_server() as server,
            open_journal(run_paths) as journal,
            trio.open_nursery() as nursery,
        ):
            team = TeamInMemory(server, nursery, scripts)
            with closing(FinishedAgents(folder)) as archive:
                await _set_up(team, run_request, run_paths, journal, archive, entropy)
                yield team
            nursery.cancel_scope.cancel()


async def _set_up(
    team: TeamInMemory,
    run_request: RunRequest,
    run_paths: RunPaths,
    journal: Journal,
    archive: FinishedAgents,
    entropy: EntropySources,
) -> None:
    """What `supervisor/run.py` does, without gateway, budget service and display."""
    server, nursery = team.server, team.nursery
    registry = AgentRegistry(run_request.team.max_agents, archive=archive)
    view = SimpleNamespace(on_feed=lambda feed: None)
    folds = RunFolds(RunState())
    folds.read(run_paths)
    team.running = RunContext(
        run_id=new_uuid7(),
        run_key=b"k" * 32,
        request=run_request,
        paths=run_paths,
        mailbox=server,
        journal=journal,
        broadcast=EventBroadcast(
            RunState(), view, SimpleNamespace(watchers=0), redactor=journal.redactor
        ),
        agents=AgentDirectory(registry, archive),
        grants=ApprovalGrants(),
        skills=CurrentSkills(run_request),
        pauses=RunPauses(),
        copies=ProjectCopies(run_paths),
        hosts=RemoteHosts(),
        entropy=entropy,
    )
    parts = RunParts(run_request, run_paths, folds.parts)
    team.starts = StartServices(team, parts.rules_for, GatewayAddress())
    team.service = await nursery.start(run_team_service, team.running, team.starts, parts)
    team.control = team.service.agents
    team.ending = RunShutdown(
        team.control, team.service, nursery, keep_open=run_request.lifetime.keep_open
    )
    plan_of = team.running.agents.plan_of
    queue = open_approval_queue(
        team.running,
        nursery,
        team.control,
        plan_of,
        past=folds.approvals.past(),
        config=run_paths.folder,
    )
    hubs = RunHubs(team.running, team.starts, queue.broker, first_epoch=0)
    mcp = McpEndpoint(team.running, hubs, nursery)
    history = FileHistory(team.running, nursery)
    files = FileRequests(team.running, history, nursery)
    requests = RequestTable(files, team.service, queue.endpoint, mcp, team.service.parts)
    tables = open_tables(team.running, team.control, history, requests, nursery)
    router = EventRouter(team.running, team.control, (), tables)
    team.controlled = ControlledParts(
        team.control, team.service, team.ending, queue.answers, history
    )
    nursery.start_soon(router.run)


@asynccontextmanager
async def _connect(gateways, spec: AgentSpec) -> AsyncIterator[Mailbox]:
    mailbox = gateways.connect(spec.identity, epoch=spec.epoch)
    try:
        yield mailbox
    finally:
        gateways.disconnect_child(spec.identity)


def _dial(gateways, spec: AgentSpec, endpoint: str) -> AbstractAsyncContextManager[Mailbox]:
    return _connect(gateways, spec)


# --- replies -------------------------------------------------------------------------------------


def says(text: str) -> Reply:
    """A final answer."""
    part = OutputText(text=text)
    return (done(Message(role="assistant", content=(part,))), END)


def calls(*wanted: tuple[str, dict]) -> Reply:
    """Tool calls, each (name, arguments)."""
    items = [
        FunctionCall(call_id=new_uuid7(), name=name, arguments=json.dumps(arguments))
        for name, arguments in wanted
    ]
    return (*map(done, items), END)


def spawn(name: str, **more: object) -> tuple[str, dict]:
    return "spawn_agent", {"task_name": name, "message": f"be {name}", "fork_turns": "none", **more}


def wait(*targets: str, seconds: float = 600, mode: str = "all") -> tuple[str, dict]:
    wanted = {"targets": list(targets)} if targets else {}
    return "wait_agent", {**wanted, "for": mode, "timeout_ms": int(seconds * 1000)}


WORK = ("work", {})  # ten seconds
FORBIDDEN = FakeToolBehavior(verdict=Refuse(reason="nobody can approve it"))
