"""`swarm leases`: what runs and what waits on this machine, as a table and as JSON."""

import json
import time

import pytest

from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.parts.leases.lease_messages import HeavyCommandEnded
from swarm.supervisor.clients.cli.main import run_cli
from swarm.supervisor.parts.leases.command_costs import add_cost
from swarm.supervisor.parts.leases.lease_folder import LeaseFolder
from swarm.supervisor.parts.leases.lease_scheduler import Ticket


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    """A home and a runtime folder that are empty."""
    monkeypatch.setenv("SWARM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    return tmp_path / "swarm"


@pytest.fixture
def run(runtime):
    """A run with one command that runs and one that waits."""
    name, now = new_uuid7(), time.monotonic()
    common = {"run": name, "kind": "test", "asked_s": now, "memory_bytes": 3 << 20, "cpus": 1.0}
    tickets = (
        Ticket(number=2, agent="/root/b", command="npm test", **common),
        Ticket(number=1, agent="/root/a", command="pytest \x1b[2J", given_s=now, **common),
    )
    runtime.mkdir()
    folder = LeaseFolder(runtime / "leases", name)
    with folder.open_exclusive() as shared:
        shared.publish(tickets, now)
    yield name
    folder.close()


def test_without_heavy_commands_it_says_so_and_makes_nothing(runtime, capsys):
    assert run_cli(["leases"]) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert "no heavy command runs or waits" in told.err
    assert "this machine: " in told.err
    assert not runtime.exists()


def test_the_table_has_running_ones_first_and_no_control_characters(run, runtime, capsys):
    (runtime.parent / "home" / "config.toml").write_text("[leases]\nmost = 1\n")
    assert run_cli(["leases"]) == 0
    told = capsys.readouterr()
    rows = [line.split() for line in told.out.splitlines()]
    assert [(row[0], row[2], row[-1]) for row in rows] == [
        ("runs", "/root/a", "⟨ESC⟩[2J"), ("waits", "/root/b", "test")
    ]  # fmt: skip
    assert "\x1b" not in told.out
    assert "the first one waits: 1 run, and 1 may at once" in told.err


def test_json_tells_the_same_to_a_program(run, runtime, capsys):
    (runtime.parent / "home" / "config.toml").write_text("[leases]\nmost = 1\nenabled = false\n")
    assert run_cli(["leases", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert not told["enabled"]
    assert told["waits_for"] == "1 run, and 1 may at once"
    assert [(one["state"], one["agent"], one["run"]) for one in told["leases"]] == [
        ("running", "/root/a", run), ("waiting", "/root/b", run)
    ]  # fmt: skip
    assert told["machine"]["processors"] >= 1


def test_what_was_learned_is_listed(runtime, capsys):
    runs = runtime.parent / "home" / "state" / "runs"
    runs.mkdir(parents=True)
    ended = HeavyCommandEnded(
        kind="test", command="pytest -q", head="pytest", cwd="/w", seconds=61.0, cpu_s=90.0,
        peak_bytes=5 << 20, exit_code=0,
    )  # fmt: skip
    add_cost(runs, ended)
    assert run_cli(["leases", "--learned"]) == 0
    assert capsys.readouterr().out.split() == [
        "test", "1", "1", "m", "01", "s", "5", "MiB", "/w", "pytest", "-q"
    ]  # fmt: skip
    assert run_cli(["ps"]) == 0  # and is no run


def test_a_folder_that_stays_locked_is_an_error_with_advice(run, runtime, capsys, monkeypatch):
    monkeypatch.setattr("swarm.supervisor.parts.leases.commands.leases_command._LOOKS", 2)
    other = LeaseFolder(runtime / "leases", "other")
    with other.open_exclusive():
        assert run_cli(["leases"]) == 1
    other.close()
    assert "stays locked" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "code", "words"),
    [
        ("most = -1", 2, "leases.most: must be between"),
        ("max_wait = '0'", 2, "leases.max_wait"),
        ("commands = { make = 'loud' }", 0, "leases.commands"),  # no other key is lost by it
    ],
)
def test_a_wrong_configuration_is_named(runtime, capsys, table, code, words):
    (runtime.parent / "home" / "config.toml").write_text(f"[leases]\n{table}\n")
    assert run_cli(["leases"]) == code
    assert words in capsys.readouterr().err
