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

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.safe_open import READ_FLAGS, open_canonical, read_start
from swarm.mailbox.protocol.values.base import Value

from ...base.project_links import ProjectLinks, may_be_there
from ...config.file_reading import read_bounded
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
    """The skills in the order of the list, and a line for each file that cannot be read as one."""

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
    return folder != Path.home() and any(may_be_there(folder / name) for name in PROJECT_FOLDERS)


def read_project_skills(
    folder: Path, links: ProjectLinks | None = None
) -> Iterator[tuple[str, bytes]]:
    """(path, content) of each SKILL.md and its sidecar in a project's folder.

    Args:
        folder: A canonical path.
        links: Follows links, or names them; None: those inside of `folder` are followed. What a
            link leads to is told by its canonical path, once.

    Raises UsageError if there are too many folders or a file is too large, OSError if a file cannot
    be read.
    """
    if not has_skill_folder(folder):
        return
    links = links or ProjectLinks(str(folder))
    roots = (links.follow(str(folder / name)) for name in PROJECT_FOLDERS)
    for place in _project_places([root for root in roots if root is not None], links):
        path = f"{place}/{SKILL_FILE}"
        yield path, _read(open_canonical(path, READ_FLAGS), path, SKILL_BYTES)
        beside = f"{place}/{SIDECAR}"
        if (real := links.follow(beside)) is not None and (fd := _open_own_file(real)) is not None:
            yield beside, _read(fd, beside, _SIDECAR_BYTES)


def _project_places(starts: list[str], links: ProjectLinks) -> Iterator[str]:
    """The folders with a SKILL.md, each once, by canonical paths.

    What links lead to is walked after all else, each as deep as any folder of skills; all together
    are bounded as one folder. Raises UsageError if there are more folders without links.
    """
    places: dict[str, None] = {}
    seen: set[tuple[int, int]] = set()
    own = len(starts)
    for number, start in enumerate(starts):  # links add to it
        try:
            for found in _walk(start, follow_links=False, seen=seen):
                if found.has_skill:
                    places[found.folder] = None
                for link in found.links:
                    _follow(link, links, starts, places)
        except UsageError as error:
            if number < own:
                raise
            links.leave_out(start, str(error))
    yield from places


def _follow(link: str, links: ProjectLinks, starts: list[str], places: dict[str, None]) -> None:
    """Add where the link leads: to a folder to be walked, or a skill."""
    is_skill = Path(link).name == SKILL_FILE
    if (real := links.follow(link)) is None:
        return
    if not is_skill and Path(real).is_dir():
        starts.append(real)
    elif is_skill and Path(real).name == SKILL_FILE:
        places[str(Path(real).parent)] = None
    elif is_skill:
        links.leave_out(link, "it is a link to another name; link the folder of the skill instead")


def _open_own_file(path: str) -> int | None:
    """The regular file at this canonical path; None: there is none, or a link has come there."""
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
    for found in _walk(str(root), follow_links=follow_links, seen=set()):
        yield found.folder, found.has_skill


class _Looked(Value):
    """One folder: whether it has a SKILL.md, its folders in order, and links not followed."""

    folder: str
    has_skill: bool = False
    below: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


def _walk(root: str, *, follow_links: bool, seen: set[tuple[int, int]]) -> Iterator[_Looked]:
    """As `walk_folders`. What is in `seen` is left out and counts; what is found is added."""
    level = [root]
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
            found = _look_in(folder, follow_links=follow_links)
            yield found
            below += found.below
        level = below


def _look_in(folder: str, *, follow_links: bool) -> _Looked:
    """At most 10,000 entries are looked at: a folder of skills is not a store of files."""
    names: list[str] = []
    links: list[str] = []
    has_skill = False
    try:
        with os.scandir(folder) as entries:
            for entry, _ in zip(entries, range(_MAX_ENTRIES), strict=False):
                if entry.name.startswith("."):
                    continue
                if not follow_links and entry.is_symlink():
                    links.append(f"{folder}/{entry.name}")
                elif entry.name == SKILL_FILE:
                    has_skill = _is_file(entry, follow_links=follow_links)
                elif _is_folder(entry, follow_links=follow_links):
                    names.append(entry.name)
    except OSError:
        names = []  # not there, not readable, or gone in the middle
    below = tuple(f"{folder}/{name}" for name in sorted(names))
    return _Looked(folder=folder, has_skill=has_skill, below=below, links=tuple(sorted(links)))


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
