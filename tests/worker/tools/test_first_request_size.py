"""The first request of a large model: what it costs before the task is even named."""

import msgspec

from swarm.mailbox.protocol.items import encode_item
from swarm.mailbox.protocol.limits import Limits, WorkspaceWrite
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import AgentSpec, RoleBrief
from swarm.roles.role_loader import built_in_role, load_roles
from swarm.worker.agent.context.context_blocks import EnvironmentFacts
from swarm.worker.agent.context.prompt_context import (
    KnownContext,
    context_items,
    instructions_for,
)
from swarm.worker.agent.turn.inbox import Inbox
from swarm.worker.current_spec import CurrentSpec
from swarm.worker.gateway.request_encoding import HeadKey
from swarm.worker.gateway.responses_request import encode_head
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.team_client import TeamClient
from swarm.worker.tools.toolset import Toolset

LARGE = ModelInfo(slug="m", provider="p", wire="responses")
CWD = "/home/somebody/projects/something"


class Commands:
    """Runs nothing."""


def default_spec(reviewer: str) -> AgentSpec:
    limits = Limits(sandbox=WorkspaceWrite(), reviewer=reviewer, max_depth=3)
    return msgspec.structs.replace(
        FAKE_AGENT_SPEC,
        role=built_in_role("default").brief(),
        limits=limits,
        cwd=CWD,
        can_spawn=True,
        max_agents=16,
        roles=load_roles(()).cards,
    )


def first_request_bytes(spec: AgentSpec, model: ModelInfo) -> int:
    """Instructions, tools and the context before the task, as the wire carries them."""
    current = CurrentSpec(spec)
    team = TeamClient(current, None, Inbox())
    tools = Toolset(current, Commands()).make_registry(None, team).specs(model)
    head = encode_head(
        HeadKey(model=model, instructions=instructions_for(spec, model), tools=tools)
    )
    place = EnvironmentFacts(cwd=CWD, date="2030-01-01")
    items, _ = context_items(spec, place=place, model=model, known=KnownContext())
    return len(head.before) + len(head.after) + sum(len(encode_item(item)) for item in items)


def test_the_first_request_of_the_default_role_with_all_its_tools_is_under_15_kb():
    assert first_request_bytes(default_spec("guardian"), LARGE) < 15_000


def test_it_stays_so_where_a_person_can_be_asked():
    assert first_request_bytes(default_spec("person"), LARGE) < 15 * 1024


def test_a_role_costs_no_more_than_its_own_text():
    spec = default_spec("guardian")
    more = msgspec.structs.replace(
        spec, role=RoleBrief(name="mine", developer_instructions="x" * 1_000)
    )
    assert first_request_bytes(more, LARGE) < first_request_bytes(spec, LARGE) + 1_100
