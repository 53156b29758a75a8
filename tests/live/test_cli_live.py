"""The doors with a real run behind them: real processes, a scripted model, no network."""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from shutil import rmtree

import pytest

from support.forked_programs import Setting, run_program
from support.scripted_team_run import SWARM
from swarm.mailbox.base.errors import UsageError
from swarm.supervisor.clients.cli.base.sandboxed_script import (
    ScriptSandboxUnavailable,
    run_sandboxed_script,
)

pytestmark = pytest.mark.live
LIMIT_S = 60


@pytest.fixture
def swarm(tmp_path):
    home = tmp_path / "home"
    runtime = tempfile.mkdtemp(prefix="cli")  # short: a socket's path must fit into 107 bytes
    for folder in (home, tmp_path / "work"):
        folder.mkdir(mode=0o700)
    (tmp_path / "quick.yaml").write_text("turns:\n  - text: the answer\ndefault: {text: more}\n")
    (tmp_path / "slow.yaml").write_text("turns:\n  - {text: late, delay_s: 60}\n")

    def call(*words, code=0, **extra):
        environment = {**os.environ, "SWARM_HOME": str(home), "XDG_RUNTIME_DIR": runtime}
        setting = Setting({**environment, **extra}, tmp_path / "work")
        done = run_program([SWARM, *map(str, words)], setting, limit_s=LIMIT_S)
        assert done.returncode == code, done.stderr
        return done

    yield call
    rmtree(runtime)


def run_of(swarm):
    return json.loads(swarm("ps", "--json").stdout.splitlines()[0])


def test_a_run_answers_on_stdout_alone_and_can_be_read_afterwards(swarm, tmp_path):
    provider = f"scripted:{tmp_path}/quick.yaml"
    done = swarm("run", "-p", "Say it.", "--provider", provider, "-o", tmp_path / "out.txt")
    assert done.stdout == "the answer\n"
    assert (tmp_path / "out.txt").read_text() == "the answer"
    run = run_of(swarm)
    assert (run["state"], run["title"]) == ("completed", "Say it.")
    short = run["short_id"]
    assert swarm("result", short).stdout == "the answer\n"
    assert swarm("result", short, "root").stdout == "the answer\n"
    assert "the answer" in swarm("show", short).stdout
    assert "the answer" in swarm("show", short, "root").stdout
    lines = swarm("log", short, "--follow", "--json").stdout.splitlines()
    seqs = [json.loads(line)["seq"] for line in lines]
    assert seqs == sorted(seqs)
    assert json.loads(swarm("watch", short, "--json").stdout)["status"] == "completed"
    assert swarm("resume", short, "-p", "And?").stdout == "more\n"
    assert swarm("rm", short).stdout == f"deleted {short}\n"


def test_json_is_nothing_but_lines_and_ends_with_run_completed(swarm, tmp_path):
    provider = f"scripted:{tmp_path}/quick.yaml"
    done = swarm("run", "-p", "x", "--provider", provider, "--json", "--ephemeral")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[0]["type"] == "thread.started"
    assert (lines[-1]["type"], lines[-1]["status"]) == ("run.completed", "completed")
    assert swarm("ps", "--json").stdout == ""


def test_a_fan_out_has_one_row_an_item(swarm, tmp_path):
    for name in ("one", "two"):
        (tmp_path / "work" / name).mkdir()
    (tmp_path / "fan.yaml").write_text(
        "turns:\n  - {agent: '/root/*', text: 'saw {agent}'}\n  - {agent: /root, text: joined}\n"
    )
    (tmp_path / "t.md").write_text(
        "---\nprovider: scripted:fan.yaml\n"
        "fan_out: {each: {dirs: '*'}, prompt: '{item}?'}\n---\nJoin."
    )
    assert swarm("run", tmp_path / "t.md").stdout == "joined\n"
    rows = swarm("result", run_of(swarm)["short_id"], "--items", "--csv").stdout.splitlines()
    assert rows[1:] == [
        "0,one,completed,/root/one,1,saw /root/one", "1,two,completed,/root/two,1,saw /root/two",
    ]  # fmt: skip


