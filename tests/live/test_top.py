"""`swarm top` on a real terminal: runs come, ask, are killed under it, and go."""

import os
import shutil
import signal

import msgspec
import pytest

from support.chat_play import HOLD, LONG, play
from support.scripted_team_run import call, calls, says
from swarm.supervisor.runs.paths import find_user_paths, paths_of_run
from swarm.supervisor.runs.run_metadata import read_metadata

__all__ = ["play"]

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]
ASKS = call(
    "exec_command", cmd="rm -rf gone", sandbox_permissions="require_escalated", justification="why"
)


def start(stage, words):
    options = [*stage.options[:-2], "-s", "workspace-write", "--reviewer", "person"]
    return stage.swarm("run", "-p", words, "--detach", *options).stdout.strip()


def test_all_runs_are_on_one_screen_and_answered_there(play):
    stage = play(
        calls("/root", ASKS), calls("/root", call("exec_command", cmd=HOLD, **LONG)),
        says("/root", "Over."),
    )  # fmt: skip
    first = start(stage, "the first")
    with stage.terminal("--ended=2", command="top", ready="swarm top") as terminal:
        terminal.wait("waits for you (1)")
        terminal.wait("needs approval")
        second = start(stage, "the second")
        terminal.wait("waits for you (2)")
        terminal.press("End", "a")
        terminal.wait("Esc: back to the runs")
        terminal.wait("wants to run a command")
        terminal.press("y")
        terminal.wait("waits for you (1)")
        terminal.wait("at work (1)")
        killed = second if second[-8:] in terminal.text().partition("at work (")[2] else first
        here = paths_of_run(find_user_paths(stage.environment), killed)
        os.kill(read_metadata(here).pid, signal.SIGKILL)
        terminal.wait("its supervisor was killed")
        terminal.press("q")
        terminal.wait("swarm top", gone=True)
    rows = [msgspec.json.decode(line) for line in stage.swarm("top", "--json").stdout.splitlines()]
    assert [row["need"] for row in rows] == ["waits for you", "waits for you"]
    assert {row["run_id"] for row in rows} == {first, second}
    (stage.home / "s" / "state" / "runs" / "no-run.json").write_text("{}")
    once = stage.swarm("top", "--once").stdout
    assert "no-run" not in once
    assert "unreadable" not in once
    assert "waits for you (2)" in once
    assert "its supervisor was killed" in once
