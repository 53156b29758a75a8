"""A command may make terminals and use them; those of other sessions stay closed to it."""

import os
import pty
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.users import USERS
from swarm.worker.sandbox.sandbox_probe import probe_sandbox

STACKS = [
    pytest.param(
        "bwrap", marks=pytest.mark.skipif(not probe_sandbox().bwrap, reason="no bubblewrap")
    ),
    pytest.param(
        "landlock",
        marks=pytest.mark.skipif(
            not (probe_sandbox().landlock_abi and probe_sandbox().answers), reason="no broker"
        ),
    ),
]
pytestmark = [pytest.mark.parametrize("user", USERS), pytest.mark.parametrize("stack", STACKS)]


@pytest.fixture
def work(user):
    folder = Path(tempfile.mkdtemp(prefix="swarm-terminals-", dir="/var/tmp"))
    os.chown(folder, user, -1)
    yield folder
    shutil.rmtree(folder)


def started(work, stack, user, *argv, policy="workspace-write"):
    words = [sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_command", "-s", policy]
    words += ["--stack", stack, "-C", str(work), "--", *argv]
    more = {} if user == os.geteuid() else {"user": user, "group": user, "extra_groups": ()}
    return subprocess.Popen(
        words, env={"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more,
    )  # fmt: skip


def ran(work, stack, user, *argv, **more):
    with started(work, stack, user, *argv, **more) as process:
        said, _ = process.communicate(timeout=60)
        return process.returncode, said


_PYTHON = """
import fcntl, os, pty, sys
def heard(fd):
    text = b""
    while not text.endswith(b"."):
        text += os.read(fd, 99)
    return text
pid, fd = pty.fork()
if pid == 0:
    with open("/dev/tty", "w") as own:
        print(os.ttyname(0) == os.ttyname(1), end=".", file=own)
    os._exit(0)
assert heard(fd) == b"True."
os.waitpid(pid, 0)
master, slave = pty.openpty()
for other in (
    os.open(os.ttyname(slave), os.O_RDWR | os.O_NOCTTY),
    os.open(f"/dev/fd/{slave}", os.O_WRONLY | os.O_NOCTTY),
    fcntl.ioctl(master, 0x5441, os.O_RDWR | os.O_NOCTTY),
):
    os.write(other, b"hello.")
    assert heard(master) == b"hello."
os.close(other)
print("worked")
"""
WORK = {
    "python": (("/usr/bin/python3", "-c", _PYTHON), "python3"),
    "script": (
        (
            "/bin/sh", "-c",
            "script -qec 'echo work >/dev/stdout; echo ed >/dev/tty' /dev/null </dev/null | "
            "tr -d '\\r\\n'",
        ),
        "script",
    ),
    "tmux": (
        (
            "/bin/sh", "-c",
            "mkfifo p; tmux -L x new-session -d 'exec sleep 60' && tmux -L x ls && "
            "tmux -L x new-window 'tty >p' && grep -q /dev/pts p && "
            "tmux -L x kill-server && echo worked",
        ),
        "tmux",
    ),
    "expect": (
        ("/usr/bin/expect", "-c", "spawn cat; send worked\\r; expect worked; exit 0"), "expect",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WORK)
def test_what_makes_terminals_works(work, stack, user, name):
    argv, program = WORK[name]
    if shutil.which(program, path="/usr/bin:/bin") is None:
        pytest.skip(f"{program} is not installed")
    code, said = ran(work, stack, user, *argv)
    assert (code, "worked" in said) == (0, True), said


def test_a_command_that_may_write_nothing_has_terminals_too(work, stack, user):
    code, said = ran(work, stack, user, "/usr/bin/python3", "-c", _PYTHON, policy="read-only")
    assert (code, said) == (0, "worked\n")


_OTHERS = """
import fcntl, os, sys, termios
for path in sys.argv[1:]:
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK):
        try:
            fd = os.open(path, flags)
            print("opened", path, flags)
            fcntl.ioctl(fd, termios.TIOCSTI, b"!")
            print("typed into", path)
            os.read(fd, 1)
        except OSError:
            pass
os.symlink(sys.argv[1], "link")
for path in ("link", f"/dev/../{sys.argv[1]}"):
    try:
        os.open(path, os.O_RDWR | os.O_NOCTTY)
        print("opened", path)
    except OSError:
        pass
print("tried")
"""


def test_terminals_of_other_sessions_are_closed(work, stack, user):
    master, slave = pty.openpty()
    try:
        name = os.ttyname(slave)
        os.chown(name, user, -1)
        os.chmod(name, 0o666)
        paths = (name, f"/proc/{os.getpid()}/fd/{slave}", f"/proc/{os.getpid()}/fd/{master}")
        code, said = ran(work, stack, user, "/usr/bin/python3", "-c", _OTHERS, *paths)
        assert (code, said) == (0, "tried\n")
        os.set_blocking(master, False)
        with pytest.raises(BlockingIOError):
            os.read(master, 1)
    finally:
        os.close(master)
        os.close(slave)


_AGAIN = """
import os, pty, sys
master, slave = pty.openpty()
name = os.ttyname(slave)
os.close(slave)
os.close(master)
print(name, flush=True)
sys.stdin.readline()
for flags in (os.O_WRONLY, os.O_RDWR | os.O_NOCTTY):
    try:
        os.open(name, flags)
        print("opened", flags)
    except OSError:
        pass
print("tried", flush=True)
"""


def test_a_number_that_was_its_own_opens_nobody_elses_terminal(work, stack, user):
    made = []
    with started(work, stack, user, "/usr/bin/python3", "-c", _AGAIN) as process:
        try:
            name = process.stdout.readline().strip()
            assert name.startswith("/dev/pts/")
            for _ in range(64):  # until it is ours
                made.append(pty.openpty())
                if os.ttyname(made[-1][1]) == name:
                    break
            os.chown(os.ttyname(made[-1][1]), user, -1)
            said, _ = process.communicate("go\n", timeout=60)
            assert said == "tried\n"
        finally:
            process.kill()
            for one in made:
                os.close(one[0])
                os.close(one[1])
