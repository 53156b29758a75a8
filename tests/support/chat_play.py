"""Plays of the conversation: one folder, one script of the model, any number of terminals.

`SWARM_WRITE_CAPTURES=1` writes the captures of tests/golden/chat again.
"""

import os
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from support.forked_programs import Setting, forked_python, run_program
from support.scripted_team_run import SWARM
from support.tmux_terminal import TmuxTerminal, gentle, open_tmux
from swarm.supervisor.runs.paths import find_user_paths, paths_of_run
from swarm.supervisor.runs.run_metadata import is_run_alive

CAPTURES = Path(__file__).parents[1] / "golden" / "chat"
SIZES = [(80, 24), (200, 50)]
HOLD = "until test -e go; do sleep 0.02; done"
LONG = {"yield_time_ms": 30_000}  # or the command goes on in the background


class Play:
    """One folder, one script of the model, any number of terminals.

    All else lies in `home`: what the conversation itself writes is no change of the turn's.
    """

    def __init__(
        self, folder: Path, home: Path, turns: list[dict[str, object]], size: tuple[int, int]
    ) -> None:
        self.folder, self.home, self.size = folder, home, size
        script = home / "script.yaml"
        script.write_text(yaml.safe_dump({"turns": turns, "default": {"text": "nothing more"}}))
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "SWARM_HOME": str(home / "s"),
            "XDG_RUNTIME_DIR": str(home),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        self.options = [f"--provider=scripted:{script}", "-s", "danger-full-access"]

    def write_role(self, name: str, *lines: str) -> None:
        """A role of the person's own."""
        file = self.home / "s" / "agents" / f"{name}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        head = (f'name = "{name}"', 'description = "Works."', 'developer_instructions = "Work."')
        file.write_text("\n".join((*head, *lines)))

    @contextmanager
    def terminal(self, *words: str, name: str = "one", command: str = "chat", ready: str = ""):
        inside = self.home / name
        inside.mkdir(exist_ok=True)
        argv = [forked_python(), SWARM, command, *(words or self.options)]
        with open_tmux(inside, ["sh", "-c", 'cd "$0" && exec "$@"', str(self.folder), *argv],
                       self.environment, self.size) as terminal:  # fmt: skip
            # The hint stands there until a run is known: if one is joined, only shortly.
            terminal.wait(ready or ("›" if words else "/help"))
            yield terminal

    def compare(self, name: str, terminal: TmuxTerminal) -> None:
        """What stands there becomes what the file says, within some seconds."""
        path = CAPTURES / f"{name}-{self.size[0]}x{self.size[1]}.txt"
        if os.environ.get("SWARM_WRITE_CAPTURES"):
            time.sleep(2.0)
            path.write_text(self._gentle_text(terminal))
        end = time.monotonic() + 10.0
        while (text := self._gentle_text(terminal)) != path.read_text():
            if time.monotonic() > end:
                assert text == path.read_text()
            time.sleep(0.1)

    def _gentle_text(self, terminal: TmuxTerminal) -> str:
        return gentle(terminal.text().replace(str(self.folder), "FOLDER"))

    def swarm(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run_program([SWARM, *words], Setting(self.environment, self.folder))

    def run_id(self) -> str:
        (folder,) = (self.home / "s" / "state" / "runs").iterdir()
        return folder.name

    def end(self) -> None:
        """End what still runs: a kept-open run outlives its terminals."""
        places = find_user_paths(self.environment)
        for folder in places.runs.glob("*"):
            self.swarm("kill", folder.name)
            end = time.monotonic() + 20.0
            while is_run_alive(paths_of_run(places, folder.name)) and time.monotonic() < end:
                time.sleep(0.05)


@pytest.fixture(params=SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def play(request):
    plays: list[Play] = []
    # A path of the same length each time: it stands in the captures, and lines are cut at the edge.
    with (
        tempfile.TemporaryDirectory(prefix="play-", dir="/tmp") as folder,
        tempfile.TemporaryDirectory(prefix="home-", dir="/tmp") as home,
    ):

        def make(*turns):
            plays.append(Play(Path(folder), Path(home), list(turns), request.param))
            return plays[-1]

        yield make
        for one in plays:
            one.end()


def say(terminal: TmuxTerminal, words: str) -> None:
    terminal.type(words)
    terminal.wait(words)
    terminal.press("Enter")
