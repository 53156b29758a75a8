"""A socket that is older than the run is another program's, wherever it lies."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.users import USERS
from swarm.worker.sandbox.sandbox_probe import probe_sandbox

FACTS = probe_sandbox()
STACKS = [
    pytest.param("bwrap", marks=pytest.mark.skipif(not FACTS.notifies, reason="nobody can look")),
    pytest.param(
        "landlock",
        marks=pytest.mark.skipif(not (FACTS.landlock_abi and FACTS.answers), reason="no broker"),
    ),
]
_CALL = """
import os, socket
def called(path):
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        return "reached"
    except OSError as error:
        return type(error).__name__
print(called("older"))
os.rename("older", "renamed")
os.link("renamed", "linked")
os.chmod("linked", 0o700)
os.utime("linked", (2**32, 2**32))
print(called("renamed"), called("linked"))
own = socket.socket(socket.AF_UNIX)
own.bind("own")
own.listen()
print(called("own"))
"""


def told(work, stack, user, policy, *options, script):
    """The words that it prints, run by `swarm sandbox` as that user."""
    words = [sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_command", "-s", policy]
    words += ["--stack", stack, *options, "-C", str(work), "--", "/usr/bin/python3", "-c", script]
    more = {} if user == os.geteuid() else {"user": user, "group": user, "extra_groups": ()}
    done = subprocess.run(
        words, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=60,
        check=True, **more,
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("network", [(), ("--network",)], ids=["off", "on"])
def test_a_socket_that_was_there_before_the_run_is_refused(stack, user, network):
    work = Path(tempfile.mkdtemp(prefix="swarm-age-", dir="/var/tmp"))
    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(work / "older"))
            door.listen()
            for path in (work, work / "older"):
                os.chown(path, user, -1)
            said = told(work, stack, user, "workspace-write", *network, script=_CALL)
            assert said == [*["PermissionError"] * 3, "reached"]
            door.setblocking(False)
            with pytest.raises(BlockingIOError):
                door.accept()
    finally:
        shutil.rmtree(work)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("network", [(), ("--network",)], ids=["off", "on"])
def test_who_may_write_nothing_reaches_no_socket_of_others(stack, user, network):
    work = Path(tempfile.mkdtemp(prefix="swarm-age-", dir="/var/tmp"))
    script = f"""
import os, socket
for address in ("door", "\\0{work.name}"):
    try:
        socket.socket(socket.AF_UNIX).connect(address)
        print("reached")
    except OSError as error:
        print(type(error).__name__)
own = socket.socket(socket.AF_UNIX)
own.bind("\\0{work.name}-own")
own.listen()
try:
    socket.socket(socket.AF_UNIX).connect("\\0{work.name}-own")
    print("reached")
except PermissionError as error:
    print(type(error).__name__)
os.chdir(os.environ["TMPDIR"])
own = socket.socket(socket.AF_UNIX)
own.bind("own")
own.listen()
socket.socket(socket.AF_UNIX).connect("own")
print("reached")
"""
    try:
        with socket.socket(socket.AF_UNIX) as door, socket.socket(socket.AF_UNIX) as nameless:
            for one, address in ((door, str(work / "door")), (nameless, f"\0{work.name}")):
                one.bind(address)
                one.listen()
            work.chmod(0o755)
            (work / "door").chmod(0o777)
            refused, named_nowhere, own_abstract, own = told(
                work, stack, user, "read-only", *network, script=script
            )
            assert refused == "PermissionError"
            assert named_nowhere in ("PermissionError", "ConnectionRefusedError")
            assert own == "reached"
            # In the machine's network nobody but Landlock's scopes can tell whose a name is.
            is_told = FACTS.landlock_abi >= 6 if stack == "landlock" else not network
            assert own_abstract == ("reached" if is_told else "PermissionError")
    finally:
        shutil.rmtree(work)
