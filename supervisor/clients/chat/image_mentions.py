"""Images that a line names: `@picture.png`, or the path of a picture, as a terminal pastes it.

Only the names are looked at here; whether a file is a picture is decided by its bytes when it is
stored (runs/image_blobs.py).
"""

import shlex
from pathlib import Path

_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_MOST_IMAGES, _MOST_CHARS = 8, 16_384


def find_images(line: str, cwd: Path) -> tuple[str, ...]:
    """Absolute paths of the pictures that the line names and that are files now."""
    if len(line) > _MOST_CHARS or not any(suffix in line.lower() for suffix in _SUFFIXES):
        return ()
    found: list[str] = []
    for word in _words(line):
        name = word.removeprefix("@").removeprefix("file://")
        if not name.lower().endswith(_SUFFIXES):
            continue
        path = (cwd / Path(name).expanduser()).absolute()
        if _is_file(path) and str(path) not in found:
            found.append(str(path))
    return tuple(found[:_MOST_IMAGES])


def _words(line: str) -> list[str]:
    """Split as a shell would: a pasted path has its blanks quoted or escaped."""
    try:
        return shlex.split(line)
    except ValueError:  # an apostrophe in a sentence
        return line.split()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
