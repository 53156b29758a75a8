"""The skills of a run: found once, before anything is started, with the lines that models get."""

from pathlib import Path

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.base import Value
from swarm.roles.config.config_loader import SYSTEM_FOLDER, LoadedConfig
from swarm.roles.config.schema import SkillConfig
from swarm.roles.skills.discovery import (
    FoundSkills,
    SkillFile,
    in_order,
    parse_skills,
    personal_roots,
    project_skills,
    read_root,
)
from swarm.roles.skills.skill_file import Skill
from swarm.roles.skills.skill_list import SkillRule, enabled_skills, skill_lines


class RunSkills(Value):
    """The enabled skills, those that are switched off, the lines, and the warnings."""

    skills: tuple[Skill, ...] = ()
    disabled: tuple[Skill, ...] = ()
    lines: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def find_run_skills(loaded: LoadedConfig, config_folder: Path) -> RunSkills:
    """The skills of trusted projects, of the person and of the machine.

    Raises UsageError: a `[[skills.config]]` entry is not usable.
    """
    found = _find(loaded, config_folder)
    table = loaded.config.skills
    rules = [*(_rule(entry) for entry in table.config)]
    rules += [SkillRule(name=name, enabled=False) for name in table.exclude]
    enabled = enabled_skills(found.skills, rules)
    listed = skill_lines(enabled)
    warnings = list(found.warnings)
    if listed.left_out:
        warnings.append(
            f"skills: {listed.left_out} of {len(enabled)} are not in the list that models get, for "
            "it is full; shorten descriptions or switch some off (`skills.exclude`)"
        )
    return RunSkills(
        skills=enabled,
        disabled=tuple(skill for skill in found.skills if skill not in enabled),
        lines=listed.lines if table.include_instructions else (),
        warnings=tuple(warnings),
    )


def _find(loaded: LoadedConfig, config_folder: Path) -> FoundSkills:
    files: list[SkillFile] = []
    warnings: list[str] = []
    for root, scope in personal_roots(config_folder, Path.home(), SYSTEM_FOLDER):
        try:
            files += read_root(root, scope)
        except UsageError as error:
            warnings.append(str(error))
    for layer in loaded.layers:
        if layer.files and not layer.ignored:
            files += project_skills(layer.files)
    found = parse_skills(files)
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
