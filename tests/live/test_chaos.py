"""A few plays under fire: whatever is thrown, no promise is broken. Longer ones: scripts/chaos."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
