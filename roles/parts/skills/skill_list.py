"""Which skills count, the lines that a model is told, and who is mentioned in a text. Pure.

Source: Codex's skills; differs in that a repository's own skills come first, not last.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

from swarm.mailbox.contents.context_markers import unlisted_line
from swarm.mailbox.protocol.values.base import Value

from .skill_file import Skill

LIST_BYTES = 8_000  # of all lines together
# Names of common variables: `$PATH` in a text means no skill.
_VARIABLES = frozenset(
    ("path", "home", "user", "shell", "pwd", "tmpdir", "temp", "tmp", "lang", "term")
)
_MENTION = re.compile(
    r"\[\$(?P<linked>[\w:.-]{1,64})\]\((?P<path>[^)\s]{1,1024})\)|(?<![\w$])\$(?P<name>[\w:-]{1,64})"
)
_COMMAND = re.compile(r"\s*/(?P<name>[\w:-]{1,64})(?:\s|\Z)")


class SkillRule(Value):
    """One `[[skills.config]]` entry: exactly one of `name` and `path` is set.

    A name may hold `*` and `?`, which no skill's name does.
    """

    name: str = ""
    path: str = ""
    enabled: bool = True

    def fits(self, skill: Skill) -> bool:
        """True if the entry is about this skill."""
        return fnmatchcase(skill.name, self.name) if self.name else skill.path == self.path


class SkillLines(Value):
    """The lines that fit, and how many skills did not."""

    lines: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def told(self) -> tuple[str, ...]:
        """The lines, and a last one about those that are left out."""
        return (*self.lines, unlisted_line(self.left_out)) if self.left_out else self.lines


def enabled_skills(skills: Sequence[Skill], rules: Sequence[SkillRule]) -> tuple[Skill, ...]:
    """The skills that no rule switches off; a later rule overrides an earlier one."""

    def is_enabled(skill: Skill) -> bool:
        fitting = [rule.enabled for rule in rules if rule.fits(skill)]
        return fitting[-1] if fitting else True

    return tuple(skill for skill in skills if is_enabled(skill))


def skill_line(skill: Skill) -> str:
    """What models are told of a skill."""
    return f"- {skill.name}: {skill.description} (file: {skill.path})"


def skill_lines(
    skills: Sequence[Skill],
    *,
    limit_bytes: int = LIST_BYTES,
    last_used: Mapping[str, float] = MappingProxyType({}),
) -> SkillLines:
    """One line a skill, in order. A line that does not fit is left out whole.

    Room is given to those first that were used last (`last_used`: seconds by path), then in order.
    """
    lines = {number: skill_line(one) for number, one in enumerate(skills) if one.is_listed}
    ranked = sorted(lines, key=lambda number: -last_used.get(skills[number].path, 0.0))
    left, kept = limit_bytes, set[int]()
    for number in ranked:
        size = len(lines[number].encode()) + 1
        if size <= left:
            left -= size
            kept.add(number)
    return SkillLines(
        lines=tuple(line for number, line in lines.items() if number in kept),
        left_out=len(lines) - len(kept),
    )


def mentioned_skills(text: str, skills: Sequence[Skill]) -> tuple[Skill, ...]:
    """The skills that a text names, each once: `$name`, `[$name](path)`, or `/name` at its start.

    A name counts if exactly one skill has it; a link counts by its path.
    """
    found: dict[str, Skill] = {}
    for named in _mentions(text, skills):
        if len(named) == 1:
            found.setdefault(named[0].path, named[0])
    return tuple(found.values())


def shared_names(text: str, skills: Sequence[Skill]) -> dict[str, tuple[str, ...]]:
    """The names in a text that several skills have, so that they name none, with their files."""
    several = (named for named in _mentions(text, skills) if len(named) > 1)
    return {named[0].name: tuple(skill.path for skill in named) for named in several}


def _mentions(text: str, skills: Sequence[Skill]) -> Iterator[Sequence[Skill]]:
    """The skills that each mention may mean, in the order of the text."""
    by_name: dict[str, list[Skill]] = {}
    for skill in skills:
        by_name.setdefault(skill.name, []).append(skill)
    by_path = {skill.path: [skill] for skill in skills}

    def find(name: str) -> Sequence[Skill]:
        if name.lower() in _VARIABLES:
            return ()
        return by_name.get(name.rstrip(":-"), []) or by_name.get(name, [])

    if (command := _COMMAND.match(text)) is not None:
        yield find(command["name"])
    for mention in _MENTION.finditer(text):
        if mention["path"] is None:
            yield find(mention["name"])
        else:
            yield by_path.get(mention["path"].removeprefix("skill://"), ())
