"""Plan mode and wider rights: what a person gives, and what nobody can be given."""

import pytest
from msgspec.structs import replace

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.control import ChangeSettings
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    Limits,
    NetworkPolicy,
    ReadOnly,
    WorkspaceWrite,
)
from swarm.roles.rights.narrow import narrow_limits
from swarm.roles.rights.role import Role
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.agents.rights_widening import RightsBound, begin_planning
from swarm.supervisor.agents.settings_change import (
    changed_plan,
    check_requirements,
    settings_of,
    with_settings,
)
from swarm.supervisor.request.run_request import RequiredChoices

NETWORK = NetworkPolicy(allow=("example.org",))
START = Limits(sandbox=WorkspaceWrite(writable_roots=("/more",)), network=NETWORK)
ROOT = AgentPlan(path="/root", agent_id="r", role=RoleBrief(), limits=START, cwd="/work")
CHILD = replace(ROOT, path="/root/a", agent_id="a", parent="/root", depth=1)
OF_RUN = RightsBound(START)


def change(agent: AgentPlan, bound: RightsBound | None = OF_RUN, /, **wanted: object) -> AgentPlan:
    return changed_plan(agent, ChangeSettings(agent=agent.path, **wanted), bound)  # type: ignore[arg-type]


def test_an_agent_in_plan_mode_writes_asks_and_reaches_nothing() -> None:
    limits = change(ROOT, plan=True).limits
    assert (limits.sandbox, limits.approval, limits.network) == (ReadOnly(), "never", None)
    assert limits.planning
    child = narrow_limits(limits, Role(name="any", sandbox_mode="workspace-write"))
    assert (child.sandbox, child.planning) == (ReadOnly(), True)


def test_an_accepted_plan_gives_back_what_was_allowed_before_and_no_more() -> None:
    narrowed = change(ROOT, sandbox="read-only", approval="untrusted")
    for before in (ROOT, narrowed):
        assert change(change(before, plan=True), plan=False) == before
    assert change(ROOT, plan=False) == ROOT


def test_plan_mode_and_its_end_survive_a_resume() -> None:
    planning = change(ROOT, plan=True)
    assert with_settings(ROOT, settings_of(planning)) == planning
    assert with_settings(ROOT, settings_of(change(planning, plan=False))) == ROOT
    child = replace(CHILD, limits=planning.limits)  # started by an agent in plan mode
    assert with_settings(child, settings_of(child)).limits == planning.limits


def test_rights_do_not_change_behind_plan_mode() -> None:
    for wanted in ({"sandbox": "read-only"}, {"approval": "never", "widen": True}):
        with pytest.raises(UsageError, match="plan mode"):
            change(begin_planning(ROOT), **wanted)


def test_a_child_of_an_agent_in_plan_mode_cannot_leave_it_alone() -> None:
    planning = change(ROOT, plan=True)
    below = RightsBound(planning.limits, is_parent=True)
    with pytest.raises(UsageError, match="accept that one's plan"):
        change(replace(CHILD, limits=planning.limits), below, plan=False)
    with pytest.raises(UsageError, match="accept that plan first"):
        change(begin_planning(CHILD), below, plan=False)


@pytest.mark.parametrize(
    ("wanted", "policy"),
    [("workspace-write", START.sandbox), ("danger-full-access", DangerFullAccess())],
)
def test_a_person_widens_the_sandbox_of_the_root(wanted: str, policy: object) -> None:
    narrow = change(ROOT, sandbox="read-only")
    with pytest.raises(UsageError, match="only become less"):
        change(narrow, sandbox=wanted)
    wide = change(narrow, sandbox=wanted, widen=True)
    assert (wide.limits.sandbox, wide.limits.network, wide.widened) == (policy, NETWORK, True)
    assert with_settings(ROOT, settings_of(wide)).limits.sandbox == policy


def test_a_person_loosens_the_approval_policy() -> None:
    strict = change(ROOT, approval="untrusted")
    assert change(strict, approval="on-request", widen=True).limits.approval == "on-request"
    assert change(strict, None, approval="untrusted", widen=True).limits.approval == "untrusted"
    with pytest.raises(UsageError, match="only become less"):
        change(strict, None, approval="on-request", widen=True)


def test_a_child_gets_no_more_than_its_parent_has() -> None:
    below = RightsBound(START, is_parent=True)
    child = replace(CHILD, limits=replace(START, sandbox=ReadOnly(), approval="untrusted"))
    assert (
        change(child, below, sandbox="workspace-write", widen=True).limits.sandbox == START.sandbox
    )
    with pytest.raises(UsageError, match="widen that one first"):
        change(child, below, sandbox="danger-full-access", widen=True)
    strict = RightsBound(replace(START, approval="untrusted"), is_parent=True)
    with pytest.raises(UsageError, match="widen that one first"):
        change(child, strict, approval="on-request", widen=True)
    wide = change(child, below, sandbox="workspace-write", widen=True)
    resumed = with_settings(child, settings_of(wide), replace(START, sandbox=ReadOnly()))
    assert resumed.limits.sandbox == ReadOnly()


def test_locked_agents_and_a_required_sandbox_stay_as_they_are() -> None:
    locked = replace(ROOT, role=RoleBrief(locked=True))
    with pytest.raises(UsageError, match="locked"):
        change(locked, sandbox="danger-full-access", widen=True)
    bound = RightsBound(START, sandbox_required="the administrator says so")
    with pytest.raises(UsageError, match="the administrator says so"):
        change(ROOT, bound, sandbox="danger-full-access", widen=True)


def test_requirements_hold_for_wider_rights_and_never_keep_plan_mode_away() -> None:
    held = RequiredChoices(approvals=("on-request",), sandbox_modes=("workspace-write",))
    check_requirements(ROOT, change(ROOT, plan=True), held)
    with pytest.raises(UsageError, match="requirements"):
        check_requirements(ROOT, change(ROOT, sandbox="danger-full-access", widen=True), held)


def test_an_agent_in_a_copy_stays_in_it_in_plan_mode_after_it_and_after_a_resume() -> None:
    in_copy = replace(ROOT, limits=replace(START, isolation="copy"))
    planning = change(in_copy, plan=True)
    assert planning.limits.isolation == "copy"
    assert with_settings(in_copy, settings_of(planning)) == planning
    assert change(planning, plan=False) == in_copy
