"""The example of six workers and one merge does what its page says."""

import re
import shutil
from pathlib import Path

import pytest
import trio

from swarm.mailbox.protocol.merge_records import MergeEnded
from swarm.mailbox.protocol.records import AgentSpawned

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="copies need bubblewrap"),
]
LIMIT_S = 90
EXAMPLES = Path(__file__).parents[2] / "examples"


def contents(folder: Path) -> dict[str, str]:
    return {one.name: one.read_text() for one in folder.iterdir() if one.is_file()}


def merge_of_the_page() -> list[str]:
    """The words of the page's last command, after the run's id."""
    page = (EXAMPLES / "refactor" / "README.md").read_text()
    found = re.search(r"swarm merge RUN ([a-z ]+) --run \"([^\"]+)\"", page)
    assert found is not None
    return [*found[1].split(), "--run", found[2]]


async def test_six_workers_change_one_project_and_all_of_it_is_merged_tested_and_taken_back(rig):
    shutil.copytree(EXAMPLES / "refactor" / "project", rig.work, dirs_exist_ok=True)
    before = contents(rig.work)
    answers = EXAMPLES / "refactor" / "answers.yaml"
    with trio.fail_after(LIMIT_S):
        ran = await (
            await rig.start(
                "run", str(EXAMPLES / "refactor.md"), f"--provider=scripted:{answers}", "--plain"
            )
        ).wait_end()
        assert ran.code == 0, ran.err
        workers = [body.path for body in rig.bodies(AgentSpawned) if body.path != "/root"]
        assert len(workers) == 6
        listed, conflict, merged, tests = rig.outputs("/root")[-4:]
        assert "/root/tax  0 clean, 1 in conflict" in listed
        assert "<<<<<<< " in conflict
        assert "merged; to take it back" in merged
        assert "OK" in tests
        assert [body.applied for body in rig.bodies(MergeEnded)] == [True]
        now = contents(rig.work)
        assert "round(price * (100 + TAX) / 100, 2)" in now["prices.py"]
        assert "def tax(price: float) -> float:" in now["prices.py"]
        assert "CHANGES.md" in now
        undone = await (await rig.start("undo", rig.run_id, "--merge", "1", "--yes")).wait_end()
        assert undone.code == 0, undone.err
        assert contents(rig.work) == before
        words = ("merge", rig.run_id, "rounding", "tax", "--check")
        assert (await (await rig.start(*words)).wait_end()).code == 1
        again = await (
            await rig.start("merge", rig.run_id, "--yes", *merge_of_the_page())
        ).wait_end()
        assert again.code == 0, again.err
        assert "round(price + tax(price), 2)" in contents(rig.work)["prices.py"]
