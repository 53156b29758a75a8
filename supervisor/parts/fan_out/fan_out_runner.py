"""Runs a fan-out: one agent per item, in order, as slots come free.

Each failure is recorded and stops no other item. Memory holds the plan, not the finished items: an
item's agent is forgotten when its process has ended, and only the journal has its answer.
"""

import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

import msgspec
import trio

from swarm.mailbox.base.ids import ROOT_PATH, child_path
from swarm.mailbox.contents.context_markers import ANSWERS_END, ANSWERS_START
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    EndState,
    FanOutItemEnded,
    FanOutPlanned,
    InputPosted,
    ItemRecorded,
)
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import Budget, Limits

from ...agents.agent_record import Agent, AgentPlan
from ...agents.life.agent_manager import AgentManager
from ...base.file_excerpts import split_evenly
from ...context.run_context import RunContext
from ...journal.journal_reader import read_records, run_records_from
from ...journal.replay import RunPast
from ...processes.process_types import SpawnError
from ...request.run_request import FanOut
from ...runs.paths import RunPaths
from .fan_out_items import item_prompt

_SEGMENT_CHARS = 40


_ANSWERED_BEFORE, _ANSWERED_NOW = 1, 2


class _Begun:
    """An item that has begun and has no end in the journal yet."""

    def __init__(self) -> None:
        self.path, self.attempt = "", 0
        self.agent: Agent | None = None  # of its last attempt, once started


class ItemAnswer(Value):
    """The outcome of one item."""

    item: str
    state: EndState
    result: str


def name_items(items: tuple[str, ...]) -> tuple[str, ...]:
    """A path segment for each item: readable, unique, in order.

    `src/Foo Bar.py` → `src_foo_bar_py`; a second item with that name gets `_2`.
    """
    taken: set[str] = set()
    names: list[str] = []
    for number, item in enumerate(items, 1):
        plain = re.sub(r"[^a-z0-9]+", "_", item.lower()).strip("_")[-_SEGMENT_CHARS:].strip("_")
        base = plain if plain and plain != "root" else f"item_{number}"
        name, copy = base, 2
        while name in taken:
            name, copy = f"{base}_{copy}", copy + 1
        taken.add(name)
        names.append(name)
    return tuple(names)


