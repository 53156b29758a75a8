"""`swarm skills …`: which skills a run here would have, what they cost, and which are off."""

import os
import time
from pathlib import Path

import click

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.file_reading import read_bounded
from swarm.roles.config.layers.toml_edit import ConfigEdit
from swarm.roles.config.schema import ProjectSkills
from swarm.roles.parts.skills.skill_file import (
    SKILL_BYTES,
    SKILL_FILE,
    Skill,
    format_problems,
    instructions_of,
)
from swarm.roles.parts.skills.skill_list import skill_line
from swarm.roles.parts.skills.skill_servers import missing_servers

from ....base.number_format import render_age
from ....base.safe_text import clean_block, clean_line
from ....runs.paths import find_user_paths
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns, print_json
from ..run_setup.run_settings import find_cwd, load_config_here
from ..run_setup.skill_settings import RunSkills, find_run_skills, project_of
from .config_edit_commands import edit_user_config

_BYTES_PER_TOKEN = 4
_TEMPLATE = """\
---
name: {name}
description: What it does, and when to use it.
---

# {name}

1. The first step.
"""


@click.group("skills")
def skills() -> None:
    """List, show, check and make skills: folders with a SKILL.md.

    \b
    Example:
      swarm skills list
    """


def _load() -> RunSkills:
    loaded = load_config_here()
    places = find_user_paths(dict(os.environ))
    found = find_run_skills(loaded, places.config, cwd=find_cwd(None), memory=places.state)
    for warning in (*loaded.warnings, *found.warnings):
        click.echo(f"swarm: warning: {clean_line(warning, limit=400)}", err=True)
    return found


