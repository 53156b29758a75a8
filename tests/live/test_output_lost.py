"""A run whose answer cannot be written says so, and has written it everywhere else before."""

import os
import subprocess

import pytest
import yaml

from support.scripted_team_run import SWARM, says

pytestmark = pytest.mark.live


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["plain", "json"])
def test_an_answer_that_cannot_be_written_is_an_error_after_it_was_saved(tmp_path, options):
    script = tmp_path / "script.yaml"
    script.write_text(yaml.safe_dump({"turns": [says("/root", "Here it is.")]}))
    saved = tmp_path / "answer.txt"
    command = [SWARM, "run", "-p", "hello", f"--provider=scripted:{script}", "-o", str(saved)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*command, *options], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
            stdin=subprocess.DEVNULL, cwd=tmp_path, check=False,
            env={**os.environ, "SWARM_HOME": str(tmp_path / "s"), "XDG_RUNTIME_DIR": str(tmp_path)},
        )  # fmt: skip
    assert done.returncode == 1
    assert "standard output could not be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert saved.read_text() == "Here it is."
