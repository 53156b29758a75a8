"""Merges and undos on full disks and in closed folders keep what they promise."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parents[3] / "scripts/chaos_run/file_plays.py"


def test_no_merge_or_undo_breaks_a_promise_on_a_full_disk_or_in_closed_folders():
    done = subprocess.run(
        [sys.executable, "-P", str(PROGRAM), "--seed", "3", "--plays", "20", "--every", "9"],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, "no violation" in done.stdout) == (0, True), done.stdout + done.stderr
