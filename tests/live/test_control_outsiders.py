"""Who may steer a run: a living process that no run has started, and nobody else."""

import os
import shutil
import subprocess
import sys

import pytest

from swarm.mailbox.base.process_tree import descendants_of
from swarm.supervisor.control_requests.caller_rights import CallerFacts, judge_caller, refusal_for

pytestmark = pytest.mark.live
CLEAN = {"PATH": "/usr/bin:/bin"}
TITLED = (
    "import setproctitle, subprocess, sys; setproctitle.setproctitle(sys.argv[1]);"
    "subprocess.run(sys.argv[2:], env={})"
)


def asleep(*before: str, env: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    """A process that has said its pid, below what is started before it."""
    words = [*before, "/bin/sh", "-c", "echo $$; exec sleep 60"]
    return subprocess.Popen(
        words, env=CLEAN if env is None else env, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def told_pid(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def end(process: "subprocess.Popen[str]") -> None:
    os.killpg(process.pid, 9)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def judged_by_another(pid: int) -> str:
    """What a supervisor says that is no ancestor of that process, as another run's is."""
    script = "import sys; from swarm.supervisor.control_requests.caller_rights import refusal_for"
    words = [sys.executable, "-P", "-c", f"{script}; print(refusal_for({pid}))"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_a_process_of_ones_own_has_no_rights_alive_or_dead():
    child = asleep()
    assert "process of a run" in refusal_for(told_pid(child))
    end(child)
    assert "gone" in refusal_for(child.pid)  # who asked and left may have been anybody


def test_a_caller_whom_the_kernel_does_not_name_has_no_rights():
    assert refusal_for(None)
    assert refusal_for(0)


def test_who_was_there_before_is_an_outsider():
    assert refusal_for(os.getppid()) == ""
    assert refusal_for(os.getpid()) == ""  # the panel of this very terminal


@pytest.mark.parametrize(
    "title", ["swarm: launcher of /root/a [default] 01234567", "swarm: sandbox ls", "swarm: spare"]
)
def test_what_descends_from_another_runs_process_has_no_rights(title):
    child = asleep(sys.executable, "-c", TITLED, title, "/usr/bin/setsid", env=dict(os.environ))
    try:
        assert "process of a run" in judged_by_another(told_pid(child))
    finally:
        subprocess.run(["/bin/kill", "-9", *_below(child.pid)], check=False)
        end(child)


def _below(pid: int) -> list[str]:
    return [str(one) for one in descendants_of(pid)]


def test_a_persons_process_beside_the_run_has_rights():
    child = asleep()
    try:
        assert judged_by_another(told_pid(child)) == ""
    finally:
        end(child)


@pytest.mark.parametrize("name", ["SWARM_COMMAND", "SWARM_THREAD_ID"])
def test_an_orphan_of_a_command_is_known_by_its_mark(name):
    child = asleep(env={**CLEAN, name: "1-1"})
    try:
        assert "left behind" in judged_by_another(told_pid(child))
    finally:
        end(child)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_process_in_other_namespaces_has_no_rights():
    words = ("bwrap", "--unshare-user", "--unshare-pid", "--dev-bind", "/", "/", "/bin/sleep", "60")
    with subprocess.Popen(words, env=CLEAN) as child:
        try:
            while not (below := _below(child.pid)[1:]):
                assert child.poll() is None
            assert "container" in judged_by_another(int(below[0]))
        finally:
            child.kill()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, ""),
        ({"ancestors": (9, 4, 1)}, "process of a run"),
        ({"titles": ("sh", "swarm: gateway", "init")}, "process of a run"),
        ({"is_marked": True}, "left behind"),
        ({"is_confined": True}, "confined"),
        ({"is_elsewhere": True}, "container"),
    ],
)
def test_one_reason_is_enough(change, word):
    standing = CallerFacts(
        ancestors=(9, 1), titles=("sh", "/usr/bin/swarm: x"), is_marked=False, is_confined=False,
        is_elsewhere=False,
    )._replace(**change)  # fmt: skip
    said = judge_caller(standing, 4)
    assert word in said
    assert bool(said) is bool(word)
