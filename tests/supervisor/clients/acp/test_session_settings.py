"""Modes and options of an editor, and what they mean for a run."""

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.control import ChangeSettings
from swarm.mailbox.protocol.records import AgentSpawned, Record, SettingsChanged
from swarm.mailbox.protocol.settings import AgentSettings
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, ReadOnly, WorkspaceWrite
from swarm.supervisor.clients.acp.session_settings import (
    SessionSettings,
    config_options,
    mode_state,
    settings_of_records,
    with_option,
)


def test_a_new_session_widens_nothing_that_the_configuration_says():
    assert SessionSettings().run_options() == {"reviewer": "person"}


def test_a_chosen_mode_names_sandbox_and_approval():
    chosen = SessionSettings(mode="ask", model="m", effort="low").run_options()
    assert chosen == {
        "reviewer": "person",
        "sandbox": "workspace-write",
        "approval": "untrusted",
        "model": "m",
        "effort": "low",
    }


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (SessionSettings(), SessionSettings(), None),
        (SessionSettings(), SessionSettings(model="m"), ChangeSettings(agent="/root", model="m")),
        (
            SessionSettings(model="m"),
            SessionSettings(),
            ChangeSettings(agent="/root", model=""),
        ),
        (
            SessionSettings(),
            SessionSettings(mode="read-only"),
            ChangeSettings(agent="/root", sandbox="read-only", approval="on-request", widen=True),
        ),
    ],
)
def test_a_run_is_told_what_differs_alone(before, after, change):
    assert after.change_from(before) == change


def test_the_default_mode_cannot_come_back():
    with pytest.raises(UsageError, match="read-only, ask, auto"):
        SessionSettings().change_from(SessionSettings(mode="ask"))


@pytest.mark.parametrize(
    ("limits", "mode"),
    [
        (Limits(sandbox=ReadOnly()), "read-only"),
        (Limits(sandbox=WorkspaceWrite(), approval="untrusted"), "ask"),
        (Limits(sandbox=WorkspaceWrite()), "auto"),
        (Limits(sandbox=WorkspaceWrite(), approval="never"), "default"),
        (Limits(sandbox=DangerFullAccess()), "default"),
    ],
)
def test_a_loaded_session_has_the_mode_that_its_root_has_now(limits, mode):
    spawned = AgentSpawned(agent_id="a", path="/root", epoch=1, pid=1, model="old")
    changed = SettingsChanged(agent_id="a", settings=AgentSettings(model="m", limits=limits))
    bodies = [spawned, changed]
    records = [
        Record(seq=number, ts=0.0, body=body, agent="/root") for number, body in enumerate(bodies)
    ]
    assert settings_of_records(records) == SessionSettings(mode=mode, model="m")


def test_what_is_chosen_is_always_among_the_values():
    settings = SessionSettings(mode="ask", model="unheard", effort="other")
    for option in config_options(settings, ("a", "b")):
        assert option.current_value in {one.value for one in option.options}
    state = mode_state(settings)
    assert state.current_mode_id in {mode.id for mode in state.available_modes}


@pytest.mark.parametrize(
    ("option", "value"),
    [("model", ""), ("model", "x" * 201), ("effort", "much"), ("mode", "root"), ("none", "x")],
)
def test_a_value_that_does_not_exist_is_refused(option, value):
    with pytest.raises(UsageError):
        with_option(SessionSettings(), option, value)
