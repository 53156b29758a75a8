"""The version of swarm. A test compares it with pyproject.toml: reading metadata takes 8 ms."""

import re
from pathlib import Path

VERSION = "0.1.0"
_COMMIT = re.compile(r"[0-9a-f]{40}\Z")
_MOST_CHARS = 1 << 20


def find_commit() -> str:
    """The commit of the checkout that this code is part of, 12 digits; "" if it is in none.

    It is read from git's files; no program is started.
    """
    return read_commit(Path(__file__).resolve().parents[2] / ".git")


def read_commit(git: Path) -> str:
    """The commit that HEAD of this `.git` folder names, 12 digits; "" if it cannot be read."""
    try:
        head = _text(git / "HEAD")
        if head.startswith("ref: "):
            head = _resolve(git, head.removeprefix("ref: "))
    except OSError:
        return ""
    return head[:12] if _COMMIT.match(head) else ""


def _resolve(git: Path, ref: str) -> str:
    if not ref.startswith("refs/") or ".." in ref:
        return ""
    if (git / ref).is_file():
        return _text(git / ref)
    for line in _text(git / "packed-refs").splitlines():
        if line.endswith(f" {ref}"):
            return line.partition(" ")[0]
    return ""


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_MOST_CHARS).strip()
