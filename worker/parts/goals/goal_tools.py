"""get_goal and update_goal, for the root of a run that has a goal. Neither can end or change it."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from swarm.mailbox.parts.goals.goal_messages import (
    GET_GOAL,
    UPDATE_GOAL,
    GetGoal,
    GoalTold,
    UpdateGoal,
)
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.sampling import ModelInfo

from ...tools.interface.function_tool import decode_arguments, described, read_descriptions
from ...tools.interface.team_client import TeamInvocation, TeamTool
from ...tools.interface.tool_interface import Invocation, ToolResult

_TEXTS = read_descriptions(Path(__file__).parent)


class GetGoalArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class UpdateGoalArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: Literal["complete", "blocked"]
    why: Annotated[str, described("In one sentence; of `blocked`: what a person must do.")] = ""


class GoalTool(TeamTool):
    """A tool of an agent that was given a goal."""

    def is_offered(self, model: ModelInfo) -> bool:
        return self._team.spec.parts.goals.has_goal

    def description(self) -> str:
        return _TEXTS[self.name]


class GetGoalTool(GoalTool):
    """Shows the goal."""

    name = GET_GOAL.name
    arguments = GetGoalArguments

    async def prepare(self, call: AnyCall) -> Invocation:
        decode_arguments(call, GetGoalArguments)
        return TeamInvocation("", self._get)

    async def _get(self) -> ToolResult:
        told = await self._team.request(GetGoal(), GoalTold)
        return ToolResult(content=told.text)


class UpdateGoalTool(GoalTool):
    """Says what the model thinks of it."""

    name = UPDATE_GOAL.name
    arguments = UpdateGoalArguments

    async def prepare(self, call: AnyCall) -> Invocation:
        given = decode_arguments(call, UpdateGoalArguments)
        request = UpdateGoal(status=given.status, why=given.why)
        return TeamInvocation(f"{given.status}: {given.why}", partial(self._update, request))

    async def _update(self, request: UpdateGoal) -> ToolResult:
        told = await self._team.request(request, GoalTold)
        return ToolResult(content=told.text)
