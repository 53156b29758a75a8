"""Starts that go wrong: a process that is not what its Hello says is killed, and no slot is lost.

Journal, mailbox, agent manager and event router are the real ones; only the process is made up, so
that it can lie. `lives` holds what each process does in place of a program.
"""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import trio

from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.delivery.pair import open_pair_server
from swarm.mailbox.protocol.events import Hello, encode_event
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import AgentEnded, ProcessEnded
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.base import PROTOCOL_VERSION
from swarm.mailbox.protocol.values.limits import Limits
from swarm.supervisor.agents.agent_directory import AgentDirectory
from swarm.supervisor.agents.agent_record import Agent, AgentPlan, GatewayAddress
from swarm.supervisor.agents.finished_agents import FinishedAgents
from swarm.supervisor.agents.life.agent_manager import AgentManager
from swarm.supervisor.agents.life.agent_start import StartServices
from swarm.supervisor.agents.slots import AgentRegistry
from swarm.supervisor.approvals.approval_grants import ApprovalGrants
from swarm.supervisor.base.run_pauses import RunPauses
from swarm.supervisor.context.current_skills import CurrentSkills
from swarm.supervisor.context.event_broadcast import EventBroadcast
from swarm.supervisor.context.run_context import RunContext
from swarm.supervisor.journal.journal import open_journal
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.parts.copies.project_copies import ProjectCopies
from swarm.supervisor.parts.hosts.placement.remote_hosts import RemoteHosts
from swarm.supervisor.parts.mcp.mcp_requests import McpEndpoint
from swarm.supervisor.parts.mcp.run_hubs import RunHubs
from swarm.supervisor.parts.run_parts import PartFolds, RunParts
from swarm.supervisor.parts.undo.live.file_history import FileHistory
from swarm.supervisor.processes.process_types import ProcessEnd, SpawnError
from swarm.supervisor.request.run_request import RunRequest
from swarm.supervisor.routing.event_router import EventRouter, open_tables
from swarm.supervisor.routing.file_requests import FileRequests
from swarm.supervisor.routing.request_table import RequestTable
from swarm.supervisor.runs.paths import RunPaths
from swarm.supervisor.views.run_state import RunState

PLAN = AgentPlan(path="/root", agent_id=new_uuid7(), role=RoleBrief(), limits=Limits(), cwd="/")
LIMIT_S = 10


class FakeProcess:
    """A Child that is no process."""

    warm = True

    def __init__(self, pid: int) -> None:
        self.pid, self.was_killed = pid, False
        self._ended, self._end = trio.Event(), ProcessEnd()

    async def wait_ended(self) -> ProcessEnd:
        await self._ended.wait()
        return self._end

    def end(self, reason: str, number: int | None = None) -> None:
        if not self._ended.is_set():
            self._end = ProcessEnd(signal=number, reason=reason)
            self._ended.set()

    def signal_group(self, number: int) -> None:
        self.end(f"killed by {number}", number)

    def kill_group(self) -> None:
        self.was_killed = True
        self.signal_group(signal.SIGKILL)


Life = Callable[["SupervisorParts", object, FakeProcess], Awaitable[None]]


class SupervisorParts:
    """A running supervisor's insides. The last of `lives` is every further life's as well."""

    running: RunContext

    def __init__(self, server, nursery: trio.Nursery, lives: list[Life]) -> None:
        self.server, self._nursery, self._lives = server, nursery, lives
        self.start_limiter = trio.CapacityLimiter(4)
        self.processes: list[FakeProcess] = []

    async def start(self, spec, *, title: str, keys=None) -> FakeProcess:
        process = FakeProcess(pid=1000 + len(self.processes))
        self.processes.append(process)
        life = self._lives.pop(0) if len(self._lives) > 1 else self._lives[0]
        self._nursery.start_soon(life, self, spec, process)
        return process

    async def say(self, spec, process: FakeProcess, *hellos: dict) -> None:
        """Connect as this life and say these Hellos; {} is the true one."""
        mailbox = self.server.connect(spec.identity, epoch=spec.epoch)
        for lie in hellos:
            told = {"secret": spec.secret, "pid": process.pid, "protocol_version": PROTOCOL_VERSION}
            await mailbox.post(encode_event(Hello(**{**told, **lie})))


@asynccontextmanager
async def supervisor_parts(
    tmp_path, *lives: Life
) -> AsyncIterator[tuple[SupervisorParts, AgentManager]]:
    places = RunPaths(folder=tmp_path, sockets=tmp_path / "s")
    for folder in (places.journal, places.tmp, *places.kept_apart):
        folder.mkdir(exist_ok=True)
    feed = SimpleNamespace(watchers=0)
    view = SimpleNamespace(on_feed=lambda feed: None)
    async with (
        open_pair_server() as server,
        open_journal(places) as journal,
        trio.open_nursery() as nursery,
    ):
        on = SupervisorParts(server, nursery, list(lives))
        registry, archive = AgentRegistry(4), FinishedAgents(tmp_path)
        running = RunContext(
            run_id=new_uuid7(),
            run_key=b"k" * 32,
            request=RunRequest(cwd="/"),
            paths=places,
            mailbox=server,
            journal=journal,
            broadcast=EventBroadcast(RunState(slots_max=4), view, feed, redactor=journal.redactor),
            agents=AgentDirectory(registry, archive),
            grants=ApprovalGrants(),
            skills=CurrentSkills(RunRequest(cwd="/")),
            pauses=RunPauses(),
            copies=ProjectCopies(places),
            hosts=RemoteHosts(),
        )
        on.running = running
        parts = RunParts(RunRequest(cwd="/"), places, PartFolds())
        starts = StartServices(on, parts.rules_for, GatewayAddress())
        control = AgentManager(running, nursery, starts)
        agency = SimpleNamespace()  # nobody asks it anything here
        endpoint = SimpleNamespace(withdraw=lambda agent: None)  # likewise
        hubs = RunHubs(running, starts, endpoint, first_epoch=0)
        mcp = McpEndpoint(running, hubs, nursery)
        history = FileHistory(running, nursery)
        files = FileRequests(running, history, nursery)
        requests = RequestTable(files, agency, endpoint, mcp, agency)
        tables = open_tables(running, control, history, requests, nursery)
        router = EventRouter(running, control, (), tables)
        nursery.start_soon(router.run)
        yield on, control
        nursery.cancel_scope.cancel()


