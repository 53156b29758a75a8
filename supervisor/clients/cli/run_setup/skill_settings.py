"""The skills of a run: found once, before anything is started, with the lines that models get."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.base.guidance import find_project_root
from swarm.roles.config.layers.config_loader import SYSTEM_FOLDER, LoadedConfig
from swarm.roles.config.schema import ProjectSkills, SkillConfig
from swarm.roles.parts.skills.discovery import (
    FoundSkills,
    SkillFile,
    in_order,
    parse_skills,
    personal_roots,
    project_skills,
    read_root,
)
from swarm.roles.parts.skills.rescan import SkillSources
from swarm.roles.parts.skills.skill_cache import CACHE_FILE, SkillCache
from swarm.roles.parts.skills.skill_file import Skill, SkillScope
from swarm.roles.parts.skills.skill_list import SkillRule, enabled_skills, skill_lines
from swarm.roles.parts.skills.skill_use import read_skill_use

from ....request.run_request import SkillSet

_MOST_PERCENT = 50
_MOST_BYTES = 256 << 10


class RunSkills(Value):
    """The enabled skills, those that are switched off, the lines, and the warnings."""

    skills: tuple[Skill, ...] = ()
    disabled: tuple[Skill, ...] = ()
    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    last_used: Mapping[str, float] = {}  # Unix seconds by path
    sources: SkillSources = SkillSources()

    @property
    def chosen(self) -> SkillSet:
        """What a run is given of them."""
        return SkillSet(skills=self.skills, lines=self.lines, sources=self.sources)


def find_run_skills(
    loaded: LoadedConfig, config_folder: Path, *, cwd: Path, memory: Path
) -> RunSkills:
    """The skills of trusted projects, of the person and of the machine.

    Args:
        loaded: The configuration.
        config_folder: The person's own.
        cwd: Where the agents work.
        memory: swarm's folder of state, where what was read is remembered.

    Raises UsageError: a `[[skills.config]]` entry is not usable.
    """
    cache = SkillCache(memory / CACHE_FILE)
    roots = tuple(personal_roots(config_folder, Path.home(), SYSTEM_FOLDER))
    found = _find(loaded, roots, cache)
    cache.save()
    table = loaded.config.skills
    if not 0 <= table.budget_percent <= _MOST_PERCENT:
        raise UsageError(f"skills.budget_percent must be from 0 to {_MOST_PERCENT}")
    if not 0 <= table.budget_bytes <= _MOST_BYTES:
        raise UsageError(f"skills.budget_bytes must be from 0 to {_MOST_BYTES:,}")
    rules = [*(_rule(entry) for entry in table.config)]
    rules += [SkillRule(name=name, enabled=False) for name in table.exclude]
    chosen = table.projects.get(project_of(loaded, cwd), ProjectSkills())
    rules += [SkillRule(name=name, enabled=True) for name in chosen.enable]
    rules += [SkillRule(name=name, enabled=False) for name in chosen.exclude]
    enabled = enabled_skills(found.skills, rules)
    last_used = read_skill_use(memory)
    listed = skill_lines(enabled, limit_bytes=table.budget_bytes, last_used=last_used)
    warnings = list(found.warnings)
    if listed.left_out:
        warnings.append(
            f"skills: {listed.left_out} of {len(enabled)} are not in the list that models get, for "
            "it is full: those that were named last stay; shorten descriptions, switch some off "
            "(`swarm skills disable NAME`), or raise `skills.budget_bytes`"
        )
    return RunSkills(
        skills=enabled,
        disabled=tuple(skill for skill in found.skills if skill not in enabled),
        lines=listed.told if table.include_instructions else (),
        warnings=tuple(warnings),
        last_used=last_used,
        sources=SkillSources(
            roots=tuple((str(root), scope) for root, scope in roots),
            rules=tuple(rules),
            is_listed=table.include_instructions,
            budget_bytes=table.budget_bytes,
        ),
    )


def project_of(loaded: LoadedConfig, cwd: Path) -> str:
    """The project's root as `[skills.projects]` names it: canonical."""
    markers = loaded.config.project_root_markers
    return str(find_project_root(Path(os.path.realpath(cwd)), markers))


def _find(
    loaded: LoadedConfig, roots: Sequence[tuple[Path, SkillScope]], cache: SkillCache
) -> FoundSkills:
    files: list[SkillFile] = []
    warnings: list[str] = []
    for root, scope in roots:
        try:
            files += read_root(root, scope, cache)
        except UsageError as error:
            warnings.append(str(error))
    for layer in loaded.layers:
        if layer.files and not layer.ignored:
            files += project_skills(layer.files, cache)
    found = parse_skills(files, cache)
    plugins = [layer.plugin for layer in loaded.layers if layer.plugin is not None]
    brought = [skill for one in plugins for skill in one.skills]
    return FoundSkills(
        skills=in_order((*found.skills, *brought)), warnings=(*warnings, *found.warnings)
    )


def _rule(entry: SkillConfig) -> SkillRule:
    if bool(entry.name.strip()) == bool(entry.path.strip()):
        raise UsageError("skills.config: each entry has either `name` or `path`")
    path = str(Path(entry.path).expanduser().resolve()) if entry.path else ""
    return SkillRule(name=entry.name, path=path, enabled=entry.enabled)
