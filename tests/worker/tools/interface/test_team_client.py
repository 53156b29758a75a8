"""The team's tools as tables: schemas, who is offered them, arguments, texts of refusals."""

import json

import msgspec
import pytest

from support.nested_fields import with_fields
from swarm.mailbox.parts.jobs.job_messages import ReportJobResult
from swarm.mailbox.protocol.items import FunctionCall
from swarm.mailbox.protocol.sampling import ModelInfo, SampleRequest, encode_sample_op
from swarm.mailbox.protocol.spec import RoleCard
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, ReadOnly, WorkspaceWrite
from swarm.roles.role_loader import load_roles
from swarm.worker.agent.context.context_blocks import base_instructions, permissions_text, team_text
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.base.inbox import Inbox
from swarm.worker.parts.jobs.csv_job import ReportArguments, job_report
from swarm.worker.sandbox.sandbox_plan import SandboxPlan, plan_sandbox
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.interface.team_client import TeamClient
from swarm.worker.tools.interface.tool_interface import ToolFailed
from swarm.worker.tools.spawn_agent import roles_text
from swarm.worker.tools.toolset import Toolset

MODEL = ModelInfo(slug="m", provider="p", wire="responses", freeform_tools=True)
TEAM_NAMES = [
    "spawn_agent", "send_message", "followup_task", "wait_agent", "list_agents",
    "interrupt_agent", "close_agent", "spawn_agents_on_csv",
]  # fmt: skip
FINDINGS = ["publish_finding", "recall_findings"]
BUILT_IN = tuple(
    RoleCard(name=role.name, description=role.description, model=role.model, effort=role.effort)
    for role in load_roles(()).known.values()
)
SPEC = with_fields(
    FAKE_AGENT_SPEC,
    path="/root/a",
    depth=1,
    can_spawn=True,
    max_agents=8,
    roles=BUILT_IN,
    limits=Limits(sandbox=WorkspaceWrite()),
)


class Commands:
    """What a site asks of its commands; it runs none."""

    def plan(self, policy, cwd, extra=None):
        if isinstance(policy, DangerFullAccess):
            return SandboxPlan()
        return plan_sandbox(policy, cwd=cwd, tmp_dir=None, stack="bwrap")


def registry_of(spec):
    current = CurrentSpec(spec)
    team = TeamClient(current, None, Inbox())
    return Toolset(current, Commands()).make_registry(None, team)


def call(name, arguments):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return FunctionCall(call_id="c", name=name, arguments=text)


async def refusal(name, arguments, spec=SPEC):
    tool = registry_of(spec).find(name)
    with pytest.raises(ToolFailed) as caught:
        await tool.prepare(call(name, arguments))
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "offered"),
    [
        ({}, [*TEAM_NAMES, *FINDINGS]),
        ({"depth": 0, "path": "/root"}, [*TEAM_NAMES, "wake_me"]),
        ({"depth": 3}, FINDINGS),
        ({"can_spawn": False}, []),
        ({"limits": Limits(sandbox=WorkspaceWrite(), max_depth=1)}, FINDINGS),
        ({"job": "j"}, [*TEAM_NAMES, "report_agent_job_result"]),
        ({"job": "j", "depth": 3}, ["report_agent_job_result"]),
    ],
)
def test_the_tools_are_offered_only_to_who_may_start_agents_or_has_others_beside(change, offered):
    told = registry_of(with_fields(SPEC, **change)).specs(MODEL)
    assert [spec.name for spec in told][6:] == offered


def test_a_small_model_is_not_offered_the_findings():
    small = msgspec.structs.replace(MODEL, short_prompt=True)
    assert not {one.name for one in registry_of(SPEC).specs(small)} & set(FINDINGS)


def test_the_first_request_with_every_tool_is_small_and_always_the_same():
    spec = with_fields(SPEC, job="j", user_instructions="")
    tools = registry_of(spec).specs(MODEL)
    request = encode_sample_op(
        SampleRequest(request_id=1, turn_id="t", tools=tools, instructions=base_instructions(MODEL))
    )
    context = permissions_text(spec.limits, cwd="/w") + team_text(spec)
    assert len(request) + len(context) < 15_000
    assert registry_of(spec).specs(MODEL) == tools
    for one in tools[6:]:
        schema = json.loads(one.parameters)
        assert list(schema.get("properties", {})) == sorted(schema.get("properties", {}))


