"""Make pictures of terminals (tmux) in docs, from real runs with scripted models.

Run it as `.venv/bin/python -P scripts/terminal_pictures.py [chat] [end] [show] [top]` after what
they show changed: a conversation, the end of a run, an agent's transcript, all runs at once.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
ANSWERS = ROOT / "scripts" / "picture_run" / "chat.yaml"
REFACTOR = ROOT / "examples" / "refactor"
RUN = f"swarm run {ROOT}/examples/refactor.md --provider scripted:{REFACTOR}/answers.yaml"
COLUMNS, ROWS = 92, 34
WORDS = (
    ("Look at the tests and the parser, and mend what fails.", "├─"),
    ("Leave the docs alone.", "docs"),
)


@contextmanager
def open_terminal(command: list[str], project: Path | None = None) -> Iterator[list[str]]:
    """A terminal in which the command runs, in a copy of a project; the words that reach it."""
    with tempfile.TemporaryDirectory(prefix="sw-") as home:
        folder = Path(home) / (project.name if project else "house")
        if project is None:
            folder.mkdir()
            (folder / "parser.py").write_text("def parse(text):\n    return text.split(' ')\n")
        else:
            shutil.copytree(project, folder)
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": home,
            "SWARM_HOME": f"{home}/s",
            "XDG_RUNTIME_DIR": home,
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "PS1": "$ ",
        }
        tmux = ["tmux", "-S", f"{home}/tmux", "-f", "/dev/null"]
        line = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *command]
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        start = [*tmux, "new-session", "-d", "-s", "p", *size, shlex.join(line)]
        subprocess.run(start, cwd=folder, check=True)
        subprocess.run([*tmux, "set", "-g", "status", "off"], check=True)
        try:
            yield tmux
        finally:
            swarm = str(Path(sys.executable).parent / "swarm")
            for run in Path(f"{home}/s/state/runs").glob("*"):
                subprocess.run(
                    [swarm, "kill", run.name], env=environment, check=False, capture_output=True
                )
            subprocess.run([*tmux, "kill-server"], check=False)
            time.sleep(2.0)  # the runs end


def draw_chat() -> None:
    """A conversation in which two agents work and a question is open."""
    with open_terminal(["swarm", "chat", f"--provider=scripted:{ANSWERS}"]) as tmux:
        wait_for(tmux, "/help")
        for words, awaited in WORDS:
            enter(tmux, words)
            wait_for(tmux, awaited)
        wait_for(tmux, "y once")
        write("chat", tmux)


def draw_end() -> None:
    """What stays on the terminal when a run with six workers has ended."""
    with open_terminal(["sh"], REFACTOR / "project") as tmux:
        enter(tmux, f"clear; {RUN}")
        wait_for(tmux, "rounded to")
        write("end", tmux)


def draw_show() -> None:
    """The transcript of one of them."""
    with open_terminal(["sh"], REFACTOR / "project") as tmux:
        enter(tmux, f'clear; {RUN} --plain > /dev/null 2>&1; echo o""ver')
        wait_for(tmux, "over\n")
        run = capture_of(tmux, "clear; swarm ps | cut -c1-8")
        enter(tmux, f"clear; swarm show {run} rounding")
        wait_for(tmux, "turn completed")
        write("show", tmux)


def draw_top() -> None:
    """All runs: one asks, one works, one waits for words, one has ended."""
    with open_terminal(["sh"], REFACTOR / "project") as tmux:
        enter(tmux, f'clear; {RUN} --plain > /dev/null 2>&1; echo o""ver')
        wait_for(tmux, "over\n")
        chat = f"swarm run --detach --keep-open --reviewer person --provider scripted:{ANSWERS}"
        for words in ("Mend the parser", "Write the release notes"):
            enter(tmux, f"clear; {chat} -p '{words}'; echo o\"\"ver")
            wait_for(tmux, "over\n")
        enter(tmux, "clear; swarm top")
        wait_for(tmux, "needs approval")
        write("top", tmux)


def enter(tmux: list[str], words: str) -> None:
    """Type a line, and send it once it stands there."""
    subprocess.run([*tmux, "send-keys", "-t", "p", "-l", words], check=True)
    wait_for(tmux, words[-20:])
    subprocess.run([*tmux, "send-keys", "-t", "p", "Enter"], check=True)


def capture_of(tmux: list[str], command: str) -> str:
    """The run's id that a command prints."""
    enter(tmux, command)
    end = time.monotonic() + 60
    while not (found := re.search(r"^RUN\s+([0-9a-f]{8})|^([0-9a-f]{8})", capture(tmux), re.M)):
        if time.monotonic() > end:
            raise TimeoutError(capture(tmux))
        time.sleep(0.1)
    return found.group(1) or found.group(2)


def capture(tmux: list[str], *options: str) -> str:
    """What stands on the terminal."""
    command = [*tmux, "capture-pane", "-p", "-t", "p", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wait_for(tmux: list[str], words: str) -> None:
    """Until the words stand there, at most a minute."""
    end = time.monotonic() + 60
    while words not in capture(tmux):
        if time.monotonic() > end:
            raise TimeoutError(f"{words!r} never came:\n{capture(tmux)}")
        time.sleep(0.1)


def write(name: str, tmux: list[str]) -> None:
    """Save the terminal as it is a moment later."""
    time.sleep(1.0)
    (ROOT / "docs" / f"{name}.svg").write_text(as_svg(name, capture(tmux, "-e")))


def as_svg(name: str, text: str) -> str:
    """The text with its colours as an SVG that loads nothing from elsewhere."""
    console = Console(
        file=StringIO(),
        record=True,
        width=COLUMNS,
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
        _environ={},
    )
    console.print(Text.from_ansi(text.rstrip()))
    svg = console.export_svg(title="swarm", unique_id=name)
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


PICTURES: dict[str, Callable[[], None]] = {
    "chat": draw_chat,
    "end": draw_end,
    "show": draw_show,
    "top": draw_top,
}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or PICTURES:
        PICTURES[wanted]()