def test_a_detached_run_is_steered_and_ended_from_outside(swarm, tmp_path):
    done = swarm("run", "-p", "x", "--provider", f"scripted:{tmp_path}/slow.yaml", "--detach")
    run = done.stdout.strip()
    assert run_of(swarm)["state"] == "running"
    view = json.loads(swarm("watch", run, "--json").stdout)
    assert [agent["path"] for agent in view["agents"]] in ([], ["/root"])
    assert "is alive" in swarm("rm", run, code=2).stderr
    assert "is alive" in swarm("resume", run, code=2).stderr
    assert "no live agent" in swarm("send", run, "nobody", "x", code=1).stderr
    swarm("kill", run)
    until = time.monotonic() + 20
    while run_of(swarm)["state"] == "running" and time.monotonic() < until:
        time.sleep(0.1)
    assert run_of(swarm)["state"] == "terminated"


def test_keys_reach_no_agent_and_no_file(swarm, tmp_path):
    (tmp_path / "look.yaml").write_text(
        "turns:\n  - calls: [{name: exec_command, arguments: {cmd: 'env; cat /proc/*/environ'}}]\n"
        "  - text: '{last_output}'\n"
    )
    secret = "sk-very-secret-0123456789"
    done = swarm("run", "-p", "x", "--provider", f"scripted:{tmp_path}/look.yaml",
                 OPENAI_API_KEY=secret)  # fmt: skip
    assert "PATH=" in done.stdout
    assert secret not in done.stdout + done.stderr
    files = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert files
    assert all(secret.encode() not in path.read_bytes() for path in files)


def test_the_lines_of_a_command_are_read_in_the_sandbox(tmp_path):
    assert run_sandboxed_script("echo one; echo two >&2; pwd", tmp_path) == f"one\n{tmp_path}\n"
    with pytest.raises(UsageError, match="failed with exit code"):
        run_sandboxed_script("touch made", tmp_path)
    assert not Path(tmp_path, "made").exists()
    with pytest.raises(UsageError, match="exit code 3: bad"):
        run_sandboxed_script("echo bad >&2; exit 3", tmp_path)
    with pytest.raises(UsageError, match=r"longer than 0\.5 s"):
        run_sandboxed_script("sleep 30 & sleep 30", tmp_path, limit_s=0.5)
    with pytest.raises(UsageError, match="more than 8 MiB"):
        run_sandboxed_script("yes", tmp_path)
    with pytest.raises(ScriptSandboxUnavailable, match="not a folder"):
        run_sandboxed_script("true", tmp_path / "gone")


def test_tools_stand_alone(swarm, tmp_path):
    assert swarm("sandbox", "--", "echo", "hi").stdout == "hi\n"
    swarm("sandbox", "--", "/bin/sh", "-c", "exit 7", code=7)
    assert swarm("sandbox", "--", "no-such-program", code=125).stdout == ""
    patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch"
    assert "A new.txt" in swarm("apply-patch", patch).stdout
    assert (tmp_path / "work" / "new.txt").read_text() == "hello\n"
    (meaning,) = json.loads(swarm("parse-command", "--json", "--", "cat", "new.txt").stdout)
    assert meaning["type"] == "read"


def test_doctor_reports_each_check_as_json(swarm):
    done = subprocess.CompletedProcess([], 0)
    for code in (0, 1):  # 1 where a machine lacks what every run needs
        try:
            done = swarm("doctor", "--json", code=code)
            break
        except AssertionError:
            continue
    checks = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert {"sandbox", "state folder", "sockets", "provider openai", "leftovers"} <= set(checks)
    assert all(check["state"] in {"ok", "warn", "fail"} for check in checks.values())
