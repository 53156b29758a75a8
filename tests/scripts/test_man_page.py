"""The manual page has what the help of the commands says."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "man_page.py"


def test_the_manual_page_is_that_of_these_commands():
    done = subprocess.run(
        [sys.executable, "-P", SCRIPT, "--check"], capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("", 0)
