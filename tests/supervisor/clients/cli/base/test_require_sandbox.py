"""`--require-sandbox`: what this machine cannot keep ends the command before anything starts.

The program that tries the sandbox is the interpreter; a small script stands in for it where the
machine has to be a weak one.
"""

import shlex
import subprocess
import sys

import msgspec
import pytest

from swarm.supervisor.clients.cli.base.require_sandbox import check_required_sandbox
from swarm.supervisor.clients.cli.main import run_cli
from swarm.supervisor.processes import machine_sandbox
from swarm.supervisor.processes.machine_sandbox import SandboxMissing

WEAK = '{"stack":"landlock","guarantees":["fs"],"findings":[],"locks_roles":true}'
OPEN = '{"stack":"bwrap","guarantees":["fs","net"],"findings":[]}'
BARE = '{"stack":"none","guarantees":[],"findings":[]}'


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Let the probe be a script of these lines; returns the file that holds its arguments."""

    def become(*lines):
        script, seen = tmp_path / "interpreter", tmp_path / "arguments"
        kept = f'printf "%s\\n" "$@" >{shlex.quote(str(seen))}'
        script.write_text("\n".join(["#!/bin/sh", kept, *lines, ""]))
        script.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(script))
        return seen

    return become


def reports(text, *, code=0):
    return (f"printf '%s\\n' {shlex.quote(text)}", f"exit {code}")


def test_what_this_machine_says_it_keeps_may_be_required():
    words = [sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_report"]
    done = subprocess.run(words, capture_output=True, timeout=30)
    kept = msgspec.json.decode(done.stdout)["guarantees"]
    check_required_sandbox(kept)
    assert set(kept) <= {"fs", "net"}


def test_nothing_is_tried_where_nothing_is_required(machine):
    seen = machine(*reports(BARE))
    check_required_sandbox(())
    assert not seen.exists()


def test_the_sandbox_is_tried_by_its_own_report_and_not_from_the_folder_it_is_called_in(machine):
    seen = machine(*reports(WEAK))
    check_required_sandbox(("fs",))
    assert seen.read_text().split() == ["-P", "-m", "swarm.worker.programs.sandbox_report"]


@pytest.mark.parametrize(
    ("report", "code", "required", "missing"),
    [
        (WEAK, 0, ("net",), "cannot guarantee net;"),
        (WEAK, 0, ("fs", "net"), "cannot guarantee net;"),
        (BARE, 1, ("fs", "net"), "cannot guarantee fs and net;"),
        ("{}", 0, ("fs",), "cannot guarantee fs;"),
    ],
)
def test_what_the_machine_cannot_keep_is_named(machine, report, code, required, missing):
    machine(*reports(report, code=code))
    with pytest.raises(SandboxMissing) as caught:
        check_required_sandbox(required)
    text = str(caught.value)
    assert caught.value.exit_code == 6
    assert f"--require-sandbox {','.join(required)}:" in text
    assert missing in text
    assert "`swarm doctor`" in text


def test_read_only_roles_that_could_not_lock_their_processes_are_no_required_wall(machine):
    machine(*reports(OPEN))
    with pytest.raises(SandboxMissing, match="has no Landlock") as caught:
        check_required_sandbox(("fs", "net"))
    assert caught.value.exit_code == 6
    check_required_sandbox(("net",))


@pytest.mark.parametrize(
    "lines",
    [
        ("exit 1",),
        ("echo Traceback; exit 1",),
        reports('{"guarantees":"fs,net"}'),
        reports('["fs","net"]'),
        (r"""printf '{"guarantees":["fs","\377"]}\n'""",),
        ("kill -9 $$",),
    ],
)
def test_a_report_that_cannot_be_read_guarantees_nothing(machine, lines):
    machine(*lines)
    with pytest.raises(SandboxMissing, match="cannot be tried"):
        check_required_sandbox(("fs",))


def test_a_probe_that_cannot_be_started_guarantees_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    with pytest.raises(SandboxMissing, match="cannot be tried"):
        check_required_sandbox(("fs",))


def test_a_probe_that_never_answers_guarantees_nothing(machine, monkeypatch):
    monkeypatch.setattr(machine_sandbox, "_PROBE_LIMIT_S", 0.2)
    machine("exec sleep 60")
    with pytest.raises(SandboxMissing, match="timed out"):
        check_required_sandbox(("net",))


def test_a_run_that_asks_for_more_than_the_machine_keeps_starts_nothing(
    machine, tmp_path, monkeypatch, capsys
):
    home, work = tmp_path / "home", tmp_path / "work"
    for folder in (home, work):
        folder.mkdir()
    (work / "script.yaml").write_text("turns:\n  - text: the answer\n")
    monkeypatch.chdir(work)
    monkeypatch.setenv("SWARM_HOME", str(home))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    machine(*reports(WEAK))
    words = ["run", "-p", "x", "--provider", "scripted:script.yaml", "--require-sandbox", "fs,net"]
    assert run_cli(words) == 6
    told = capsys.readouterr()
    assert told.out == ""
    assert "cannot guarantee net" in told.err
    assert not list(home.rglob("runs/*"))
