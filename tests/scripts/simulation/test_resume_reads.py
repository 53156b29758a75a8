"""How often a resume opens the run's own file to read it: once, whatever is folded from it."""

import os
import sys
from pathlib import Path

import pytest
import simulated_run
from simulated_run import simulate
from simulated_scenario import make_simulated_scenario

from swarm.supervisor.run import run_to_end

TOP = f"{Path(__file__).parents[3]}/"
KILLED = [seed for seed in range(1, 25) if any(
    fault.kind == "supervisor" for fault in make_simulated_scenario(seed).faults
)]  # fmt: skip
_counted: list[list[str]] = []  # the present life's last; empty: nothing is counted


def _note_open(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open" or not _counted:
        return
    path, _, flags = arguments
    is_appended = isinstance(flags, int) and bool(flags & os.O_APPEND)
    if str(path).endswith("/journal/run.jsonl") and not is_appended:
        frame = sys._getframe(1)  # a fault of the simulation copies the folder, too
        while frame is not None and not (name := frame.f_code.co_filename).startswith(TOP):
            frame = frame.f_back
        if frame is not None and "/supervisor/" in name:
            _counted[-1].append(f"{frame.f_code.co_name} of {name}")


sys.addaudithook(_note_open)


@pytest.fixture
def lives(monkeypatch):
    """The reads of each supervisor of the runs that are simulated meanwhile."""
    found: list[list[str]] = []

    async def counted(*arguments):
        _counted.append([])
        found.append(_counted[-1])
        try:
            return await run_to_end(*arguments)
        finally:
            _counted.clear()

    monkeypatch.setattr(simulated_run, "run_to_end", counted)
    return found


@pytest.mark.parametrize("seed", [one for one in KILLED if not make_simulated_scenario(one).items])
def test_a_resume_opens_the_run_file_once_to_read_it(lives, seed):
    simulate(seed)
    assert lives[0] == []
    for reads in lives[1:]:
        assert len(reads) == 1, reads


@pytest.mark.parametrize("seed", [one for one in KILLED if make_simulated_scenario(one).items])
def test_a_resumed_fan_out_opens_it_once_more_for_what_was_written_since(lives, seed):
    simulate(seed)
    for number, reads in enumerate(lives):
        assert len(reads) <= 1 + (number > 0), reads
