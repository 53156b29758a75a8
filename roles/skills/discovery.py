"""Finds SKILL.md files below the folders in which people keep them; bounded, whatever lies there.

Skills of a project are read with its configuration (`config/project_config.py`), so that they count
only when their exact content was trusted.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.safe_open import READ_FLAGS, open_canonical, read_start

from ..config.file_reading import read_bounded
from .skill_cache import SkillCache, content_mark, file_mark
from .skill_file import SIDECAR, SKILL_BYTES, SKILL_FILE, Skill, SkillScope, parse_skill

PROJECT_FOLDERS = (".agents/skills", ".claude/skills", ".codex/skills")
_MAX_LEVELS = 6
_MAX_FOLDERS = 2_000  # per root
_MAX_ENTRIES = 10_000  # per folder
_SIDECAR_BYTES = 32 << 10


class SkillFile(Value):
    """A SKILL.md and its sidecar, as they were read. `problem`: why it could not be read."""

    path: str
    scope: SkillScope
    data: bytes = b""
    sidecar: bytes = b""
    problem: str = ""
    key: str = ""  # for the cache
    mark: str = ""  # what the file is recognized by at the next start; "" for none
    known: Skill | None = None  # read at an earlier start, and unchanged
    prefix: str = ""  # the plugin that brings it


class FoundSkills(Value):
    """The skills in the order of the list, and a line for each file that is none."""

    skills: tuple[Skill, ...] = ()
    warnings: tuple[str, ...] = ()


def personal_roots(
    config_folder: Path, home: Path, system: Path
) -> Iterator[tuple[Path, SkillScope]]:
    """The folders of a person's own skills and of the machine's, in the order of precedence."""
    yield config_folder / "skills", "user"
    for name in PROJECT_FOLDERS:
        yield home / name, "user"
    yield system / "skills", "admin"


def read_root(root: Path, scope: SkillScope, cache: SkillCache) -> Iterator[SkillFile]:
    """Read every SKILL.md below a person's or the machine's folder; links are followed.

    One that is unchanged since an earlier start is taken from the cache.
    """
    for place in skill_folders(root, follow_links=True):
        # Before it is read: a change while it is read is seen at the next start.
        mark = file_mark(place, SKILL_FILE, SIDECAR)
        known = cache.find(f"{scope}:{place}", mark) if mark else None
        if known is not None:
            yield SkillFile(path=known.path, scope=scope, known=known)
        else:
            file = read_skill_file(place, scope)
            yield msgspec.structs.replace(file, key=f"{scope}:{place}", mark=mark)


def read_skill_file(folder: Path, scope: SkillScope, *, prefix: str = "") -> SkillFile:
    """Read the SKILL.md of a folder and its sidecar."""
    path = os.path.realpath(folder / SKILL_FILE)
    try:
        data = read_bounded(Path(path), limit_bytes=SKILL_BYTES)
    except (UsageError, OSError) as error:
        return SkillFile(path=path, scope=scope, problem=str(error))
    return SkillFile(path=path, scope=scope, data=data, sidecar=_sidecar(folder), prefix=prefix)


def has_skill_folder(folder: Path) -> bool:
    """True if a project may keep skills in this folder. Those of a home are the person's own."""
    return folder != Path.home() and any(Path(folder / name).is_dir() for name in PROJECT_FOLDERS)


def read_project_skills(folder: Path) -> Iterator[tuple[str, bytes]]:
    """(path, content) of each SKILL.md and its sidecar in a project's folder; never through a link.

    `folder` is a canonical path. Raises UsageError if there are too many folders or a file is too
    large, OSError if a file cannot be read.
    """
    if not has_skill_folder(folder):
        return
    for root in (folder / name for name in PROJECT_FOLDERS):
        if os.path.realpath(root) != str(root):
            continue  # a link on the way may lead anywhere
        for place, has_skill in walk_folders(root, follow_links=False):
            if has_skill:
                path = f"{place}/{SKILL_FILE}"
                yield path, _read(open_canonical(path, READ_FLAGS), path, SKILL_BYTES)
                if (fd := _open_own_file(beside := f"{place}/{SIDECAR}")) is not None:
                    yield beside, _read(fd, beside, _SIDECAR_BYTES)


def _open_own_file(path: str) -> int | None:
    """The regular file at this path; None: there is none, or a link is on the way."""
    try:
        fd = open_canonical(path, READ_FLAGS)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            return None
        raise
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _read(fd: int, path: str, limit_bytes: int) -> bytes:
    data = read_start(fd, most_bytes=limit_bytes + 1)
    if len(data) > limit_bytes:
        raise UsageError(f"{path}: larger than {limit_bytes >> 10} KiB")
    return data


