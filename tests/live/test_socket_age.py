"""A socket that is older than the run is another program's, also in a folder the command may write."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from swarm.worker.sandbox.probe import probe_sandbox

FACTS = probe_sandbox()
STACKS = [
    pytest.param("bwrap", marks=pytest.mark.skipif(not FACTS.notifies, reason="nobody can look")),
    pytest.param(
        "landlock",
        marks=pytest.mark.skipif(not (FACTS.landlock_abi and FACTS.answers), reason="no broker"),
    ),
]
USERS = [
    pytest.param(os.geteuid(), id="this-user"),
    pytest.param(
        65534, id="another",
        marks=pytest.mark.skipif(os.geteuid() != 0, reason="it becomes another user"),
    ),
]  # fmt: skip
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
            words = [sys.executable, "-P", "-m", "swarm.worker.sandbox.standalone"]
            words += ["-s", "workspace-write", "--stack", stack, *network, "-C", str(work), "--"]
            more = {"user": user, "group": user, "extra_groups": ()}
            done = subprocess.run(
                [*words, "/usr/bin/python3", "-c", _CALL], env={"PATH": "/usr/bin:/bin"},
                capture_output=True, text=True, timeout=60, check=False,
                **({} if user == os.geteuid() else more),
            )  # fmt: skip
            assert done.stdout.split() == [*["PermissionError"] * 3, "reached"], done.stderr
            door.setblocking(False)
            with pytest.raises(BlockingIOError):
                door.accept()
    finally:
        shutil.rmtree(work)
