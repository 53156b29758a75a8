"""A whole tree in memory and in virtual time: the real supervisor, the real agents, no process.

Made up are only the processes (a life is a task), the sockets (the in-memory twin) and the model
(a script by path). The journal and its readers are the real ones, but they use no threads.
"""

import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import trio

from swarm.mailbox.chances import Chances
from swarm.mailbox.ids import new_uuid7
from swarm.mailbox.pair import open_pair_office
from swarm.mailbox.post import Mailbox
from swarm.mailbox.protocol.items import (
    AnyItem,
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
)
from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import AgentEnded, ItemRecorded, RunCompleted, RunStarted
from swarm.mailbox.protocol.spec import AgentSpec, RoleBrief
from swarm.supervisor.agency.agency import Agency, run_agency
from swarm.supervisor.agents import AgentPlan, Bound
from swarm.supervisor.approvals.grants import Grants
from swarm.supervisor.approvals.queue import Known, open_queue
from swarm.supervisor.console.reduce import RunState
from swarm.supervisor.control import Control
from swarm.supervisor.dispatch import Dispatch
from swarm.supervisor.ending import Ending
from swarm.supervisor.journal.reading import last_seq, read_records, run_records
from swarm.supervisor.journal.replay import RunPast, fold_run
from swarm.supervisor.journal.rollout import Journal, open_journal
from swarm.supervisor.places import RunPlaces
from swarm.supervisor.registry import AgentRegistry
from swarm.supervisor.request import RunRequest
from swarm.supervisor.running import Running
from swarm.supervisor.showing import Showing
from swarm.supervisor.spawner.base import Ended
from swarm.supervisor.waiting import WaitingRoom
from swarm.supervisor.work import Work
from swarm.worker.life import live
from swarm.worker.policy.decide import Refuse
from swarm.worker.props import Manner, PropTool
from swarm.worker.rehearsal import END, MODEL, Prompter, Props, done
from swarm.worker.tools.belt import team_tools

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
    """A Child that is a task."""

    pidfd, warm, said = -1, True, ""

    def __init__(self) -> None:
        self.pid = os.getpid()  # an agent tells its real one
        self.scope = trio.CancelScope()
        self._ended, self._end = trio.Event(), Ended()

    async def wait_ended(self) -> Ended:
        await self._ended.wait()
        return self._end

    def end(self, number: int | None) -> None:
        if not self._ended.is_set():
            self._end = Ended(signal=number, reason=f"signal {number}" if number else "left")
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
    """Replies that come from what stands in the history: a life that is killed loses none."""

    def __init__(self, prompter: Prompter, decide: Callable[[Sequence[AnyItem]], Reply]) -> None:
        self._prompter, self._decide = prompter, decide

    def pop(self, index: int) -> Reply:
        return self._decide(self._prompter.inputs[-1])


