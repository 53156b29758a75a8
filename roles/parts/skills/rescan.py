"""Looks again for the skills of a run that has begun.

A person's own skills count as they are now. What a project or a plugin brings was trusted as it was
at the run's start: a file that differs is left out, and comes back when it is as it was. So is a
person's own one that lies, by a link, where the run's commands may write.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import PROTECTED_NAMES, is_within
from swarm.mailbox.base.safe_open import READ_FLAGS, open_canonical, read_whole
from swarm.mailbox.protocol.values.base import Value

from .discovery import SkillFile, in_order, parse_skills, read_root, walk_folders
from .skill_cache import SkillCache
from .skill_file import SKILL_BYTES, Skill, SkillScope
from .skill_list import LIST_BYTES, SkillRule, enabled_skills

_HELD_SCOPES = ("repo", "plugin")


class SkillSources(Value):
    """Where a run's skills come from."""

    roots: tuple[tuple[str, SkillScope], ...] = ()  # a person's own and the machine's, in order
    rules: tuple[SkillRule, ...] = ()  # which of them are off
    is_listed: bool = True  # `include_instructions`
    budget_bytes: int = LIST_BYTES  # for all lines of the list


class SkillsNow(Value):
    """The skills that count now, what was left out with its reason, and what has changed."""

    skills: tuple[Skill, ...] = ()
    warnings: tuple[str, ...] = ()
    untrusted: tuple[Skill, ...] = ()  # no longer as they were trusted


def look_again(
    sources: SkillSources,
    at_start: Sequence[Skill],
    cache: SkillCache,
    *,
    writable: Sequence[str] = (),
) -> SkillsNow:
    """The skills as of now. Blocks.

    Args:
        sources: Where they come from.
        at_start: Those that the run began with.
        cache: Of files that were read before.
        writable: Canonical folders that the run's commands may write.
    """
    files: list[SkillFile] = []
    warnings: list[str] = []
    for root, scope in sources.roots:
        try:
            files += read_root(Path(root), scope, cache)
        except UsageError as error:
            warnings.append(str(error))
    found = parse_skills(files, cache)
    held = [skill for skill in at_start if skill.scope in _HELD_SCOPES]
    untrusted = [skill for skill in held if not is_as_trusted(skill)]
    kept = [skill for skill in held if skill not in untrusted]
    known = {(skill.path, skill.digest) for skill in at_start}
    for skill in enabled_skills(found.skills, sources.rules):
        is_new = (skill.path, skill.digest) not in known
        (untrusted if is_new and _may_be_written(skill.path, writable) else kept).append(skill)
    return SkillsNow(
        skills=in_order(kept),
        warnings=(*warnings, *found.warnings),
        untrusted=tuple(untrusted),
    )


def _may_be_written(path: str, writable: Sequence[str]) -> bool:
    """True if a sandboxed command may change this file."""
    return any(
        is_within(path, root) and Path(path).relative_to(root).parts[0] not in PROTECTED_NAMES
        for root in writable
    )


def watched_folders(sources: SkillSources, at_start: Sequence[Skill]) -> Iterator[str]:
    """Every folder in which a change may concern a skill; some may not be there. Blocks."""
    for root, _ in sources.roots:
        yield root
        try:
            yield from (place for place, _ in walk_folders(Path(root), follow_links=True))
        except UsageError:
            continue  # too many: said by the scan
    yield from (skill.folder for skill in at_start if skill.scope in _HELD_SCOPES)


def is_as_trusted(skill: Skill) -> bool:
    """True while its SKILL.md has the content that was read at the start. Blocks."""
    try:
        data = read_whole(open_canonical(skill.path, READ_FLAGS), most_bytes=SKILL_BYTES)
    except (UsageError, OSError):
        return False
    return hashlib.sha256(data).hexdigest() == skill.digest
