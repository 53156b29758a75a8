"""Finds SKILL.md files below the folders in which people keep them; bounded, whatever lies there.

Skills of a project are read with its configuration (`config/project_config.py`), so that they count
only when their exact content was trusted.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.safe_open import READ_FLAGS, open_canonical, read_start

from ..config.file_reading import read_bounded
from .skill_file import SIDECAR, SKILL_BYTES, SKILL_FILE, Skill, SkillScope, parse_skill

PROJECT_FOLDERS = (".agents/skills", ".claude/skills", ".codex/skills")
_MAX_LEVELS = 6
_MAX_FOLDERS = 2_000  # per root
_SIDECAR_BYTES = 32 << 10


class SkillFile(Value):
    """A SKILL.md and its sidecar, as they were read. `problem`: why it could not be read."""

    path: str
    scope: SkillScope
    data: bytes = b""
    sidecar: bytes = b""
    problem: str = ""
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


def read_root(root: Path, scope: SkillScope) -> Iterator[SkillFile]:
    """Read every SKILL.md below a person's or the machine's folder; links are followed."""
    for place in skill_folders(root, follow_links=True):
        yield read_skill_file(place, scope)


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
        for place in skill_folders(root, follow_links=False):
            yield _read(place / SKILL_FILE, SKILL_BYTES)
            if _is_own_file(sidecar := place / SIDECAR):
                yield _read(sidecar, _SIDECAR_BYTES)


def _is_own_file(path: Path) -> bool:
    return os.path.realpath(path) == str(path) and path.is_file()


def _read(path: Path, limit_bytes: int) -> tuple[str, bytes]:
    data = read_start(open_canonical(str(path), READ_FLAGS), most_bytes=limit_bytes + 1)
    if len(data) > limit_bytes:
        raise UsageError(f"{path}: larger than {limit_bytes >> 10} KiB")
    return str(path), data


def project_skills(files: Mapping[str, bytes]) -> Iterator[SkillFile]:
    """The skills among the files of a trusted project folder, as they were read with it."""
    for path, data in files.items():
        place = Path(path)
        if place.name == SKILL_FILE:
            sidecar = files.get(str(place.parent / SIDECAR), b"")
            yield SkillFile(path=path, scope="repo", data=data, sidecar=sidecar)


def skill_folders(root: Path, *, follow_links: bool) -> Iterator[Path]:
    """Folders with a SKILL.md, breadth first: at most 6 levels and 2,000 folders, none hidden.

    Raises UsageError if there are more folders.
    """
    level, seen = [root], set[str]()
    for _ in range(_MAX_LEVELS + 1):
        below: list[Path] = []
        for folder in level:
            real = os.path.realpath(folder)
            if real in seen:
                continue  # links in a loop
            seen.add(real)
            if len(seen) > _MAX_FOLDERS:
                raise UsageError(f"{root}: more than {_MAX_FOLDERS} folders of skills")
            file = folder / SKILL_FILE
            if file.is_file() and (follow_links or not file.is_symlink()):
                yield folder
            below += _folders_in(folder, follow_links=follow_links)
        level = below


def _folders_in(folder: Path, *, follow_links: bool) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [
                entry.name
                for entry in entries
                if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=follow_links)
            ]
    except OSError:
        return []  # not there, or not readable: it gives no skills
    return [folder / name for name in sorted(names)]


def _sidecar(folder: Path) -> bytes:
    try:
        return read_bounded(folder / SIDECAR, limit_bytes=_SIDECAR_BYTES)
    except (UsageError, OSError):
        return b""


def parse_skills(files: Iterable[SkillFile]) -> FoundSkills:
    """Parse what was read; a faulty file is left out, and the first of two with one path counts."""
    found: dict[str, Skill] = {}
    warnings: list[str] = []
    for file in files:
        if file.path in found:
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
    return FoundSkills(skills=in_order(found.values()), warnings=tuple(warnings))


def in_order(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    """The order of the list: a repository's skills first."""
    ranks = {"repo": 0, "user": 1, "plugin": 2, "admin": 3}
    return tuple(sorted(skills, key=lambda one: (ranks[one.scope], one.name, one.path)))
