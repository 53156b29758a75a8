"""What models are told of each tool, byte by byte: a change ends every provider's prompt cache."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.nested_fields import with_fields
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import RoleCard
from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.base.inbox import Inbox
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.interface.team_client import TeamClient
from swarm.worker.tools.toolset import Toolset

GOLDEN = json.loads((Path(__file__).parent / "data" / "tool_schemas.json").read_text("utf-8"))
MODEL = ModelInfo(slug="m", provider="p", wire="responses")
CARDS = (
    RoleCard(name="explorer", description="Reads.", model="small", effort="low"),
    RoleCard(name="worker"),
)
ASKABLE = Limits(sandbox=WorkspaceWrite(), reviewer="person", max_depth=3)
SPECS = {
    "alone": replace(FAKE_AGENT_SPEC, limits=Limits(sandbox=WorkspaceWrite())),
    "team": with_fields(
        FAKE_AGENT_SPEC, limits=ASKABLE, can_spawn=True, roles=CARDS, max_agents=6, job="j"
    ),
    "child": with_fields(
        FAKE_AGENT_SPEC, path="/root/a", depth=3, limits=ASKABLE, can_spawn=True, max_agents=6
    ),
}


class Commands:
    """Runs nothing."""


def described(spec):
    current = CurrentSpec(spec)
    team = TeamClient(current, None, Inbox())
    registry = Toolset(current, Commands()).make_registry(None, team)
    return {
        tool.name: [tool.description, tool.parameters.decode()] for tool in registry.specs(MODEL)
    }


@pytest.mark.parametrize("name", SPECS)
def test_models_are_told_the_same_bytes_as_ever(name):
    assert described(SPECS[name]) == GOLDEN[name]
    assert list(described(SPECS[name])) == list(GOLDEN[name])


def test_every_tool_is_in_the_golden_file():
    assert len({*GOLDEN["team"], *GOLDEN["child"]}) == 19
