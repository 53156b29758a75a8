"""A run's label, `label.json`: its name, whether it is archived, the run it was forked from.

The supervisor never writes it, so a live run can be renamed as well.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from swarm.mailbox.errors import SwarmError, UsageError
from swarm.mailbox.protocol.base import Value

from .paths import RunPaths

MAX_NAME_CHARS = 80


class RunLabel(Value):
    """Every field has a default: most runs have no file."""

    name: str = ""
    archived: bool = False
    forked_from: str = ""  # a run's id


def read_label(places: RunPaths) -> RunLabel:
    """The run's label. An unreadable file counts as none: nothing of the run depends on it."""
    with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode((places.folder / "label.json").read_bytes(), type=RunLabel)
    return RunLabel()


def write_label(places: RunPaths, label: RunLabel) -> None:
    """Replace the file in one step. Raises SwarmError if the folder cannot be written."""
    path = places.folder / "label.json"
    fresh = path.with_suffix(f".{os.getpid()}")
    try:
        fresh.write_bytes(msgspec.json.encode(label))
        fresh.replace(path)
    except OSError as error:
        raise SwarmError(f"cannot write {path}: {error.strerror}") from error


def find_runs_named(folders: Iterable[Path], name: str) -> list[str]:
    """Ids of the runs that have this name."""
    return [
        folder.name
        for folder in folders
        if read_label(RunPaths(folder=folder, sockets=folder)).name == name
    ]


def check_run_name(name: str) -> str:
    """The name with normalised blanks. Raises UsageError if it is too long or unprintable."""
    short = " ".join(name.split())
    if len(short) > MAX_NAME_CHARS or not short.isprintable():
        raise UsageError(f"a name has at most {MAX_NAME_CHARS} characters, all of them printable")
    return short
