"""SIGKILL of the supervisor leaves no process of the run, whatever state the others were in."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import trio

from support.paths import PROGRAMS, TESTS

SCENARIOS = str(PROGRAMS / "supervisor_programs.py")
LIMIT_S = 30
GONE_LIMIT_S = 20  # `scripts/benches/many_agents_bench.py` measures how soon

pytestmark = pytest.mark.live


def holders(token: str) -> list[int]:
    """Every living process whose arguments hold the token: agents by title, tools by argv."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if token.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.fixture
def no_leftovers() -> Iterator[list[int]]:
    """A failing test must not leave what it started."""
    pidfds: list[int] = []
    yield pidfds
    for pidfd in pidfds:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)


@pytest.mark.parametrize(
    "how",
    [
        (),
        ("stopped",),
        ("no-server",),
        ("no-server", "stopped"),
        ("new-server",),
        ("new-server", "stopped"),
    ],
    ids=lambda how: "-".join(how) or "healthy",
)
async def test_nothing_outlives_a_killed_supervisor(how, no_leftovers):
    token = f"token-{os.getpid()}-{'-'.join(how)}"
    command = [sys.executable, "-P", SCENARIOS, "supervise", token, *how]
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    with trio.fail_after(LIMIT_S):
        process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, env=environment)
        async with process.stdout:
            pids = msgspec.json.decode(await process.stdout.receive_some(4096))
            everyone = {*pids, *holders(token)} - {process.pid}
            no_leftovers += [os.pidfd_open(pid) for pid in everyone]
            tools = [pid for pid in everyone if pid not in pids]
            assert len(tools) >= 2, "the daemons run"
            process.kill()
            with trio.fail_after(GONE_LIMIT_S):
                for pidfd in no_leftovers:
                    await trio.lowlevel.wait_readable(pidfd)
            assert holders(token) == []
            await process.wait()
