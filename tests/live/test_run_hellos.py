"""Births that go wrong: whoever is not who he says is ended, and no slot is lost by it.

The journal, the post's desk, control and dispatch are the real ones; only the process is made up,
so that it can lie. `lives` holds what each life does in place of a program.
"""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import trio

from swarm.mailbox.ids import new_uuid7
from swarm.mailbox.pair import open_pair_server
from swarm.mailbox.protocol.base import PROTOCOL_VERSION
from swarm.mailbox.protocol.events import Hello, encode_event
from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import AgentEnded, ProcessEnded
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.supervisor.agents.agent_directory import AgentDirectory
from swarm.supervisor.agents.agent_manager import AgentManager
from swarm.supervisor.agents.agent_record import Agent, AgentPlan, GatewayAddress
from swarm.supervisor.agents.finished_agents import FinishedAgents
from swarm.supervisor.agents.slots import AgentRegistry
from swarm.supervisor.approvals.approval_grants import ApprovalGrants
from swarm.supervisor.console.run_state import RunState
from swarm.supervisor.event_broadcast import EventBroadcast
from swarm.supervisor.event_router import EventRouter
from swarm.supervisor.journal.journal import open_journal
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.mcp.hub_manager import HubManager
from swarm.supervisor.mcp.mcp_requests import McpEndpoint
from swarm.supervisor.processes.process_types import ProcessEnd, SpawnError
from swarm.supervisor.run_context import RunContext
from swarm.supervisor.run_request import RunRequest
from swarm.supervisor.runs.paths import RunPaths

PLAN = AgentPlan(path="/root", agent_id=new_uuid7(), role=RoleBrief(), limits=Limits(), cwd="/")
LIMIT_S = 10


class Puppet:
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


Life = Callable[["Stage", object, Puppet], Awaitable[None]]


class Stage:
    """A running supervisor's insides. The last of `lives` is every further life's as well."""

    running: RunContext

    def __init__(self, office, nursery: trio.Nursery, lives: list[Life]) -> None:
        self.office, self._nursery, self._lives = office, nursery, lives
        self.start_limiter = trio.CapacityLimiter(4)
        self.puppets: list[Puppet] = []

    async def start(self, spec, *, title: str, keys=None) -> Puppet:
        puppet = Puppet(pid=1000 + len(self.puppets))
        self.puppets.append(puppet)
        life = self._lives.pop(0) if len(self._lives) > 1 else self._lives[0]
        self._nursery.start_soon(life, self, spec, puppet)
        return puppet

    async def say(self, spec, puppet: Puppet, *hellos: dict) -> None:
        """Connect as this life and say these Hellos; {} is the true one."""
        mailbox = self.office.connect(spec.identity, epoch=spec.epoch)
        for lie in hellos:
            told = {"secret": spec.secret, "pid": puppet.pid, "protocol_version": PROTOCOL_VERSION}
            await mailbox.post(encode_event(Hello(**{**told, **lie})))


@asynccontextmanager
async def stage(tmp_path, *lives: Life) -> AsyncIterator[tuple[Stage, AgentManager]]:
    places = RunPaths(folder=tmp_path, sockets=tmp_path / "s")
    for folder in (places.journal, places.tmp):
        folder.mkdir()
    feed = SimpleNamespace(watchers=0)
    view = SimpleNamespace(on_feed=lambda feed: None)
    async with (
        open_pair_server() as office,
        open_journal(places) as journal,
        trio.open_nursery() as nursery,
    ):
        on = Stage(office, nursery, list(lives))
        registry, archive = AgentRegistry(4), FinishedAgents(tmp_path)
        running = RunContext(
            run_id=new_uuid7(),
            run_key=b"k" * 32,
            request=RunRequest(cwd="/"),
            paths=places,
            mailbox=office,
            journal=journal,
            broadcast=EventBroadcast(RunState(slots_max=4), view, feed, redactor=journal.redactor),
            processes=on,
            registry=registry,
            agents=AgentDirectory(registry, archive),
            grants=ApprovalGrants(),
        )
        on.running = running
        control = AgentManager(running, nursery, GatewayAddress())
        agency = SimpleNamespace()  # nobody asks it anything here
        desk = SimpleNamespace(withdraw=lambda agent: None)  # likewise
        mcp = McpEndpoint(running, HubManager(running, first_epoch=0), nursery)
        router = EventRouter(running, control, (), agency, desk, mcp, nursery)
        nursery.start_soon(router.run)
        yield on, control
        nursery.cancel_scope.cancel()


async def honest(on: Stage, spec, puppet: Puppet) -> None:
    await on.say(spec, puppet, {})


async def silent(on: Stage, spec, puppet: Puppet) -> None:
    pass


