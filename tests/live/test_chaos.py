"""A few plays under fire: whatever is thrown, no promise is broken. Longer ones: scripts/chaos."""

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from swarm.mailbox.base.process_tree import descendants_of, is_zombie

pytestmark = pytest.mark.live
MAIN = Path(__file__).parents[2] / "scripts" / "chaos_run" / "main.py"
LIMIT_S = 150


@pytest.mark.parametrize("seed", [4, 11, 23])
def test_a_run_under_fire_keeps_every_promise(seed):
    words = ["--seed", str(seed), "--tree", "0", "--fire", "6", "--json"]
    done = subprocess.run(
        [sys.executable, "-P", str(MAIN), *words],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    play, totals = map(json.loads, done.stdout.splitlines())
    assert play["violations"] == [], done.stdout
    assert play["faults"] > 3
    assert (done.returncode, totals["totals"]["broken"]) == (0, 0)


def test_a_wrong_option_is_refused_before_anything_is_started():
    done = subprocess.run(
        [sys.executable, "-P", str(MAIN), "--seed", "1", "--minutes", "0"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "--minutes" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_whoever_stops_it_leaves_neither_its_run_nor_its_model_server_behind(number):
    words = [sys.executable, "-P", str(MAIN), "--seed", "4", "--tree", "0"]
    with trio.fail_after(60):
        done = await trio.lowlevel.open_process(words, stdin=subprocess.DEVNULL)
        try:
            while not (below := _of_a_run(done.pid)):  # noqa: ASYNC110 — /proc tells no event
                await trio.sleep(0.02)
            done.send_signal(number)
            assert await done.wait() == 130
            while any(map(_lives, below)):  # noqa: ASYNC110 — a killed process takes a moment
                await trio.sleep(0.02)
        finally:
            done.kill()


def _of_a_run(pid: int) -> set[tuple[int, bytes]]:
    """All below the program, as soon as an agent is among them."""
    found = {(one, _title(one)) for one in descendants_of(pid)}
    titles = [title for _, title in found]
    names = (b"/root", b"chaos_model_server.py")
    whole = all(any(name in title for title in titles) for name in names)
    return found if whole else set()


def _lives(one: tuple[int, bytes]) -> bool:
    return not is_zombie(one[0]) and _title(one[0]) == one[1]


def _title(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


_STARTER = """
import os, sys
from pathlib import Path
from chaos_testbed import ChaosTestbed
print(ChaosTestbed(Path(sys.argv[1]), has_disk=False).start_model("4/0").pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_model_server_does_not_outlive_who_started_it(tmp_path):
    words = [sys.executable, "-P", "-c", _STARTER, str(tmp_path / "stage")]
    environment = {**os.environ, "PYTHONPATH": str(MAIN.parent)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        model = os.pidfd_open(pid)
        try:
            assert select.select([model], [], [], 30)[0]
        finally:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(model, signal.SIGKILL)
            os.close(model)
