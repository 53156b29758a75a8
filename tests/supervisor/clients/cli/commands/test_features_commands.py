"""A feature that is off takes away what it says, and is switched from the command line."""

import json
import tomllib
from operator import attrgetter

import pytest

from support.nested_fields import with_fields
from swarm.mailbox.protocol.values.limits import Granular
from swarm.roles.config.layers.features import resolve_features
from swarm.supervisor.clients.cli.main import run_cli
from swarm.supervisor.clients.cli.run_setup.request_parts import (
    REVIEWER_OFF_WARNING,
    apply_features,
)
from swarm.supervisor.processes.shell_snapshot import ShellSnapshot
from swarm.supervisor.request.run_request import RunRequest


def applied(*, warnings=None, said=None, **request):
    switched = resolve_features(said or {})
    return apply_features(
        with_fields(RunRequest(cwd="/"), **request), switched, [] if warnings is None else warnings
    )


def test_with_all_on_nothing_is_changed():
    assert applied(reviewer="guardian") == with_fields(RunRequest(cwd="/"), reviewer="guardian")


def test_without_teams_nobody_may_start_an_agent():
    assert applied(said={"multi_agent": False}).team.max_depth == 0


def test_without_the_reviewer_nobody_is_asked_in_its_place():
    warnings = []
    said = {"guardian_approval": False}
    assert applied(said=said, warnings=warnings, reviewer="guardian").approvals.reviewer == "nobody"
    assert warnings == [REVIEWER_OFF_WARNING]
    assert applied(said=said, reviewer="person").approvals.reviewer == "person"


def test_without_the_tool_no_rights_are_asked_for_and_all_else_is():
    said = {"request_permissions_tool": False}
    asks = applied(said=said, approval="on-request").approvals.granular
    assert asks == Granular(skill_approval=True, request_permissions=False)
    muted = Granular(rules=False, request_permissions=True)
    kept = applied(said=said, approval="on-request", granular=muted).approvals.granular
    assert kept == Granular(rules=False, request_permissions=False)
    assert applied(said=said, approval="never").approvals.granular is None


@pytest.mark.parametrize("name", ["shell_snapshot", "inherited.prewarmed_sandbox"])
def test_a_switch_that_is_a_field_of_the_request_sets_it(name):
    request = applied(said={name.rpartition(".")[2]: False})
    assert attrgetter(name)(request) is False


async def test_a_shell_that_is_not_to_be_asked_is_left_alone(tmp_path):
    shell = tmp_path / "bash"
    shell.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    shell.chmod(0o700)
    given = {"SHELL": str(shell), "A": "1", "KEY": "x"}
    snapshot = ShellSnapshot(given, withheld=("KEY",), asked=False)
    assert await snapshot.get() == {"SHELL": str(shell), "A": "1"}
    assert not (tmp_path / "asked").exists()


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SWARM_HOME", str(tmp_path))
    monkeypatch.chdir("/usr")
    return tmp_path


def test_a_feature_is_switched_for_good_and_listed(home, capsys):
    assert run_cli(["features", "disable", "collab"]) == 0
    assert "Disabled feature `multi_agent`" in capsys.readouterr().out
    assert tomllib.loads((home / "config.toml").read_text()) == {"features": {"multi_agent": False}}
    assert run_cli(["features", "list", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["name"]: line["enabled"] for line in lines}["multi_agent"] is False
    assert [line["name"] for line in lines] == sorted(line["name"] for line in lines)
    assert run_cli(["features", "enable", "multi_agent"]) == 0
    assert run_cli(["features", "list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows if "false" in row] == ["memories"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["features", "enable", "nope"], "Unknown feature flag: nope"),
        (["run", "-p", "x", "--enable", "nope"], "Unknown feature flag: nope"),
        (["run", "-p", "x", "-c", "features.multi_agent=3"], "features.*: must be true or false"),
        (["run", "-p", "x", "-c", 'shell_environment_policy.exclude=["A=B"]'],
         "shell_environment_policy.exclude: 'A=B' is not a pattern"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_before_anything_starts(home, capsys, words, said):
    assert run_cli(words) == 2
    assert said in capsys.readouterr().err
