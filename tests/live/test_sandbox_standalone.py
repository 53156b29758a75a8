"""`swarm sandbox` and the report of `swarm doctor`, as processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

MODULE = [sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_command"]


@pytest.fixture(params=["landlock", "bwrap"])
def stack(request):
    if request.param == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return request.param


def sandbox(*words, **more):
    return subprocess.run([*MODULE, *words], capture_output=True, text=True, timeout=20, **more)


def test_the_commands_code_and_output_are_its_own(tmp_path, stack):
    done = sandbox("--stack", stack, "-C", str(tmp_path), "--", "sh", "-c", "pwd; exit 7")
    assert (done.returncode, done.stdout) == (7, f"{tmp_path}\n")
    died = sandbox("--stack", stack, "--", "sh", "-c", "kill -TERM $$")
    assert died.returncode == 128 + signal.SIGTERM


def test_the_policy_holds_and_nothing_is_left_in_the_folder(tmp_path, stack):
    script = "echo x >file; mkdir .git"
    read = sandbox("--stack", stack, "-C", str(tmp_path), "--", "sh", "-c", script)
    assert read.returncode != 0
    assert os.listdir(tmp_path) == []
    options = ("--stack", stack, "-s", "workspace-write", "-C", str(tmp_path))
    wrote = sandbox(*options, "--", "sh", "-c", "echo x >file")
    assert wrote.returncode == 0
    assert os.listdir(tmp_path) == ["file"]


def test_swarms_own_environment_is_closed_where_it_lies_in_the_folder(stack):
    """The folder above the environment that this test runs in; the reason is said."""
    prefix, name = os.path.split(os.path.realpath(sys.prefix))
    options = ("--stack", stack, "-s", "workspace-write", "-C", prefix)
    done = sandbox(*options, "--", "sh", "-c", f"mkdir {name}/made-by-a-test")
    was_made = os.path.isdir(f"{sys.prefix}/made-by-a-test")
    if was_made:
        os.rmdir(f"{sys.prefix}/made-by-a-test")
    assert (done.returncode == 0, was_made) == (False, False)
    assert "read-only, since swarm itself lies there: " in done.stderr
    assert f"{prefix}/{name}" in done.stderr


def test_hidden_folders_and_secrets_are_not_passed_on(tmp_path, stack):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/secret").write_text("hush")
    options = ("--stack", stack, "--hide", str(tmp_path / "runs"), "-C", str(tmp_path))
    script = 'cat runs/secret; echo "[$MY_API_KEY]"'
    done = sandbox(*options, "--", "sh", "-c", script, env={**os.environ, "MY_API_KEY": "hush"})
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-s", "open", "--", "ls"], "unknown policy"),
        (["--", "no-such-program"], "no program"),
        ([], "no command"),
        (["-s", "danger-full-access", "--", "/etc/passwd"], "(exec)|no program"),
    ],
)
def test_failures_of_its_own_are_125(words, reason):
    done = sandbox(*words)
    assert done.returncode == 125
    assert any(part in done.stderr for part in reason.split("|"))


def test_a_termination_is_handed_on(stack):
    argv = [*MODULE, "--stack", stack, "--", "sh", "-c", "echo up; exec sleep 60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        started = time.monotonic()
        process.terminate()
        assert process.wait(timeout=10) == 128 + signal.SIGTERM
        assert time.monotonic() - started < 10


def test_the_report_is_json_for_doctor():
    argv = [sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_report"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    report = json.loads(done.stdout)
    assert {one["name"] for one in report["findings"]} >= {"bwrap", "landlock", "seccomp"}
    assert (done.returncode == 0) is (report["stack"] != "none")