def test_the_spawn_tool_names_the_roles_and_what_they_fix():
    (spawn,) = [one for one in registry_of(SPEC).specs(MODEL) if one.name == "spawn_agent"]
    text = json.loads(spawn.parameters)["properties"]["agent_type"]["description"]
    assert "Available roles:\n" in text
    assert "explorer: {\n" in text
    assert "reasoning effort is set to `low` and cannot be changed" in text
    cards = (
        RoleCard(name="mute"),
        RoleCard(name="both", description="D", model="M", effort="E"),
        RoleCard(name="one", description="D", model="M"),
    )
    assert roles_text(cards) == (
        "The child's role, by default `default`.\nAvailable roles:\n"
        "mute: no description\n"
        "both: {\nD\n- This role's model is set to `M` and its reasoning effort is set to `E`. "
        "These settings cannot be changed.\n}\n"
        "one: {\nD\n- This role's model is set to `M` and cannot be changed.\n}"
    )


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        (
            "spawn_agent",
            {"task_name": "", "message": "x"},
            'task_name must not be empty; a right one is "task_name": "my_task"',
        ),
        (
            "spawn_agent",
            {"task_name": "root", "message": "x"},
            'task_name `root` is reserved; a right one is "task_name": "my_task"',
        ),
        (
            "spawn_agent",
            {"task_name": "a/b", "message": "x"},
            'task_name must not contain `/`; a right one is "task_name": "a_b"',
        ),
        (
            "spawn_agent",
            {"task_name": "A", "message": "x"},
            "task_name must use only lowercase letters, digits, and underscores, 64 at most; "
            'a right one is "task_name": "a"',
        ),
        (
            "spawn_agent",
            {"task_name": "a", "message": " "},
            "message must not be empty: write into it what the agent is to read",
        ),
        (
            "spawn_agent",
            {"task_name": "a", "message": "x", "fork_turns": "0"},
            'fork_turns must be `none`, `all`, or a positive integer string such as "3"',
        ),
        (
            "spawn_agent",
            {"task_name": "a", "message": "x", "fork_context": True},
            'there is no fork_context; write "fork_turns": "all" or "none" instead',
        ),
        (
            "send_message",
            {"target": "", "message": "x"},
            'target must not be empty; a right one is "target": "/root/my_task"',
        ),
        (
            "send_message",
            {"target": "..", "message": "x"},
            "target must not have an empty step, `.` or `..`; "
            'a right one is "target": "/root/my_task"',
        ),
        (
            "send_message",
            {"target": "/other", "message": "x"},
            "target must start with `/root` if it is absolute; "
            'a right one is "target": "/root/my_task"',
        ),
        (
            "send_message",
            {"target": "/root/b/", "message": "x"},
            'target must not end with `/`; a right one is "target": "/root/my_task"',
        ),
        (
            "send_message",
            {"target": "b/", "message": "x"},
            'target must not end with `/`; a right one is "target": "/root/my_task"',
        ),
        (
            "followup_task",
            {"target": "/root", "message": "x"},
            "Follow-up tasks can't target the root agent",
        ),
        ("close_agent", {"target": "/root"}, "root is not a spawned agent"),
        ("interrupt_agent", {"target": "/root"}, "root is not a spawned agent"),
        (
            "interrupt_agent",
            {"target": "/root/a"},
            "you cannot interrupt yourself: to end, return your result as your final answer",
        ),
        ("wait_agent", {"timeout_ms": 0}, "timeout_ms must be greater than zero"),
        (
            "wait_agent",
            {"targets": ["/root"]},
            "targets: an agent cannot wait for itself or for those above it",
        ),
        (
            "spawn_agents_on_csv",
            {"csv_path": "x.csv", "instruction": " "},
            "instruction must be non-empty",
        ),
        (
            "spawn_agents_on_csv",
            {"csv_path": "x.csv", "instruction": "x", "max_runtime_seconds": 0},
            "max_runtime_seconds must be at least 1",
        ),
        (
            "report_agent_job_result",
            {"job_id": "j", "item_id": "i", "result": [1]},
            "result must be a JSON object",
        ),
    ],
)
async def test_what_breaks_a_rule_is_told_by_its_text(name, arguments, text):
    assert await refusal(name, arguments, msgspec.structs.replace(SPEC, job="j")) == text


@pytest.mark.parametrize("name", [*TEAM_NAMES, "report_agent_job_result"])
async def test_unknown_keys_are_refused(name):
    spec = msgspec.structs.replace(SPEC, job="j")
    schema = json.loads(
        next(one.parameters for one in registry_of(spec).specs(MODEL) if one.name == name)
    )
    arguments = {key: {} if key == "result" else "x" for key in schema.get("required", ())}
    text = await refusal(name, {**arguments, "no_such_key": 1}, spec)
    assert "unknown field `no_such_key`" in text


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"depth": 3}, "Agent depth limit reached. Solve the task yourself."),
        (
            {"can_spawn": False},
            "No other agent can run beside you here (max_agents is 1). Solve the task yourself.",
        ),
    ],
)
async def test_a_spawn_by_who_may_not_is_refused_with_the_reason(change, text):
    spec = with_fields(SPEC, **change)
    assert await refusal("spawn_agent", {"task_name": "b", "message": "x"}, spec) == text
    rows = {"csv_path": "x.csv", "instruction": "x"}
    assert await refusal("spawn_agents_on_csv", rows, spec) == text


@pytest.mark.parametrize(("sandbox", "allowed"), [(ReadOnly(), False), (DangerFullAccess(), True)])
async def test_a_job_writes_only_where_its_agent_may(tmp_path, sandbox, allowed):
    spec = msgspec.structs.replace(SPEC, cwd=str(tmp_path), limits=Limits(sandbox=sandbox))
    arguments = {"csv_path": "rows.csv", "instruction": "x", "output_csv_path": "out/o.csv"}
    tool = registry_of(spec).find("spawn_agents_on_csv")
    if allowed:
        await tool.prepare(call("spawn_agents_on_csv", arguments))
    else:
        assert "cannot be written" in await refusal("spawn_agents_on_csv", arguments, spec)


async def test_only_the_worker_of_an_item_can_report_and_its_result_stays_as_written():
    arguments = '{"job_id": "j", "item_id": "i", "result": {"a" : 1.50}, "stop": true}'
    assert "only the worker" in await refusal("report_agent_job_result", arguments)
    spec = msgspec.structs.replace(SPEC, job="j")
    tool = registry_of(spec).find("report_agent_job_result")
    invocation = await tool.prepare(call("report_agent_job_result", arguments))
    assert invocation.detail.argument == "i"
    report = job_report(msgspec.json.decode(arguments, type=ReportArguments))
    assert report == ReportJobResult(job_id="j", item_id="i", result=b'{"a" : 1.50}', stop=True)