@skills.command("list", cls=ColorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a skill.")
def list_skills(*, as_json: bool) -> None:
    """All skills of this folder, with what each costs.

    \b
    Example:
      swarm skills list
    """
    found = _load()
    rows = [(skill, "on") for skill in found.skills] + [(skill, "off") for skill in found.disabled]
    if as_json:
        for skill, state in rows:
            used = found.last_used.get(skill.path)
            print_json({**_fields(skill), "enabled": state == "on", "last_used": used})
        return
    if not rows:
        click.echo("no skills here; `swarm skills new NAME` makes one")
        return
    print_columns(
        ("SKILL", "FROM", "STATE", "LISTED", "READ", "USED", "WHAT IT IS FOR"),
        [
            (
                skill.name,
                skill.scope,
                state,
                f"{_listed_tokens(skill)} tokens",
                f"{skill.size_bytes // _BYTES_PER_TOKEN:,} tokens",
                _age(found.last_used.get(skill.path)),
                skill.description,
            )
            for skill, state in rows
        ],
    )


@skills.command("show", cls=ColorCommand)
@click.argument("name")
def show_skill(name: str) -> None:
    """Where a skill lies, and its instructions.

    \b
    Example:
      swarm skills show release-notes
    """
    found = _load()
    configured = set(load_config_here(lenient=True).config.mcp_servers)
    named = [skill for skill in (*found.skills, *found.disabled) if skill.name == name]
    if not named:
        known = ", ".join(skill.name for skill in found.skills) or "none"
        raise UsageError(f"there is no skill {name!r} here; there are: {known}")
    for skill in named:
        click.echo(clean_line(f"{skill.path} ({skill.scope})", limit=4_096))
        for line in missing_servers(skill, configured):
            click.echo(clean_line(line, limit=4_096))
        data = read_bounded(Path(skill.path), limit_bytes=SKILL_BYTES)
        click.echo(clean_block(instructions_of(data)))


@skills.command("validate", cls=ColorCommand)
@click.argument("path")
def validate_skill(path: str) -> None:
    """Check a skill's folder, or its SKILL.md, by the open format.

    Exit code 1 if it breaks a rule; each is named.

    \b
    Example:
      swarm skills validate .agents/skills/release-notes
    """
    place = Path(path)
    file = place / SKILL_FILE if place.is_dir() else place
    try:
        data = read_bounded(file, limit_bytes=SKILL_BYTES)
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {file}") from error
    problems = format_problems(data, folder=Path(os.path.realpath(file)).parent.name)
    for problem in problems:
        click.echo(f"{file}: {clean_line(problem, limit=400)}")
    if problems:
        raise SystemExit(1)
    click.echo(f"{file}: valid")


@skills.command("disable", cls=ColorCommand)
@click.argument("name")
@click.option("--everywhere", is_flag=True, help="In all projects, not in this one alone.")
def disable_skill(name: str, *, everywhere: bool) -> None:
    """Switch a skill off in this project, in your own configuration.

    \b
    Example:
      swarm skills disable release-notes
    """
    _switch(name, enabled=False, everywhere=everywhere)


@skills.command("enable", cls=ColorCommand)
@click.argument("name")
@click.option("--everywhere", is_flag=True, help="In all projects, not in this one alone.")
def enable_skill(name: str, *, everywhere: bool) -> None:
    """Switch a skill on again; in this project also one that is off everywhere.

    \b
    Example:
      swarm skills enable release-notes
    """
    _switch(name, enabled=True, everywhere=everywhere)


def _switch(name: str, *, enabled: bool, everywhere: bool) -> None:
    found = _load()
    skills = {skill.name for skill in (*found.skills, *found.disabled)}
    if name not in skills:
        known = ", ".join(sorted(skills)) or "none"
        raise UsageError(f"there is no skill {name!r} here; there are: {known}")
    loaded = load_config_here()
    table = loaded.config.skills
    project = project_of(loaded, find_cwd(None))
    steps: tuple[str, ...] = ("skills",) if everywhere else ("skills", "projects", project)
    own = table.projects.get(project, ProjectSkills())
    off = table.exclude if everywhere else own.exclude
    off = (*(one for one in off if one != name), *(() if enabled else (name,)))
    edit_user_config(ConfigEdit(steps=(*steps, "exclude"), value=list(off)), None)
    if not everywhere:
        on = (*(one for one in own.enable if one != name), *((name,) if enabled else ()))
        edit_user_config(ConfigEdit(steps=(*steps, "enable"), value=list(on)), None)
    where = "everywhere" if everywhere else f"in {project}"
    now = {skill.name for skill in _load().skills}
    if (name in now) != enabled:
        raise UsageError(
            f"{name} is still {'on' if name in now else 'off'} here: `[[skills.config]]`, "
            "`skills.exclude` or `[skills.projects]` of a configuration says so; "
            "`swarm config layers` lists them"
        )
    state = "on" if enabled else "off"
    click.echo(f"{clean_line(name)} is {state} {where}, in runs that start from now on")


@skills.command("new", cls=ColorCommand)
@click.argument("name")
@click.option(
    "--user", "for_user", is_flag=True, help="In ~/.agents/skills: for all your projects."
)
def new_skill(name: str, *, for_user: bool) -> None:
    """Make .agents/skills/NAME/SKILL.md with a template.

    \b
    Example:
      swarm skills new release-notes
    """
    text = _TEMPLATE.format(name=name)
    if problems := format_problems(text.encode(), folder=name):
        raise UsageError(f"{name!r}: {problems[0]}")
    base = Path.home() if for_user else Path.cwd()
    file = base / ".agents" / "skills" / name / SKILL_FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError as error:
        raise UsageError(f"{file} exists already") from error
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    click.echo(f"made {file}: say there what it is for")


def _listed_tokens(skill: Skill) -> int:
    size_bytes = len(skill_line(skill).encode())
    return -(-size_bytes // _BYTES_PER_TOKEN) if skill.is_listed else 0


def _age(used_unix_s: float | None) -> str:
    return "-" if used_unix_s is None else render_age(max(0.0, time.time() - used_unix_s))


def _fields(skill: Skill) -> dict[str, object]:
    return {
        "name": skill.name,
        "description": skill.description,
        "path": skill.path,
        "scope": skill.scope,
        "listed_tokens": _listed_tokens(skill),
        "read_tokens": skill.size_bytes // _BYTES_PER_TOKEN,
        "servers": [server.name for server in skill.servers],
    }