def project_skills(files: Mapping[str, bytes], cache: SkillCache) -> Iterator[SkillFile]:
    """The skills among the files of a trusted project folder, as they were read with it."""
    for path, data in files.items():
        folder, _, name = path.rpartition("/")
        if name == SKILL_FILE:
            sidecar = files.get(f"{folder}/{SIDECAR}", b"")
            mark = content_mark(data, sidecar)
            yield SkillFile(
                path=path,
                scope="repo",
                data=data,
                sidecar=sidecar,
                key=f"repo:{path}",
                mark=mark,
                known=cache.find(f"repo:{path}", mark),
            )


def skill_folders(root: Path, *, follow_links: bool) -> Iterator[Path]:
    """Folders with a SKILL.md, as `walk_folders` finds them."""
    return (Path(place) for place, has in walk_folders(root, follow_links=follow_links) if has)


def walk_folders(root: Path, *, follow_links: bool) -> Iterator[tuple[str, bool]]:
    """The root and the folders below, and which have a SKILL.md; those that are there.

    Breadth first, at most 6 levels and 2,000 folders, none hidden. Raises UsageError if there are
    more folders.
    """
    level, seen = [str(root)], set[tuple[int, int]]()
    for _ in range(_MAX_LEVELS + 1):
        below: list[str] = []
        for folder in level:
            try:
                facts = os.stat(folder)  # noqa: PTH116 - for each of up to 2,000 folders
            except OSError:
                continue  # it vanished, or is a link to nothing or to itself
            if (place := (facts.st_dev, facts.st_ino)) in seen:
                continue  # links in a loop
            seen.add(place)
            if len(seen) > _MAX_FOLDERS:
                raise UsageError(f"{root}: more than {_MAX_FOLDERS} folders of skills")
            has_skill, folders = _look_in(folder, follow_links=follow_links)
            yield folder, has_skill
            below += folders
        level = below


def _look_in(folder: str, *, follow_links: bool) -> tuple[bool, list[str]]:
    """Whether the folder has a SKILL.md, and its folders in order; links count if followed.

    At most 10,000 entries are looked at: a folder of skills is not a store of files.
    """
    names: list[str] = []
    has_skill = False
    try:
        with os.scandir(folder) as entries:
            for entry, _ in zip(entries, range(_MAX_ENTRIES), strict=False):
                if entry.name == SKILL_FILE:
                    has_skill = _is_file(entry, follow_links=follow_links)
                elif not entry.name.startswith(".") and _is_folder(
                    entry, follow_links=follow_links
                ):
                    names.append(entry.name)
    except OSError:
        return has_skill, []  # not there, not readable, or gone in the middle
    return has_skill, [f"{folder}/{name}" for name in sorted(names)]


def _is_file(entry: os.DirEntry[str], *, follow_links: bool) -> bool:
    try:
        return entry.is_file(follow_symlinks=follow_links)
    except OSError:
        return False  # a link that leads to itself


def _is_folder(entry: os.DirEntry[str], *, follow_links: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow_links)
    except OSError:
        return False


def _sidecar(folder: Path) -> bytes:
    try:
        return read_bounded(folder / SIDECAR, limit_bytes=_SIDECAR_BYTES)
    except (UsageError, OSError):
        return b""


def parse_skills(files: Iterable[SkillFile], cache: SkillCache | None = None) -> FoundSkills:
    """Parse what was read and is not known; a faulty file is left out.

    The first of two with one path counts. `cache` remembers what was parsed.
    """
    found: dict[str, Skill] = {}
    warnings: list[str] = []
    for file in files:
        if file.path in found:
            continue
        if file.known is not None:
            found[file.path] = file.known
            warnings += notes_of(file.known)
            continue
        try:
            if file.problem:
                raise UsageError(file.problem)
            found[file.path] = parse_skill(
                file.data,
                path=file.path,
                scope=file.scope,
                sidecar=file.sidecar,
                prefix=file.prefix,
            )
        except UsageError as error:
            text = str(error)
            where = "" if text.startswith(file.path) else f"{file.path}: "
            warnings.append(f"{where}{text}; this skill is left out")
        else:
            warnings += notes_of(found[file.path])
            if cache is not None and file.mark:
                cache.note(file.key, file.mark, found[file.path])
    return FoundSkills(skills=in_order(found.values()), warnings=tuple(warnings))


def notes_of(skill: Skill) -> list[str]:
    """What was odd in a skill's file, as warnings."""
    return [f"{skill.path}: {note}" for note in skill.notes]


def in_order(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    """The order of the list: a repository's skills first."""
    ranks = {"repo": 0, "user": 1, "plugin": 2, "admin": 3}
    return tuple(sorted(skills, key=lambda one: (ranks[one.scope], one.name, one.path)))
