"""`scripts/attack` plays every module that holds plays."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "scripts" / "attack_run"


def test_every_module_that_holds_plays_is_a_group():
    modules = {path.stem for path in FOLDER.glob("*.py") if "\nPLAYS = " in path.read_text("utf-8")}
    listing = subprocess.run(
        [sys.executable, "-P", FOLDER / "main.py", "--list", "--stack", "bwrap"],
        capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    groups = {line.split()[0] for line in listing.splitlines() if " bwrap " in line}
    assert modules == {f"attacks_{group}" for group in groups}
    assert len(modules) > 5