async def short(on: Stage, spec, puppet: Puppet) -> None:
    puppet.end("left with exit code 3")


def lying(**lie: object) -> Life:
    async def life(on: Stage, spec, puppet: Puppet) -> None:
        await on.say(spec, puppet, lie)

    return life


def borrowing(on: Stage, spec, puppet: Puppet) -> Awaitable[None]:
    """The secret of another agent of this very run."""
    other = on.running.supervisor_proof(b"a/another/1")
    return on.say(spec, puppet, {"secret": other})


async def twice(on: Stage, spec, puppet: Puppet) -> None:
    await on.say(spec, puppet, {}, {})


async def until(fact: Callable[[], bool]) -> None:
    """Let others run until the fact is true; the caller sets the deadline."""
    while True:
        if fact():
            return
        await trio.sleep(0.001)


def bodies(on: Stage, kind: type) -> list:
    records = read_records(on.running.paths)
    return [record.body for record in records if isinstance(record.body, kind)]


@pytest.mark.parametrize(
    "life",
    [lying(secret=b"guessed"), lying(pid=7), lying(protocol_version=0), borrowing, short],
    ids=["secret", "pid", "version", "identity", "death"],
)
async def test_a_birth_without_a_true_hello_starts_nothing(tmp_path, life):
    async with stage(tmp_path, life) as (on, control):
        with trio.fail_after(LIMIT_S), pytest.raises(SpawnError):
            await control.spawn(Agent(PLAN))
        assert on.running.registry.used == 0
        assert control.agents == {}
        assert on.puppets[0]._ended.is_set()


async def test_births_without_any_word_end_at_their_deadlines(tmp_path, autojump_clock):
    async with stage(tmp_path, silent) as (on, control):
        with trio.fail_after(4 * 11), pytest.raises(SpawnError, match="did not answer"):
            await control.spawn(Agent(PLAN))  # the first, and three more by the rule of restarts
        assert on.running.registry.used == 0
        assert [puppet.was_killed for puppet in on.puppets] == [True] * 4


async def test_a_second_hello_ends_the_life_and_the_agent_gets_another(tmp_path):
    async with stage(tmp_path, twice, honest) as (on, control):
        with trio.fail_after(LIMIT_S):
            agent = Agent(PLAN)
            await control.spawn(agent)
            await until(lambda: agent.epoch == 2 and agent.process.hello.is_set())
        assert [puppet.was_killed for puppet in on.puppets] == [True, False]
        assert control.agents == {"/root": agent}
        assert on.running.registry.used == 1
        await on.running.journal.flush()
        assert "hello" in bodies(on, ProcessEnded)[0].reason


async def test_a_cancelled_birth_leaves_no_agent_no_slot_and_nobody_waiting(tmp_path):
    async with stage(tmp_path, silent) as (on, control):
        with trio.fail_after(LIMIT_S):
            with trio.move_on_after(0.05):
                await control.spawn(Agent(PLAN))
            assert on.puppets[0].was_killed
            assert (control.agents, on.running.registry.used) == ({}, 0)
            await control.end_all()


async def test_an_end_that_comes_during_a_rebirth_is_the_end(tmp_path):
    async with stage(tmp_path, honest, silent) as (on, control):
        with trio.fail_after(LIMIT_S):
            agent = Agent(PLAN)
            await control.spawn(agent)
            on.puppets[0].end("killed by SIGKILL", 9)
            await until(lambda: len(on.puppets) == 2)
            async with trio.open_nursery() as nursery:
                agent.request_end("killed")
                nursery.start_soon(control.end, agent)
                await until(lambda: agent.wanted_end == "killed")
                await on.say(SimpleNamespace(**identity_of(on, agent)), on.puppets[1], {})
        assert agent.gone.is_set()
        assert on.puppets[1].was_killed
        assert control.agents == {}
        assert on.running.registry.used == 0


async def test_ctrl_c_between_two_lives_is_not_lost(tmp_path):
    async with stage(tmp_path, honest) as (on, control):
        with trio.fail_after(LIMIT_S):
            agent = Agent(PLAN)
            await control.spawn(agent)
            words = UserInput(input_id=new_uuid7(), parts=(TextInput(text="work"),))
            await control.send_input(agent, words)
            on.puppets[0].end("killed by SIGKILL", 9)
            await until(lambda: not on.running.registry.used)
            await control.interrupt([agent], "Ctrl-C")
            await agent.done.wait()
        assert len(on.puppets) == 1
        await on.running.journal.flush()
        assert [end.state for end in bodies(on, AgentEnded)] == ["interrupted"]


def identity_of(on: Stage, agent) -> dict:
    return {
        "identity": agent.identity,
        "epoch": agent.epoch,
        "secret": on.running.supervisor_proof(agent.identity),
    }
