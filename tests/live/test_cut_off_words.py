"""A turn that the end of its run cuts off is told as that: nobody has interrupted it."""

import os
import subprocess

import pytest

from support.scripted_team_run import SWARM

pytestmark = pytest.mark.live


def test_a_run_without_a_key_says_nothing_of_an_interruption(tmp_path):
    done = subprocess.run(
        [SWARM, "run", "-p", "hello", "--provider=openai", "--plain"], capture_output=True,
        text=True, timeout=60, stdin=subprocess.DEVNULL, cwd=tmp_path, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 5
    assert "provider openai needs a key" in done.stderr
    told = done.stderr + done.stdout
    assert "interrupted" not in told  # what had begun until then, was cut off
    assert "aborted" not in told
