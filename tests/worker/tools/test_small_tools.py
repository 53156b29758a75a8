"""Which tools a model is offered: what its role leaves, and few in few words for a small one."""

import json

import msgspec
import pytest

from support.nested_fields import with_fields
from swarm.mailbox.parts.tool_names import TOOL_NAMES
from swarm.mailbox.protocol.items import FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.settings import ToolChoice
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.worker.agent.context.context_blocks import EnvironmentFacts
from swarm.worker.agent.context.prompt_context import (
    KnownContext,
    context_items,
    instructions_for,
)
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.base.inbox import Inbox
from swarm.worker.exec.exec_outcome import ExecOutcome
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.exec_command import exec_result
from swarm.worker.tools.interface.team_client import TeamClient
from swarm.worker.tools.interface.tool_interface import ToolFailed
from swarm.worker.tools.toolset import Toolset

LARGE = ModelInfo(slug="m", provider="p", wire="chat")
SMALL = msgspec.structs.replace(LARGE, small=True, context_window=16_384)
SPEC = with_fields(
    FAKE_AGENT_SPEC,
    can_spawn=True,
    job="j",
    limits=Limits(sandbox=WorkspaceWrite(), reviewer="person"),
)


class Commands:
    """Runs nothing."""


def registry_of(choice=None, spec=SPEC):
    spec = msgspec.structs.replace(spec, role=RoleBrief(tools=choice or ToolChoice()))
    current = CurrentSpec(spec)
    return Toolset(current, Commands()).make_registry(None, TeamClient(current, None, Inbox()))


def names(model, choice=None):
    return [one.name for one in registry_of(choice).specs(model)]


def test_the_names_that_a_role_may_choose_are_those_of_all_tools():
    assert {tool.name for tool in registry_of()} == set(TOOL_NAMES)


@pytest.mark.parametrize(
    ("model", "choice", "offered"),
    [
        (SMALL, ToolChoice(), ["begin_task", "exec_command", "edit_file", "list_dir"]),
        (SMALL, ToolChoice(exclude=("list_dir",)), ["begin_task", "exec_command", "edit_file"]),
        (
            SMALL, ToolChoice(only=("apply_patch", "exec_command")),
            ["begin_task", "exec_command", "apply_patch"],
        ),
        (LARGE, ToolChoice(only=("list_dir", "edit_file")), ["edit_file", "list_dir"]),
        (LARGE, ToolChoice(only=()), []),
        (
            msgspec.structs.replace(LARGE, constrained_calls=True), ToolChoice(),
            ["begin_task", "exec_command", "edit_file"],
        ),
    ],
)  # fmt: skip
def test_a_role_chooses_and_a_small_model_gets_few(model, choice, offered):
    found = [name for name in names(model, choice) if name != "report_agent_job_result"]
    assert found == offered


@pytest.mark.parametrize("name", ["exec_command", "shell", "read_file"])
def test_what_a_role_takes_away_cannot_be_called_by_any_name(name):
    registry = registry_of(ToolChoice(only=("list_dir",)))
    call = FunctionCall(call_id="c", name=name, arguments='{"cmd": "ls", "path": "x"}')
    with pytest.raises(ToolFailed, match="unsupported call: "):
        registry.tool_for(registry.meant_call(call))
    assert registry.find(name) is None


@pytest.mark.parametrize(
    "model",
    [
        msgspec.structs.replace(LARGE, short_prompt=True),
        msgspec.structs.replace(LARGE, context_window=8_192),
        SMALL,
    ],
)
def test_a_small_model_is_asked_in_under_1200_tokens_with_an_example_of_each_tool(model):
    registry = registry_of(spec=msgspec.structs.replace(SPEC, job=""))
    tools = registry.specs(model)
    for tool in tools:
        assert '\nExample: {"' in tool.description
        assert "<" in tool.description  # a placeholder: what is concrete is copied
        schema = json.loads(tool.parameters)
        assert set(schema["properties"]) == set(schema["required"])
    place = EnvironmentFacts(cwd="/w", date="2030-01-01")
    items, _ = context_items(SPEC, place=place, model=model, known=KnownContext())
    size = len(instructions_for(SPEC, model)) + sum(len(str(item)) for item in items)
    size += sum(len(msgspec.json.encode(tool)) for tool in tools)
    assert size / 4 < 1_200


def test_a_large_model_with_a_short_prompt_keeps_what_it_may_do_and_where_it_is():
    spec = msgspec.structs.replace(SPEC, role=RoleBrief(prompt="short"))
    place = EnvironmentFacts(cwd="/w", date="2030-01-01")
    items, _ = context_items(spec, place=place, model=LARGE, known=KnownContext())
    text = str(items)
    assert "`sandbox_mode` is `workspace-write`" in text
    assert "Approval policy" not in text
    assert "<team>" not in text
    assert "<cwd>/w</cwd>" in text
    assert len(instructions_for(spec, LARGE)) < 800


def test_instructions_speak_only_of_tools_that_are_left():
    spec = msgspec.structs.replace(SPEC, role=RoleBrief(tools=ToolChoice(exclude=("apply_patch",))))
    assert "`apply_patch`" not in instructions_for(spec, LARGE)
    assert "- `exec_command`" in instructions_for(spec, LARGE)


def test_a_session_that_no_tool_takes_has_no_number():
    done = ExecOutcome(wall_time_s=1.0, output="", original_token_count=0, session_id=12)
    assert "session ID 12" in exec_result(done, limit_tokens=None).text
    assert "12" not in exec_result(done, limit_tokens=None, can_wait=False).text