class Tree:
    """A run. `scripts` holds each agent's replies by path; what is said is used up."""

    def __init__(self, office, nursery: trio.Nursery, scripts: dict[str, list[Reply]]) -> None:
        self.office, self.nursery, self.scripts = office, nursery, scripts
        self.births = trio.CapacityLimiter(16)
        self.children: dict[str, list[TaskChild]] = {}
        self.decide: Decide | None = None  # instead of scripts
        self.lives: dict[str, list[tuple[AgentSpec, Props]]] = {}  # by path, in order
        self.asked: dict[str, list[Prompter]] = {}  # likewise: what their models were asked
        self.mute: set[str] = set()  # paths whose processes never say anything
        self.running: Running
        self.control: Control
        self.agency: Agency
        self.ending: Ending

    # --- the household ----------------------------------------------------------------------

    async def start(self, spec: AgentSpec, *, title: str, keys=None) -> TaskChild:
        child = TaskChild()
        self.children.setdefault(spec.path, []).append(child)
        if spec.path not in self.mute:
            self.nursery.start_soon(self._live, spec, child)
        return child

    async def _live(self, spec: AgentSpec, child: TaskChild) -> None:
        with child.scope:
            async with open_pair_office(epoch=1) as gateways, trio.open_nursery() as nursery:
                gateways.admit(spec.identity, epoch=spec.epoch)
                prompter = Prompter(gateways, (), MODEL)
                prompter._replies = self.scripts.setdefault(spec.path, [])
                if self.decide is not None:
                    prompter._replies = Decided(prompter, partial(self.decide, spec.path))
                self.asked.setdefault(spec.path, []).append(prompter)
                nursery.start_soon(prompter.run)
                mailbox = self.office.connect(spec.identity, epoch=spec.epoch)
                tools = (PropTool("work", Manner(seconds=10)), PropTool("forbidden", FORBIDDEN))
                props = Props(tools, partial(team_tools, None))
                self.lives.setdefault(spec.path, []).append((spec, props))
                await live(spec, mailbox, partial(_dial, gateways, spec), props, Chances())
                nursery.cancel_scope.cancel()
        self.office.sever(spec.identity)
        child.end(None)

    # --- what a test says and sees ------------------------------------------------------------

    async def begin(self, *, text: str = "go", schema: bytes | None = None) -> None:
        """The root lives and has its task."""
        plan = AgentPlan(
            path="/root",
            agent_id=new_uuid7(),
            role=RoleBrief(),
            limits=Limits(max_depth=9),
            cwd="/",
        )
        root = await self.control.spawn(plan)
        words = UserInput(input_id=new_uuid7(), parts=(TextInput(text=text),), output_schema=schema)
        await self.control.say(root, words)

    async def work(self, past: RunPast | None = None) -> RunCompleted:
        """The whole work of a run, with its order of ending; `past` of one that is resumed."""
        keeper = SimpleNamespace(failed=trio.Event(), failure="", model=None)
        note = RunStarted(run_id="r", task="-", title="", cwd="/", version="", resumed=bool(past))
        self.running.note(note)
        parts = (self.running, self.control, self.agency, keeper, self.ending)
        work = Work(*parts, past or RunPast())
        completed = await work.run()
        self.control.end_of_run.has_begun = True
        self.agency.close()
        await self.control.end_all()
        work.close()
        await self.running.commit(completed)
        return completed

    def past(self) -> RunPast:
        """What a resume knows of it."""
        return fold_run(run_records(self.running.places))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Look ten times a virtual second."""
        while not holds():  # noqa: ASYNC110 — what a journal holds has no event
            await trio.sleep(0.1)

    def bodies(self, kind: type, agent: str | None = None) -> list:
        records = read_records(self.running.places)
        return [one.body for one in records
                if isinstance(one.body, kind) and agent in (None, one.agent)]  # fmt: skip

    def outputs(self, agent: str = "/root") -> list[str]:
        items = [one.item for one in self.bodies(ItemRecorded, agent)]
        return [str(item.output) for item in items if isinstance(item, FunctionCallOutput)]

    def ends(self) -> dict[str, list[str]]:
        """Path → its end states, in order."""
        found: dict[str, list[str]] = {}
        for record in read_records(self.running.places):
            if isinstance(record.body, AgentEnded):
                found.setdefault(record.agent, []).append(record.body.state)
        return found

    @property
    def alive(self) -> set[str]:
        return {path for path, lives in self.children.items() if lives[-1].is_alive}

    @property
    def slots(self) -> int:
        return self.running.registry.used


@asynccontextmanager
async def open_tree(
    folder: Path, scripts: dict[str, list[Reply]], *, disk_s: float = 0.0, **request: object
) -> AsyncIterator[Tree]:
    """A run that has not begun; everything of it is gone after the block."""
    places = RunPlaces(folder=folder, sockets=folder / "s")
    for one in (places.journal, places.tmp):
        one.mkdir(exist_ok=True)
    wish = RunRequest(cwd="/", linger_s=0.0, **request)
    with without_threads(disk_s):
        async with (
            open_pair_office() as office,
            open_journal(places, last_seq=last_seq(places)) as journal,
            trio.open_nursery() as nursery,
        ):
            tree = Tree(office, nursery, scripts)
            await _set_up(tree, wish, places, journal)
            yield tree
            nursery.cancel_scope.cancel()


async def _set_up(tree: Tree, wish: RunRequest, places: RunPlaces, journal: Journal) -> None:
    """What `supervisor.py` does, without gateway, treasury and view."""
    office, nursery = tree.office, tree.nursery
    registry = AgentRegistry(wish.max_agents)
    view = SimpleNamespace(on_feed=lambda feed: None)
    tree.running = Running(
        run_id=new_uuid7(),
        run_key=b"k" * 32,
        request=wish,
        places=places,
        office=office,
        journal=journal,
        showing=Showing(RunState(), view, SimpleNamespace(watchers=0), redactor=journal.redactor),
        household=tree,
        registry=registry,
        room=WaitingRoom(registry),
        grants=Grants(),
    )
    tree.control = Control(tree.running, nursery, Bound())
    tree.agency = await nursery.start(run_agency, tree.running, tree.control)
    tree.ending = Ending(tree.control, nursery)
    keeper = SimpleNamespace(is_gateway=lambda peer: False)
    agents = tree.control.agents
    known = Known(plan=tree.agency.plan_of, life=agents.get, lives=agents.values)
    queue = open_queue(tree.running, nursery, known, config=places.folder, resumed=False)
    dispatch = Dispatch(tree.running, tree.control, keeper, tree.agency, queue.desk, nursery)
    nursery.start_soon(dispatch.run)


@asynccontextmanager
async def _connect(gateways, spec: AgentSpec) -> AsyncIterator[Mailbox]:
    mailbox = gateways.connect(spec.identity, epoch=spec.epoch)
    try:
        yield mailbox
    finally:
        gateways.sever(spec.identity)


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
FORBIDDEN = Manner(verdict=Refuse(reason="nobody can approve it"))