async def honest(on: SupervisorParts, spec, process: FakeProcess) -> None:
    await on.say(spec, process, {})


async def silent(on: SupervisorParts, spec, process: FakeProcess) -> None:
    pass


async def short(on: SupervisorParts, spec, process: FakeProcess) -> None:
    process.end("left with exit code 3")


def lying(**lie: object) -> Life:
    async def life(on: SupervisorParts, spec, process: FakeProcess) -> None:
        await on.say(spec, process, lie)

    return life


def borrowing(on: SupervisorParts, spec, process: FakeProcess) -> Awaitable[None]:
    """The secret of another agent of this very run."""
    other = on.running.supervisor_proof(b"a/another/1")
    return on.say(spec, process, {"secret": other})


async def twice(on: SupervisorParts, spec, process: FakeProcess) -> None:
    await on.say(spec, process, {}, {})


async def until(fact: Callable[[], bool]) -> None:
    """Let others run until the fact is true; the caller sets the deadline."""
    while True:
        if fact():
            return
        await trio.sleep(0.001)


def bodies(on: SupervisorParts, kind: type) -> list:
    records = read_records(on.running.paths)
    return [record.body for record in records if isinstance(record.body, kind)]


@pytest.mark.parametrize(
    "life",
    [lying(secret=b"guessed"), lying(pid=7), lying(protocol_version=0), borrowing, short],
    ids=["secret", "pid", "version", "identity", "death"],
)
async def test_a_start_without_a_true_hello_starts_nothing(tmp_path, life):
    async with supervisor_parts(tmp_path, life) as (on, control):
        with trio.fail_after(LIMIT_S), pytest.raises(SpawnError):
            await control.spawn(Agent(PLAN))
        assert on.running.agents.registry.used == 0
        assert control.agents == {}
        assert on.processes[0]._ended.is_set()


async def test_starts_without_any_word_end_at_their_deadlines(tmp_path, autojump_clock):
    async with supervisor_parts(tmp_path, silent) as (on, control):
        with trio.fail_after(4 * 11), pytest.raises(SpawnError, match="did not answer"):
            await control.spawn(Agent(PLAN))  # the first, and three more by the rule of restarts
        assert on.running.agents.registry.used == 0
        assert [process.was_killed for process in on.processes] == [True] * 4


async def test_a_second_hello_ends_the_life_and_the_agent_gets_another(tmp_path):
    async with supervisor_parts(tmp_path, twice, honest) as (on, control):
        with trio.fail_after(LIMIT_S):
            agent = Agent(PLAN)
            await control.spawn(agent)
            await until(lambda: agent.epoch == 2 and agent.process.hello.is_set())
        assert [process.was_killed for process in on.processes] == [True, False]
        assert control.agents == {"/root": agent}
        assert on.running.agents.registry.used == 1
        await on.running.journal.flush()
        assert "hello" in bodies(on, ProcessEnded)[0].reason


async def test_a_cancelled_start_leaves_no_agent_no_slot_and_nobody_waiting(tmp_path):
    async with supervisor_parts(tmp_path, silent) as (on, control):
        with trio.fail_after(LIMIT_S):
            with trio.move_on_after(0.05):
                await control.spawn(Agent(PLAN))
            assert on.processes[0].was_killed
            assert (control.agents, on.running.agents.registry.used) == ({}, 0)
            await control.end_all()


async def test_an_end_that_comes_during_a_rebirth_is_the_end(tmp_path):
    async with supervisor_parts(tmp_path, honest, silent) as (on, control):
        with trio.fail_after(LIMIT_S):
            agent = Agent(PLAN)
            await control.spawn(agent)
            on.processes[0].end("killed by SIGKILL", 9)
            await until(lambda: len(on.processes) == 2)
            async with trio.open_nursery() as nursery:
                agent.request_end("killed")
                nursery.start_soon(control.end, agent)
                await until(lambda: agent.wanted_end == "killed")
                await on.say(SimpleNamespace(**identity_of(on, agent)), on.processes[1], {})
        assert agent.gone.is_set()
        assert on.processes[1].was_killed
        assert control.agents == {}
        assert on.running.agents.registry.used == 0


async def test_ctrl_c_between_two_lives_is_not_lost(tmp_path):
    async with supervisor_parts(tmp_path, honest) as (on, control):
        with trio.fail_after(LIMIT_S):
            agent = Agent(PLAN)
            await control.spawn(agent)
            words = UserInput(input_id=new_uuid7(), parts=(TextInput(text="work"),))
            await control.send_input(agent, words)
            on.processes[0].end("killed by SIGKILL", 9)
            await until(lambda: not on.running.agents.registry.used)
            await control.interrupt([agent], "Ctrl-C")
            await agent.done.wait()
        assert len(on.processes) == 1
        await on.running.journal.flush()
        assert [end.state for end in bodies(on, AgentEnded)] == ["interrupted"]


def identity_of(on: SupervisorParts, agent) -> dict:
    return {
        "identity": agent.identity,
        "epoch": agent.epoch,
        "secret": on.running.supervisor_proof(agent.identity),
    }
