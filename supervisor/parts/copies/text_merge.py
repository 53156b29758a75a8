"""Merges two texts that come from one, line by line, as git does: by git's own `merge-file`.

Git gets three files in a folder of its own, no repository and no configuration; it starts no other
program. Without git every text that both sides changed is a conflict. Blocks.
"""

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
_LIMIT_S = 30.0
MAX_TEXT_BYTES = 8 << 20  # of a text that is merged by lines
_LOOK_BYTES = 8_000  # a zero byte among these means binary, as in git
_MAX_HUNKS = 127  # git's exit code for so many, or more


class TextMerge(NamedTuple):
    """The merged text; with conflicts, both sides stand in it between marks."""

    data: bytes
    conflicts: int


@cache
def find_git() -> str | None:
    """git in the system's own folders; PATH is ignored, a project could be on it."""
    found = (f"{folder}/git" for folder in _FOLDERS)
    return next((path for path in found if os.access(path, os.X_OK)), None)


def is_mergeable(*sides: bytes) -> bool:
    """True if all are texts that can be merged by lines."""
    return all(b"\0" not in one[:_LOOK_BYTES] for one in sides)


def merge_texts(
    base: bytes, ours: bytes, theirs: bytes, *, names: tuple[str, str], scratch: Path
) -> TextMerge:
    """Merge; `names` are shown at the marks of a conflict: ours, theirs.

    `scratch`: where git's folder is made, out of the sight of every command.
    Raises OSError: git is missing or did not answer.
    """
    git = find_git()
    if git is None:
        raise OSError("git is not installed, and texts cannot be merged by lines without it")
    with tempfile.TemporaryDirectory(prefix="merge-", dir=scratch) as name:
        folder = Path(name).resolve()
        for side, data in (("ours", ours), ("base", base), ("theirs", theirs)):
            (folder / side).write_bytes(data)
        words = [git, "merge-file", "-p", "--diff3"]
        for label in (names[0], "base", names[1]):
            words += ["-L", label]
        try:
            done = subprocess.run(
                [*words, "ours", "base", "theirs"],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LIMIT_S,
                check=False,
                env=_environment(folder),
            )
        except subprocess.TimeoutExpired as error:
            raise OSError(f"git took over {_LIMIT_S:g} s to merge a text") from error
    if not 0 <= done.returncode <= _MAX_HUNKS:
        said = done.stderr.decode("utf-8", "replace").strip()[:200]
        raise OSError(f"git could not merge a text: {said}")
    return TextMerge(done.stdout, done.returncode)


def _environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CEILING_DIRECTORIES": str(folder.parent),
        "LC_ALL": "C",
    }
