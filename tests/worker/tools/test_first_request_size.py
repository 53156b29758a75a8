"""The first request of a large model: what it costs before the task is even named."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from support.nested_fields import with_fields
from swarm.mailbox.protocol.items import FunctionCall, encode_item
from swarm.mailbox.protocol.mcp import McpTool, McpTools
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.mailbox.protocol.spec import AgentSpec, RoleBrief
from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.roles.role_loader import built_in_role, load_roles
from swarm.worker.agent.context.context_blocks import EnvironmentFacts
from swarm.worker.agent.context.prompt_context import (
    KnownContext,
    context_items,
    instructions_for,
)
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.base.inbox import Inbox
from swarm.worker.gateway.request_encoding import HeadKey
from swarm.worker.gateway.responses_request import encode_head
from swarm.worker.policy.command_decision import Run
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.interface.team_client import TeamClient
from swarm.worker.tools.toolset import Toolset

LARGE = ModelInfo(slug="m", provider="p", wire="responses")
CWD = "/home/somebody/projects/something"


class Commands:
    """Runs nothing."""


def default_spec(reviewer: str) -> AgentSpec:
    limits = Limits(sandbox=WorkspaceWrite(), reviewer=reviewer, max_depth=3)
    return with_fields(
        FAKE_AGENT_SPEC,
        role=built_in_role("default").brief(),
        limits=limits,
        cwd=CWD,
        can_spawn=True,
        max_agents=16,
        roles=load_roles(()).cards(with_copies=False),
    )


class McpReporter:
    """Answers the request for MCP tools."""

    def __init__(self, tools: tuple[McpTool, ...]) -> None:
        self._tools = tools

    @asynccontextmanager
    async def shown_wait(self, text: str, *, after_s: float) -> AsyncIterator[None]:
        yield

    async def request(self, request: object) -> McpTools:
        return McpTools(tools=self._tools)


async def mcp_request_bytes(count: int) -> int:
    """The first request with so many MCP tools of 1 KB each."""
    spec = msgspec.structs.replace(default_spec("guardian"), mcp_wait_s=1.0)
    tools = tuple(
        McpTool(
            server="docs",
            tool=f"tool_{number}",
            name=f"mcp__docs__tool_{number}",
            description="word " * 40,
            parameters=msgspec.json.encode({"type": "object", "description": "x" * 800}),
        )
        for number in range(count)
    )
    team = TeamClient(CurrentSpec(spec), None, Inbox())
    registry = Toolset(CurrentSpec(spec), Commands()).make_registry(McpReporter(tools), team)
    await registry.complete()
    specs = registry.specs(LARGE)
    if (search := registry.find("tool_search")) is not None:
        call = FunctionCall(call_id="c", name="tool_search", arguments='{"query": "a"}')
        await (await search.prepare(call)).run(Run(), lambda text: None)
    assert registry.specs(LARGE) == specs  # what was found stands in the history
    return size_of(spec, LARGE, registry.specs(LARGE))


def first_request_bytes(spec: AgentSpec, model: ModelInfo) -> int:
    """Instructions, tools and the context before the task, as the wire carries them."""
    current = CurrentSpec(spec)
    team = TeamClient(current, None, Inbox())
    return size_of(spec, model, Toolset(current, Commands()).make_registry(None, team).specs(model))


def size_of(spec: AgentSpec, model: ModelInfo, tools: tuple[ToolSpec, ...]) -> int:
    head = encode_head(
        HeadKey(model=model, instructions=instructions_for(spec, model), tools=tools)
    )
    place = EnvironmentFacts(cwd=CWD, date="2030-01-01")
    items, _ = context_items(spec, place=place, model=model, known=KnownContext())
    return len(head.before) + len(head.after) + sum(len(encode_item(item)) for item in items)


def test_the_first_request_of_the_default_role_with_all_its_tools_is_under_15_kb():
    assert first_request_bytes(default_spec("guardian"), LARGE) < 15_000


async def test_with_200_mcp_tools_it_is_under_18_kb():
    assert await mcp_request_bytes(200) < 18_000
    assert await mcp_request_bytes(200) < await mcp_request_bytes(3) + 500


def test_it_stays_so_where_a_person_can_be_asked():
    assert first_request_bytes(default_spec("person"), LARGE) < 16_000


def test_a_role_costs_no_more_than_its_own_text():
    spec = default_spec("guardian")
    more = msgspec.structs.replace(
        spec, role=RoleBrief(name="mine", developer_instructions="x" * 1_000)
    )
    assert first_request_bytes(more, LARGE) < first_request_bytes(spec, LARGE) + 1_100