class FanOutRunner:
    """Runs the items of one fan-out. Made once per run, also by a resume."""

    def __init__(
        self,
        running: RunContext,
        agents: AgentManager,
        fan_out: FanOut,
        limits: Limits,
        *,
        root_id: str = "",
    ) -> None:
        self._run, self._agents, self._fan, self._limits = running, agents, fan_out, limits
        self._unread_inputs: UnreadInputs = {}
        self._root_id = root_id
        self._names = name_items(fan_out.items)
        self._begun: dict[int, _Begun] = {}  # by index
        self._answered = bytearray(len(fan_out.items))  # _ANSWERED_… per item, 0 = no answer
        self._failed: set[int] = set()  # items whose last attempt did not complete
        self._budget_spent = False  # the run's: another item would get no request

    async def run(
        self, ended_before: dict[int, FanOutItemEnded], cut_off: tuple[str, ...] = ()
    ) -> None:
        """Run every item that did not complete before.

        Args:
            ended_before: By index; from earlier parts of the run.
            cut_off: Ids of the agents whose items began in an earlier part and did not end.
        """
        if cut_off:
            read = partial(find_unread_inputs, self._run.paths, cut_off)
            self._unread_inputs = await trio.to_thread.run_sync(read)
        slots = self._run.agents.registry.max_agents
        wanted = min(self._fan.concurrency or slots, slots, max(1, len(self._fan.items)))
        self._run.note(
            FanOutPlanned(
                items=self._fan.items,
                names=self._names,
                role=self._fan.role,
                concurrency=wanted,
                root_id=self._root_id,
            )
        )
        for index, end in ended_before.items():
            if end.state == "completed" and index < len(self._answered):
                self._answered[index] = _ANSWERED_BEFORE
        todo = (index for index in range(len(self._fan.items)) if not self._answered[index])
        async with trio.open_nursery() as nursery:
            for _ in range(wanted):
                nursery.start_soon(self._run_worker, todo)

    @property
    def items(self) -> int:
        return len(self._fan.items)

    @property
    def failed_items(self) -> int:
        """How many items ended without an answer."""
        return len(self._failed)

    @property
    def _is_stopping(self) -> bool:
        """True: no other item begins; a resume runs the rest."""
        return self._budget_spent or self._agents.run_life.is_ending

    async def answers(self, *, only_fresh: bool, past: RunPast) -> list[ItemAnswer]:
        """The items' answers, in item order, read from the journal once, at the end.

        Args:
            only_fresh: Leave out what was completed in an earlier part of the run.
            past: That earlier part; only what was written since is read.
        """
        await self._run.journal.flush()
        read = partial(self._read_answers, only_fresh=only_fresh, past=past)
        return await trio.to_thread.run_sync(read)

    def _read_answers(self, *, only_fresh: bool, past: RunPast) -> list[ItemAnswer]:
        wanted = {_ANSWERED_NOW} if only_fresh else {_ANSWERED_NOW, _ANSWERED_BEFORE}
        found: dict[int, ItemAnswer] = {}
        since = (one.body for one in run_records_from(self._run.paths, past.own_bytes))
        for end in chain(past.fan_ended.values(), since):
            if not isinstance(end, FanOutItemEnded) or end.index >= len(self._answered):
                continue
            if self._answered[end.index] in wanted:  # the newest answer of an item comes last
                found[end.index] = ItemAnswer(item=end.item, state=end.state, result=end.result)
        return [found[index] for index in sorted(found)]

    async def _run_worker(self, todo: Iterator[int]) -> None:
        for index in todo:
            if self._is_stopping:
                return
            await self._run_item(index)
            self._answered[index] = _ANSWERED_NOW

    async def _run_item(self, index: int) -> None:
        begun = self._begun[index] = _Begun()
        state: EndState = "failed"
        result = ""
        for begun.attempt in range(1, self._fan.retries + 2):
            state, result = await self._attempt(index, begun)
            if state == "budget" and self._limits.budget == Budget():
                self._budget_spent = True
            if state in {"completed", "interrupted", "killed"} or self._is_stopping:
                break
        self._note_end(index, state, result)

    def close(self) -> None:
        """Every agent has ended: journal the ends of the items that the run's end cut off."""
        for index, begun in tuple(self._begun.items()):
            outcome = begun.agent.present_outcome if begun.agent is not None else None
            if outcome is None:
                self._note_end(index, "interrupted", "the run ended before it was done")
            else:
                self._note_end(index, *_check_answer(outcome, self._fan))

    def _note_end(self, index: int, state: EndState, result: str) -> None:
        begun = self._begun.pop(index)
        if state not in {"completed", "interrupted"}:
            self._failed.add(index)
        self._run.note(
            FanOutItemEnded(
                index=index,
                item=self._fan.items[index],
                agent=begun.path,
                state=state,
                result=result,
                attempt=begun.attempt,
            )
        )

    async def _attempt(self, index: int, begun: _Begun) -> tuple[EndState, str]:
        plan = self._plan(index, begun.attempt)
        begun.path, begun.agent = plan.path, None
        agent = Agent(plan)
        try:
            await self._agents.spawn(agent)
        except SpawnError as error:
            return "crashed", str(error)
        begun.agent = agent
        task = item_prompt(self._fan, index)
        message = UserInput(
            input_id=self._run.entropy.new_id(),
            parts=(TextInput(text=task),),
            output_schema=_schema(self._fan),
        )
        if self._is_stopping:  # the run was interrupted during its start
            agent.request_end("interrupted")
        else:
            await self._agents.send_input(agent, message, source="fan_out")
            for said in self._unread_inputs.pop(task, ()):
                again = UserInput(input_id=said.input_id, parts=said.parts)
                await self._agents.send_input(agent, again, source="person")
        return _check_answer(await self._wait_outcome(agent), self._fan)

    async def _wait_outcome(self, agent: Agent) -> AgentEnded:
        """The agent's outcome; its process has ended by then."""
        if agent.wanted_end is None:
            while not agent.done.is_set():  # a person's input may restart it before we wake
                await agent.done.wait()
        outcome = agent.present_outcome
        await self._agents.end(agent)
        outcome = outcome or agent.outcome
        assert outcome is not None  # `end` sets it
        return outcome

    def _plan(self, index: int, attempt: int) -> AgentPlan:
        request = self._run.request
        name = self._names[index] if attempt == 1 else f"{self._names[index]}_try{attempt}"
        path, copy = child_path(ROOT_PATH, name), 2
        while self._run.agents.registry.is_known(path):
            path, copy = child_path(ROOT_PATH, f"{name}_{copy}"), copy + 1
        items = self._fan.agents
        return AgentPlan(
            path=path,
            agent_id=self._run.entropy.new_id(),
            role=items.role,
            limits=self._limits,
            cwd=request.cwd,
            parent=ROOT_PATH,
            depth=1,
            model_settings=items.model_settings,
            reports=False,
            host=items.host,
            resources=items.resources,
        )


