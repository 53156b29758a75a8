"""What a caller may ask for within what the person allowed."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.protocol.settings import SandboxMode
from swarm.mailbox.protocol.values.limits import AskForApproval, Budget
from swarm.supervisor.clients.mcp_server.run_ceiling import (
    SANDBOX_ORDER,
    CallerOptions,
    RunCeiling,
    find_folder,
    narrowed_options,
)

APPROVALS: tuple[AskForApproval, ...] = ("untrusted", "on-failure", "on-request", "never")


def ceiling(
    sandbox: SandboxMode = "workspace-write",
    approval: AskForApproval = "on-request",
    **more: object,
) -> RunCeiling:
    return RunCeiling(sandbox=sandbox, approval=approval, **more)


@pytest.mark.parametrize("most", SANDBOX_ORDER)
@pytest.mark.parametrize("wanted", SANDBOX_ORDER)
def test_a_sandbox_is_never_wider_than_the_ceiling(most, wanted):
    asked = CallerOptions(sandbox=wanted)
    if SANDBOX_ORDER.index(wanted) <= SANDBOX_ORDER.index(most):
        assert narrowed_options(asked, ceiling(most)) == [f"--sandbox={wanted}"]
    else:
        with pytest.raises(UsageError, match="started with"):
            narrowed_options(asked, ceiling(most))


@pytest.mark.parametrize(
    ("most", "allowed"),
    [
        ("untrusted", {"untrusted"}),
        ("on-failure", {"untrusted", "on-failure", "never"}),
        ("on-request", {"untrusted", "on-failure", "on-request", "never"}),
        ("never", {"never"}),
    ],
)
def test_an_approval_policy_is_never_looser(most, allowed):
    for wanted in APPROVALS:
        asked = CallerOptions(approval=wanted)
        if wanted in allowed:
            assert narrowed_options(asked, ceiling(approval=most)) == [f"--approval={wanted}"]
        else:
            with pytest.raises(UsageError, match="asks less"):
                narrowed_options(asked, ceiling(approval=most))


def test_a_permission_profile_cannot_be_replaced_by_a_mode():
    with pytest.raises(UsageError, match="profile 'tight'"):
        narrowed_options(CallerOptions(sandbox="read-only"), ceiling(profile="tight"))


def test_a_caller_may_ask_for_copies_of_the_project_and_for_nothing_less():
    assert narrowed_options(CallerOptions(isolation="copy"), ceiling()) == ["--isolate=children"]
    assert narrowed_options(CallerOptions(isolation="shared"), ceiling()) == []


def test_a_budget_only_falls():
    most = ceiling(budget=Budget(tokens=100, usd=1.0))
    asked = CallerOptions(budget=Budget(tokens=100, usd=0.5))
    assert narrowed_options(asked, most) == ["--budget-tokens=100", "--budget-usd=0.5"]
    for wanted in (Budget(tokens=101), Budget(usd=1.01)):
        with pytest.raises(UsageError, match="over"):
            narrowed_options(CallerOptions(budget=wanted), most)
    assert narrowed_options(CallerOptions(budget=Budget(tokens=5)), ceiling())


@given(st.text())
def test_a_value_stays_the_value_of_its_option(value):
    try:
        options = narrowed_options(CallerOptions(model=value, role=value), ceiling())
    except UsageError:
        assert "\0" in value
    else:
        assert options == ([f"--role={value}", f"--model={value}"] if value else [])


@given(st.lists(st.sampled_from(["..", ".", "a", "inner", "/", "link", "~"])).map("/".join))
def test_a_folder_is_inside_of_the_servers_own(tmp_path_factory, wanted):
    base = tmp_path_factory.getbasetemp() / "served"
    (base / "inner").mkdir(parents=True, exist_ok=True)
    if not (base / "link").is_symlink():
        (base / "link").symlink_to("/")
    try:
        found = find_folder(wanted, str(base), ())
    except UsageError:
        assert not is_within(os.path.realpath(base / wanted), str(base))
    else:
        assert is_within(os.path.realpath(found), str(base))


def test_a_further_folder_can_be_named_and_a_nul_cannot():
    assert find_folder("/srv/other/x", "/work", ("/srv/other",)) == "/srv/other/x"
    with pytest.raises(UsageError, match="outside"):
        find_folder("a\0b", "/work", ())
