"""Some seeds of `scripts/simulate`: whole runs in one process, with the real supervisor, agents,
gateway and journal, and whatever the seed does to them.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from simulated_run import simulate
from simulated_scenario import make_simulated_scenario

SEEDS = range(1, 25)
SCRIPT = Path(__file__).parents[3] / "scripts" / "simulation" / "main.py"


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_a_seed_does_to_a_run_all_that_must_hold_holds(seed):
    assert simulate(seed).violations == ()


def test_the_seeds_do_what_can_be_done_to_a_run():
    stories = [make_simulated_scenario(seed) for seed in SEEDS]
    kinds = {fault.kind for story in stories for fault in story.faults}
    assert {"kill", "silence", "gateway", "supervisor", "interrupt", "end"} <= kinds
    assert {"stop", "ctrl_c"} <= kinds
    assert any(story.network_faults.lost and story.network_faults.doubled for story in stories)
    assert any(story.items for story in stories)
    assert any(story.tokens for story in stories)


def test_the_same_seed_gives_the_same_journal_in_another_process_with_other_hashes():
    def digests(hash_seed: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-P", str(SCRIPT), "--seeds", "4-7", "--verbose"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return [line.rpartition(" ")[2] for line in done.stdout.splitlines() if line[:4] == "seed"]

    first = digests("1")
    assert len(set(first)) == 4
    assert digests("2") == first == [simulate(seed).digest[:12] for seed in range(4, 8)]
