"""What a child inherits, what its role pins, and what is refused."""

import msgspec
import pytest

from swarm.mailbox.protocol.requests import Spawn
from swarm.mailbox.protocol.settings import ModelSettings, SamplingSettings, ToolChoice
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, ReadOnly, WorkspaceWrite
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import load_roles
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.agents.child_plan import (
    AgentRequestError,
    check_spawn_request,
    plan_child,
    role_for,
)
from swarm.supervisor.agents.run_providers import RunProviders

ASKER = AgentPlan(
    path="/root/a",
    agent_id="1",
    role=RoleBrief(base_instructions="base"),
    limits=Limits(sandbox=WorkspaceWrite(network_access=True), approval="untrusted", max_depth=3),
    cwd="/work",
    parent="/root",
    depth=1,
    model_settings=ModelSettings(model="big", effort="high"),
)
REQUEST = Spawn(task_name="b", message="do it")
ROLES = load_roles(())


def child(request=REQUEST, role=None, asker=ASKER):
    return plan_child(asker, request, role or Role(name="default"), agent_id="2")


def test_a_child_has_its_parents_model_effort_place_limits_and_base_words():
    plan = child()
    assert (plan.path, plan.parent, plan.depth) == ("/root/a/b", "/root/a", 2)
    assert (plan.model_settings, plan.cwd) == (ASKER.model_settings, "/work")
    assert plan.limits == ASKER.limits
    assert plan.role.base_instructions == "base"


def test_what_is_asked_for_beats_what_is_inherited_and_what_the_role_sets_beats_both():
    request = msgspec.structs.replace(REQUEST, model="small", reasoning_effort="low")
    assert child(request).model_settings == ModelSettings(model="small", effort="low")
    plan = child(request, Role(name="r", model="pinned", effort="minimal"))
    assert plan.model_settings == ModelSettings(model="pinned", effort="minimal")


def test_a_role_takes_tools_away_and_gives_none_back():
    asker = msgspec.structs.replace(
        ASKER, role=RoleBrief(tools=ToolChoice(only=("exec_command", "spawn_agent")))
    )
    wide = Role(name="r", tools=ToolChoice(only=("exec_command", "list_dir", "spawn_agent")))
    assert child(role=wide, asker=asker).role.tools.only == ("exec_command", "spawn_agent")
    assert child(asker=asker).role.tools == asker.role.tools


def test_an_agent_whose_role_starts_none_cannot_spawn():
    asker = msgspec.structs.replace(
        ASKER, role=RoleBrief(tools=ToolChoice(exclude=("spawn_agent",)))
    )
    with pytest.raises(AgentRequestError, match="Your role starts no agents"):
        check_spawn_request(asker, REQUEST)


def test_prompt_sampling_and_summary_are_the_roles_own():
    asker = msgspec.structs.replace(
        ASKER, role=RoleBrief(prompt="short", sampling=SamplingSettings(temperature=1.5)),
        model_settings=ModelSettings(summary="concise"),
    )  # fmt: skip
    plan = child(role=Role(name="r", summary="none"), asker=asker)
    assert (plan.role.prompt, plan.role.sampling) == ("", SamplingSettings())
    assert plan.model_settings.summary == "none"


def test_another_model_without_an_effort_has_its_own_default():
    assert child(msgspec.structs.replace(REQUEST, model="small")).model_settings.effort is None


@pytest.mark.parametrize("sandbox", [ReadOnly(), WorkspaceWrite(), DangerFullAccess()])
def test_an_explorer_reads_only_whatever_its_parent_may(sandbox):
    asker = msgspec.structs.replace(ASKER, limits=Limits(sandbox=sandbox))
    plan = child(role=ROLES.known["explorer"], asker=asker)
    assert plan.limits.sandbox == ReadOnly()
    assert plan.role.locked


def test_no_role_widens_what_its_parent_has_and_a_locked_parent_has_locked_children():
    asker = msgspec.structs.replace(
        ASKER, limits=Limits(sandbox=ReadOnly()), role=RoleBrief(locked=True)
    )
    plan = child(role=Role(name="r", sandbox_mode="danger-full-access"), asker=asker)
    assert plan.limits.sandbox == ReadOnly()
    assert plan.role.locked


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"message": "  "}, "message must not be empty"),
        ({"reasoning_effort": "huge"}, "not supported"),
        ({"deadline_s": 0.0}, "greater than zero"),
        ({"deadline_s": float("nan")}, "greater than zero"),
    ],
)
def test_a_request_that_cannot_be_kept_is_refused(change, words):
    with pytest.raises(AgentRequestError, match=words):
        check_spawn_request(ASKER, msgspec.structs.replace(REQUEST, **change))


def test_below_the_deepest_level_nobody_is_started():
    deep = msgspec.structs.replace(ASKER, depth=3)
    with pytest.raises(
        AgentRequestError, match=r"Agent depth limit reached\. Solve the task yourself\."
    ):
        check_spawn_request(deep, REQUEST)


@pytest.mark.parametrize("name", ["", "root", "A", "a/b", "..", "a b", "x" * 65])
def test_a_bad_name_is_refused_with_its_rule(name):
    with pytest.raises(AgentRequestError, match='a right one is "task_name"'):
        child(msgspec.structs.replace(REQUEST, task_name=name))


def test_unknown_broken_and_foreign_roles_are_errors_and_never_the_default():
    with pytest.raises(AgentRequestError, match="did you mean `explorer`"):
        role_for(ROLES, "explorr")
    broken = msgspec.structs.replace(ROLES, broken={"mine": "it has no words"})
    with pytest.raises(AgentRequestError, match="it has no words"):
        role_for(broken, "mine")
    other = msgspec.structs.replace(ROLES, known={"o": Role(name="o", model_provider="else")})
    with pytest.raises(AgentRequestError, match="no provider is called `else`"):
        role_for(other, "o", RunProviders(own="scripted"))
    assert role_for(ROLES, "  ").name == "default"


def test_whoever_an_agent_in_a_copy_starts_sees_that_copy_or_has_a_copy_of_it():
    in_copy = msgspec.structs.replace(ASKER.limits, isolation="copy")
    asker = msgspec.structs.replace(ASKER, limits=in_copy)
    seen = child(role=Role(name="r", sandbox_mode="read-only"), asker=asker)
    assert seen.limits.isolation == "copy"
    assert seen.only_looks
    below = child(asker=asker)
    assert (below.limits.isolation, below.only_looks) == ("copy", False)
    with pytest.raises(AgentRequestError, match="merge it yourself with merge_changes"):
        child(role=Role(name="m", merges=True), asker=asker)


def test_an_agent_in_a_copy_on_another_machine_starts_none():
    with pytest.raises(AgentRequestError, match="on another machine"):
        check_spawn_request(msgspec.structs.replace(ASKER, host="lab"), REQUEST)
