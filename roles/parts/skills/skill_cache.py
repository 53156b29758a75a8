"""Remembers what was read from SKILL.md files, so that a start with many skills parses none again.

A person's file is known by its inode, size and times; a repository's file, which is read with its
trust anyway, by its content. The memory is a small file of swarm's own; if it is damaged or gone,
everything is read again.
"""

import hashlib
import os
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.base import Value

from ...config.atomic_replace import locked_folder, replace_file
from ...config.file_reading import read_bounded
from .skill_file import Skill

CACHE_FILE = "skills.json"  # in the folder of state
_FILE_BYTES = 8 << 20
_MOST_SKILLS = 4_000
_VERSION = 2  # of what is made of a file; another one forgets all


class _KnownSkill(Value):
    """A skill, and by what its file is recognized. The last used entries stand last."""

    key: str  # the path of SKILL.md as it was found
    mark: str  # facts of the file and its sidecar, or a digest of both
    skill: Skill


class _Memory(Value):
    version: int = _VERSION
    skills: tuple[_KnownSkill, ...] = ()


class SkillCache:
    """The skills known from earlier scans. Not for several threads; `save` when all are read."""

    def __init__(self, path: Path) -> None:
        """`path` need not exist. What cannot be read counts as empty."""
        self._path = path
        self._known = {one.key: one for one in _read(path).skills}
        self._used: dict[str, _KnownSkill] = {}
        self._is_changed = False

    def find(self, key: str, mark: str) -> Skill | None:
        """The skill that was read from the file with exactly this mark; None: read it."""
        known = self._known.get(key)
        if known is None or known.mark != mark:
            return None
        self._used[key] = known
        return known.skill

    def note(self, key: str, mark: str, skill: Skill) -> None:
        """Remember what was read."""
        self._used[key] = _KnownSkill(key=key, mark=mark, skill=skill)
        self._is_changed = True

    def save(self) -> None:
        """Write what is new. A file that cannot be written costs time at the next start alone."""
        if not self._is_changed:
            return
        older = [one for key, one in self._known.items() if key not in self._used]
        kept = (*older, *self._used.values())[-_MOST_SKILLS:]
        try:
            with locked_folder(self._path.parent):
                replace_file(self._path, msgspec.json.encode(_Memory(skills=kept)))
        except OSError:
            return
        self._is_changed = False


def file_mark(folder: Path, file: str, sidecar: str) -> str:
    """What a SKILL.md and its sidecar are recognized by; "" if the file is not there.

    The change time is part of it: no program can set it back.
    """
    try:
        facts = (folder / file).stat()
    except OSError:
        return ""
    try:
        beside = _facts((folder / sidecar).stat())
    except OSError:
        beside = ""
    return f"{_facts(facts)} {beside}"


def content_mark(*parts: bytes) -> str:
    """What read contents are recognized by."""
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(len(part).to_bytes(8, "big") + part)
    return hasher.hexdigest()


def _facts(facts: os.stat_result) -> str:
    return f"{facts.st_dev}.{facts.st_ino}.{facts.st_size}.{facts.st_mtime_ns}.{facts.st_ctime_ns}"


def _read(path: Path) -> _Memory:
    try:
        memory = msgspec.json.decode(read_bounded(path, limit_bytes=_FILE_BYTES), type=_Memory)
    except (OSError, UsageError, msgspec.DecodeError):
        return _Memory()
    return memory if memory.version == _VERSION else _Memory()
