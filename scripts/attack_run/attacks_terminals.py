"""Terminals: the person's own take no letter from a command, and a command may make its own."""

import os
import pty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attack import Attack, Call, command
from attack_testbed import AttackTestbed

_REACH = """
import fcntl, os, pty, termios
name = open("terminal").read()
def attempt(path, flags):
    try:
        fd = os.open(path, flags)
        print("OPE" + "NED", path)
        fcntl.ioctl(fd, termios.TIOCSTI, b"!")
        os.write(fd, b"!")
    except OSError as error:
        print(error)
os.symlink(name, "link")
for path in (name, "link", f"/proc/self/cwd/{name}"):
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_NOCTTY):
        attempt(path, flags)
for _ in range(40):  # numbers that were its own once
    master, slave = pty.openpty()
    os.close(slave)
    os.close(master)
attempt(name, os.O_RDWR | os.O_NOCTTY)
"""
_MAKE = """
import os, pty
pid, fd = pty.fork()
if pid == 0:
    open("/dev/tty", "w").write("it " + os.ttyname(0).replace("/dev/pts/", "answers "))
    os._exit(0)
print(os.read(fd, 99).decode())
"""


def _python(script: str) -> Callable[[AttackTestbed], list[Call]]:
    return lambda scene: [command(f"python3 - <<'END'\n{script}\nEND")]


@contextmanager
def _terminal(scene: AttackTestbed) -> Iterator[None]:
    """Of another session of the same user."""
    master, slave = pty.openpty()
    try:
        name = os.ttyname(slave)
        if scene.user is not None:
            os.chown(name, scene.user.pw_uid, -1)
        (scene.project / "terminal").write_text(name, "utf-8")
        yield
        os.set_blocking(master, False)
        try:
            os.read(master, 1)
        except BlockingIOError:
            return
        (scene.project / "terminal").write_text("written to", "utf-8")
    finally:
        os.close(master)
        os.close(slave)


def _reached(scene: AttackTestbed) -> str:
    written = (scene.project / "terminal").read_text("utf-8") == "written to"
    return "another session's terminal was reached" if written or "OPENED" in scene.output else ""


def _made(scene: AttackTestbed) -> str:
    return "" if "it answers" in scene.output else "no terminal could be made"


PLAYS = (
    Attack(
        name="open the terminal of another session, type into it",
        background=_terminal, calls=_python(_REACH), find_escape=_reached, fast=True,
    ),
    Attack(
        name="make a terminal of one's own",
        calls=_python(_MAKE), find_escape=_made, must_work=True, fast=True,
    ),
)  # fmt: skip
