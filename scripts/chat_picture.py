"""Make docs/chat.svg: a conversation with a scripted model on a terminal (tmux), in its middle.

Run it as `.venv/bin/python -P scripts/chat_picture.py` after the conversation changed.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
ANSWERS = ROOT / "scripts" / "picture_run" / "chat.yaml"
COLUMNS, ROWS = 92, 34
WORDS = (
    ("Look at the tests and the parser, and mend what fails.", "├─"),
    ("Leave the docs alone.", "docs"),
)


def main() -> int:
    """Type into a conversation until two agents work and a question is open; draw; end the run."""
    with tempfile.TemporaryDirectory(prefix="sw-") as home:
        project = Path(home) / "house"
        project.mkdir()
        (project / "parser.py").write_text("def parse(text):\n    return text.split(' ')\n")
        environment = {
            "PATH": os.environ["PATH"], "HOME": home, "SWARM_HOME": f"{home}/s",
            "XDG_RUNTIME_DIR": home, "TERM": "xterm-256color", "LANG": "C.UTF-8",
        }  # fmt: skip
        tmux = ["tmux", "-S", f"{home}/tmux", "-f", "/dev/null"]
        swarm = [sys.executable, "-P", "-m", "swarm.supervisor.clients.cli.entry"]
        line = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()),
                *swarm, "chat", f"--provider=scripted:{ANSWERS}"]  # fmt: skip
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        start = [*tmux, "new-session", "-d", "-s", "p", *size, shlex.join(line)]
        subprocess.run(start, cwd=project, check=True)
        subprocess.run([*tmux, "set", "-g", "status", "off"], check=True)
        try:
            wait_for(tmux, "/help")
            for words, awaited in WORDS:
                subprocess.run([*tmux, "send-keys", "-t", "p", "-l", words], check=True)
                wait_for(tmux, words[:20])
                subprocess.run([*tmux, "send-keys", "-t", "p", "Enter"], check=True)
                wait_for(tmux, awaited)
            wait_for(tmux, "y once")
            time.sleep(1.0)
            (ROOT / "docs" / "chat.svg").write_text(as_svg(capture(tmux, "-e")))
        finally:
            for run in Path(f"{home}/s/state/runs").glob("*"):
                subprocess.run([*swarm, "kill", run.name], env=environment, check=False)
            subprocess.run([*tmux, "kill-server"], check=False)
            time.sleep(2.0)  # the run ends
    return 0


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


def as_svg(text: str) -> str:
    """The text with its colours as an SVG that loads nothing from elsewhere."""
    console = Console(
        file=StringIO(), record=True, width=COLUMNS, force_terminal=True,
        color_system="truecolor", legacy_windows=False, _environ={},
    )  # fmt: skip
    console.print(Text.from_ansi(text.rstrip()))
    svg = console.export_svg(title="swarm", unique_id="chat")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main())
