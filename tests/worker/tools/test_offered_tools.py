"""A model is offered no tool whose every call its role, sandbox or policy would refuse."""

import itertools

import msgspec
import pytest

from support.nested_fields import with_fields
from swarm.mailbox.protocol.items import CustomToolCall
from swarm.mailbox.protocol.mcp import McpAnnotations, McpTool
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    Granular,
    Limits,
    PathRule,
    ProfilePolicy,
    ReadOnly,
    WorkspaceWrite,
)
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.base.inbox import Inbox
from swarm.worker.policy.approval_offers import ToolStanding, is_mcp_tool_usable, may_change_files
from swarm.worker.policy.command_decision import Ask, Refuse, Run, decide_command, decide_patch
from swarm.worker.policy.command_facts import AgentStanding, PatchFacts, gather_facts
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.interface.team_client import TeamClient
from swarm.worker.tools.toolset import Toolset

LARGE = ModelInfo(slug="m", provider="p", wire="chat")
SMALL = msgspec.structs.replace(LARGE, small=True)
NOTHING = ProfilePolicy(rules=(PathRule(path="/", access="read"),))
SOMETHING = ProfilePolicy(rules=(PathRule(path="/w", access="write"),))
SANDBOXES = (ReadOnly(), WorkspaceWrite(), DangerFullAccess(), NOTHING, SOMETHING)
APPROVALS = ("untrusted", "on-failure", "on-request", "never")
REVIEWERS = ("person", "guardian", "nobody")
MUTED = Granular(sandbox_approval=False, request_permissions=False, mcp_elicitations=False)
EVERY = [
    Limits(sandbox=sandbox, approval=approval, reviewer=reviewer, granular=granular)
    for sandbox, approval, reviewer, granular in itertools.product(
        SANDBOXES, APPROVALS, REVIEWERS, (None, MUTED)
    )
    if granular is None or approval == "on-request"
]


class Commands:
    """Runs nothing."""


def offered(limits, *, locked=False, model=LARGE, **change):
    role = RoleBrief(locked=locked)
    spec = with_fields(
        FAKE_AGENT_SPEC, limits=limits, role=role, can_spawn=True, offers_copies=True, **change
    )
    current = CurrentSpec(spec)
    registry = Toolset(current, Commands()).make_registry(None, TeamClient(current, None, Inbox()))
    return {one.name for one in registry.specs(model)}


def patch_of(limits, *, locked):
    """What becomes of a patch to a file that the sandbox lets it write, if it lets it write any."""
    writes = limits.sandbox in (WorkspaceWrite(), DangerFullAccess(), SOMETHING)
    return decide_patch(
        PatchFacts(
            paths=("a",), outside=() if writes else ("a",), approval=limits.approval,
            granular=limits.granular, sandbox=limits.sandbox, reviewer=limits.reviewer,
            is_locked=locked,
        )
    )  # fmt: skip


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("limits", EVERY)
def test_a_patch_is_offered_exactly_where_one_could_be_written(limits, locked):
    writes = limits.sandbox in (WorkspaceWrite(), DangerFullAccess(), SOMETHING)
    is_asked = isinstance(patch_of(limits, locked=locked), Ask) and limits.reviewer == "person"
    may = writes or is_asked  # under on-failure a patch runs, fails, and is not asked about
    assert may_change_files(limits, is_locked=locked) is may
    assert ("apply_patch" in offered(limits, locked=locked)) is may
    assert ("edit_file" in offered(limits, locked=locked, model=SMALL)) is may


@pytest.mark.parametrize("model", [LARGE, SMALL])
def test_an_explorer_is_offered_nothing_that_writes(model):
    found = offered(Limits(sandbox=ReadOnly(), reviewer="person"), locked=True, model=model)
    writers = {
        "apply_patch", "edit_file", "begin_task", "merge_changes", "discard_changes",
        "list_changes", "spawn_agents_on_csv", "request_permissions",
    }  # fmt: skip
    assert not found & writers and "exec_command" in found


@pytest.mark.parametrize("limits", EVERY)
def test_what_writes_for_the_team_is_offered_only_to_who_may_write(limits):
    writes = limits.sandbox in (WorkspaceWrite(), DangerFullAccess(), SOMETHING)
    found = offered(limits)
    for name in ("merge_changes", "discard_changes", "list_changes", "spawn_agents_on_csv"):
        assert (name in found) is writes
    planning = msgspec.structs.replace(limits, planning=True)
    assert "merge_changes" not in offered(planning)


@pytest.mark.parametrize("limits", EVERY)
def test_a_tool_of_a_server_is_offered_only_where_a_call_of_it_could_run(limits):
    writing = McpTool(server="s", tool="t", name="t", description="", parameters=b"{}", digest="d")
    reading = msgspec.structs.replace(writing, annotations=McpAnnotations(read_only=True))
    standing = ToolStanding(limits=limits)
    assert is_mcp_tool_usable(reading, standing)
    if limits.reviewer == "nobody" and limits.approval != "never":
        assert not is_mcp_tool_usable(writing, standing)
        hooked = msgspec.structs.replace(standing, has_hooks=True)
        assert is_mcp_tool_usable(writing, hooked) is (limits.granular is None)
    if limits.approval == "never":
        assert is_mcp_tool_usable(writing, standing) is (limits.sandbox == DangerFullAccess())


@pytest.mark.parametrize("sandbox", [ReadOnly(), NOTHING])
@pytest.mark.parametrize("approval", ["on-request", "untrusted"])
def test_the_guardian_is_not_asked_to_write_where_nothing_is_to_be_written(sandbox, approval):
    limits = Limits(sandbox=sandbox, approval=approval, reviewer="guardian")
    assert isinstance(patch_of(limits, locked=False), Refuse)
    person = msgspec.structs.replace(limits, reviewer="person")
    assert isinstance(patch_of(person, locked=False), Ask)


@pytest.mark.parametrize("locked", [False, True])
def test_what_removes_by_force_runs_without_a_question_where_nothing_can_be_removed(locked):
    def verdict(sandbox, approval="on-request"):
        limits = Limits(sandbox=sandbox, approval=approval, reviewer="guardian")
        standing = AgentStanding(is_locked=locked)
        return decide_command(gather_facts(("rm", "-rf", "a"), limits, standing=standing))

    assert verdict(ReadOnly()) == Run()
    assert isinstance(verdict(WorkspaceWrite()), Ask)
    assert isinstance(verdict(ReadOnly(), "untrusted"), Ask)


def test_a_patch_of_a_model_that_was_not_offered_one_is_refused_without_a_question():
    limits = Limits(sandbox=ReadOnly(), reviewer="guardian")
    current = CurrentSpec(msgspec.structs.replace(FAKE_AGENT_SPEC, limits=limits))
    registry = Toolset(current, Commands()).make_registry(None)
    call = CustomToolCall(call_id="c", name="apply_patch", input="x")
    assert registry.tool_for(call).name == "apply_patch"
    assert "apply_patch" not in {one.name for one in registry.specs(LARGE)}
