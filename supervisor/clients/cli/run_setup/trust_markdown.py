"""What the Markdown files of a project would do: skills, commands and agents, for who decides.

Text from the project is shown exactly, never obeyed.
"""

from collections.abc import Iterator

from swarm.mailbox.base.errors import UsageError
from swarm.roles.agent_files.agent_file import read_agent_file
from swarm.roles.markdown.markdown_discovery import (
    AGENT_FOLDERS,
    COMMAND_FOLDERS,
    FoundMarkdown,
)
from swarm.roles.parts.commands.command_file import parse_command
from swarm.roles.parts.skills.skill_file import SKILL_FILE, instructions_of, parse_skill

from ....base.safe_text import exact_line

MARK = "!"  # before what starts programs, changes rights or is read by models
_MOST_SCRIPTS = 200  # names beside a skill


def markdown_lines(name: str, data: bytes, scripts: tuple[str, ...] = ()) -> list[str] | None:
    """The lines about a file; None if it is neither skill, command nor agent.

    Args:
        name: Relative to the project's `.swarm`.
        data: Its content.
        scripts: Names of the files beside a skill that its models may start.
    """
    if name.startswith("../") and name.endswith(f"/{SKILL_FILE}"):
        return list(_skill_lines(name, data, scripts))
    for folders, describe in ((COMMAND_FOLDERS, command_lines), (AGENT_FOLDERS, agent_lines)):
        for folder in folders:
            root = (
                folder.removeprefix(".swarm/") if folder.startswith(".swarm/") else f"../{folder}"
            )
            if name.startswith(f"{root}/") and name.endswith(".md"):
                found = FoundMarkdown(path=name, root=root, scope="project", data=data)
                return list(describe(found))
    return None


def _skill_lines(name: str, data: bytes, scripts: tuple[str, ...]) -> Iterator[str]:
    """What a skill says that it is for; its instructions are read by models that use it."""
    try:
        skill = parse_skill(data, path=name, scope="repo")
    except UsageError as error:
        yield f"  no usable skill: {exact_line(str(error))}"
        return
    size = instructions_of(data).count("\n") + 1
    yield f"{MARK} skill {exact_line(skill.name)}: {exact_line(skill.description)}"
    yield from (f"  {exact_line(note)}" for note in skill.notes)
    yield _instructions(size)
    if scripts:
        more = " and more" if len(scripts) > _MOST_SCRIPTS else ""
        shown = exact_line(", ".join(scripts[:_MOST_SCRIPTS])) + more
        yield f"{MARK} its files, which models may start in their sandbox: {shown}"


def command_lines(found: FoundMarkdown) -> Iterator[str]:
    """A command with each line that it has an agent run."""
    try:
        command = parse_command(found)
    except UsageError as error:
        yield f"  no usable command: {exact_line(str(error))}"
        return
    called = f"/{command.name} {command.hint}".rstrip()
    yield f"  command {exact_line(f'{called}: {command.description}')}"
    for line in command.shell_lines:
        shown = exact_line(line)
        yield f"{MARK} command /{command.name} has the agent run: {shown}"


def agent_lines(found: FoundMarkdown) -> Iterator[str]:
    """A role with what its agents are told and may use."""
    try:
        role = read_agent_file(found, {})
    except UsageError as error:
        yield f"  no usable agent: {exact_line(str(error))}"
        return
    yield f"{MARK} role {exact_line(f'{role.name}: {role.description}')}"
    rights = role.sandbox_mode or "the sandbox of its parent"
    chosen = "the tools of its parent" if role.tools.only is None else ", ".join(role.tools.only)
    yield f"  {exact_line(f'{rights}; {chosen}')}"
    yield _instructions(role.developer_instructions.count("\n") + 1)


def _instructions(lines: int) -> str:
    return f"  {lines} line{'' if lines == 1 else 's'} of instructions for models"