def _schema(fan_out: FanOut) -> bytes | None:
    if fan_out.output_schema is None:
        return None
    return msgspec.json.encode(fan_out.output_schema)


def _check_answer(outcome: AgentEnded, fan_out: FanOut) -> tuple[EndState, str]:
    """An answer that does not fit the schema is a failure that says why."""
    if outcome.state != "completed" or fan_out.output_schema is None:
        return outcome.state, outcome.message
    from swarm.mailbox.base.schema_check import find_schema_violation

    fault = find_schema_violation(outcome.message, fan_out.output_schema)
    return ("failed", fault) if fault else (outcome.state, outcome.message)


def prompt_with_answers(body: str, answers: list[ItemAnswer], *, limit_bytes: int) -> str:
    """The root's prompt: every answer under its item, cut to fit, then the task's body.

    The body comes last, so that after much text the model still has its task in view. Each answer
    gets an equal share of `limit_bytes`; shorter ones leave theirs to the others.
    """
    shares = split_evenly([len(one.result) for one in answers], limit_bytes)
    blocks: list[str] = []
    for one, share in zip(answers, shares, strict=True):
        text = one.result if len(one.result) <= share else one.result[:share] + " […]"
        head = f"## {one.item}" if one.state == "completed" else f"## {one.item} ({one.state})"
        blocks.append(f"{head}\n{text.strip() or '(no answer)'}")
    return "".join((ANSWERS_START, "\n\n".join(blocks), ANSWERS_END, body.strip()))


UnreadInputs = dict[str, list[InputPosted]]  # an item's task → inputs for its next agent, in order


def find_unread_inputs(places: RunPaths, agent_ids: Iterable[str]) -> UnreadInputs:
    """Read the files of these agents, whose items began and did not end."""
    said: dict[str, tuple[str, InputPosted]] = {}  # by input id, the same for every agent
    answered: set[str] = set()
    for agent_id in agent_ids:
        task = ""
        for record in read_records(places, file=agent_id):
            match record.body:
                case InputPosted(source="fan_out") as posted:
                    task = text_of_input(posted)
                case InputPosted(source="person", input_id=name) as posted:
                    said[name] = task, posted
                case ItemRecorded(item_id=name):
                    answered.add(name)
                case _:
                    pass
    found: UnreadInputs = {}
    for name, (task, posted) in said.items():
        if name not in answered:
            found.setdefault(task, []).append(posted)
    return found


def text_of_input(posted: InputPosted) -> str:
    """The text of an input."""
    return "".join(part.text for part in posted.parts if isinstance(part, TextInput))
