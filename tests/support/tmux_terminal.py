"""A real terminal for plays: tmux draws it, keys go in, and what stands on it comes out as text."""

import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_GENTLE = (  # what differs from run to run
    (re.compile(r"\b[0-9a-f]{8}\b"), "RUNRUNID"),
    (re.compile(r"\b\d+(?:\.\d+)? (ms|s|min)\b"), r"N \1"),
    (re.compile(r"(?<= )\d+s(?= |$)"), "Ns"),
    (re.compile(r" +\d+(?:\.\d+)?[KMG]$", re.MULTILINE), ""),
    (re.compile(r"\n*Pane is dead.*"), "\n"),
)


class TmuxTerminal:
    """One pane on a tmux server of its own. Made by `open_tmux`."""

    def __init__(self, socket: Path, size: tuple[int, int]) -> None:
        self._socket, self.size = socket, size

    def tmux(self, *words: str, text: str | None = None) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *words],
            input=text, capture_output=True, text=True, timeout=20, check=True,
        )  # fmt: skip
        return done.stdout

    def press(self, *keys: str) -> None:
        """Keys by tmux's names: `Enter`, `Escape`, `C-c`, `Tab`."""
        self.tmux("send-keys", "-t", "play", *keys)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-t", "play", "-l", text)

    def paste(self, text: str) -> None:
        """As the clipboard of a terminal does it, with bracketed-paste marks."""
        self.tmux("load-buffer", "-", text=text)
        self.tmux("paste-buffer", "-p", "-t", "play")

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-t", "play", "-x", str(columns), "-y", str(rows))

    def text(self, *, history: bool = False) -> str:
        """What stands there, without blanks at the ends of lines; `history`: also above it."""
        above = ["-S", "-2000"] if history else []
        shown = self.tmux("capture-pane", "-p", "-t", "play", *above)
        return "\n".join(line.rstrip() for line in shown.split("\n")).rstrip("\n") + "\n"

    def wait(self, words: str, *, limit_s: float = 30.0, gone: bool = False) -> str:
        """Until the words stand there (or do not any more); the text then."""
        end = time.monotonic() + limit_s
        while (words in (text := self.text())) is gone:
            if time.monotonic() > end:
                raise AssertionError(f"{words!r} {'stays' if gone else 'never came'}:\n{text}")
            time.sleep(0.05)
        return text


def gentle(text: str) -> str:
    """Without what differs from run to run: ids, times, memory."""
    for pattern, instead in _GENTLE:
        text = pattern.sub(instead, text)
    return "\n".join(line.rstrip() for line in text.split("\n"))


@contextmanager
def open_tmux(
    folder: Path, argv: list[str], environment: dict[str, str], size: tuple[int, int]
) -> Iterator[TmuxTerminal]:
    """Start the command in a shell on a terminal of this size; everything ends with the block."""
    columns, rows = size
    socket = folder / "tmux"
    settings = folder / "tmux.conf"
    settings.write_text(
        "set -g status off\nset -g escape-time 0\nset -g remain-on-exit on\n"
        "set -g remain-on-exit-format ''\n"
    )
    line = shlex.join(["env", "-i", *(f"{k}={v}" for k, v in environment.items()), *argv])
    terminal = TmuxTerminal(socket, size)
    subprocess.run(
        [
            "tmux", "-S", str(socket), "-f", str(settings), "new-session", "-d", "-s", "play",
            "-x", str(columns), "-y", str(rows), line,
        ],
        check=True, timeout=20, env={**os.environ, "TERM": "xterm-256color", "SHELL": "/bin/sh"},
        cwd=folder,
    )  # fmt: skip
    try:
        yield terminal
    finally:
        subprocess.run(
            ["tmux", "-S", str(socket), "kill-server"], check=False, timeout=20,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
