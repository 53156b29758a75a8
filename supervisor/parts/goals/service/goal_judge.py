"""Asks an agent that only reads whether a goal is met. What it cannot say, or not in time, is a no.

It is an agent of the run: it has a slot, counts against the budget, and is shown in the tree.
"""

import msgspec
import trio

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.parts.goals.goal_messages import Goal
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.values.base import Value

from ....agents.agent_record import Agent
from ....agents.child_plan import AgentRequestError
from ....agents.end_states import GOOD_ENDS
from ....part_access.part_host import PartHost, PartTeam
from ....processes.process_types import SpawnError
from ..check_command import CheckOutcome
from ..goal_texts import judge_text

LIMIT_S = 1800.0
_MISSING_CHARS = 4_000
_SCHEMA = msgspec.json.encode(
    {
        "type": "object",
        "properties": {"met": {"type": "boolean"}, "missing": {"type": "string"}},
        "required": ["met", "missing"],
        "additionalProperties": False,
    }
)


class Judgement(Value):
    """The judge's answer."""

    met: bool
    missing: str = ""


class GoalJudge:
    """Starts one agent for each question; when `ask` returns or is cancelled, it has ended."""

    def __init__(self, host: PartHost, team: PartTeam, nursery: trio.Nursery) -> None:
        self._host = host
        self._team = team
        self._nursery = nursery

    async def ask(self, goal: Goal, answer: str, round_number: int) -> CheckOutcome:
        """`answer`: what the root said last."""
        root = self._host.agents.find(ROOT_PATH)
        if root is None:
            return _no("there is no root agent")
        name = f"judge_{self._host.entropy.new_id()[-8:]}_{round_number}"
        try:
            member = self._team.spawner.add_reader(root, name, goal.judge)
        except AgentRequestError as error:
            return _no(f"no judge could be started: {error}")
        try:
            await self._team.spawner.start_first_process(member, None)
        except BaseException as error:
            member.end_start()
            self._team.spawner.cancel_spawn(member, "it was never started")
            if isinstance(error, SpawnError):
                return _no(f"no judge could be started: {error}")
            raise
        try:
            with trio.move_on_after(LIMIT_S):
                await self._team.manager.send_input(member, self._question(goal, answer))
                await member.done.wait()
        finally:
            member.end_start()
            self._nursery.start_soon(self._end, member)
        await member.gone.wait()
        return read_judgement(member)

    def _question(self, goal: Goal, answer: str) -> UserInput:
        return UserInput(
            input_id=self._host.entropy.new_id(),
            parts=(TextInput(text=judge_text(goal, answer)),),
            output_schema=_SCHEMA,
        )

    async def _end(self, member: Agent) -> None:
        if member.is_live:
            await self._team.manager.end(member)


def read_judgement(member: Agent) -> CheckOutcome:
    """Only a whole answer that fits is a yes."""
    outcome = member.present_outcome
    if outcome is None or outcome.state not in GOOD_ENDS:
        return _no("the judge came to no answer")
    try:
        found = decode_json_as(outcome.message, Judgement)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _no("the judge's answer could not be read")
    if found.met:
        return CheckOutcome(passed=True)
    return _no(found.missing or "the judge did not say what is missing")


def _no(missing: str) -> CheckOutcome:
    return CheckOutcome(passed=False, tail=missing[:_MISSING_CHARS])
