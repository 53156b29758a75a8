"""What the Markdown files of a project would do: skills, commands and agents, for who decides.

Text from the project is cleaned and cut, never obeyed.
"""

from collections.abc import Iterator

from swarm.mailbox.errors import UsageError
from swarm.roles.agent_files.agent_file import read_agent_file
from swarm.roles.commands.command_file import parse_command
from swarm.roles.markdown.markdown_discovery import (
    AGENT_FOLDERS,
    COMMAND_FOLDERS,
    FoundMarkdown,
)
from swarm.roles.skills.skill_file import SKILL_FILE, instructions_of, parse_skill

from ...console.safe_text import clean_line

MARK = "!"  # before what starts programs, changes rights or is read by models
_COMMAND_CHARS = 2_000  # of a command line: all of it is shown, in nearly every case


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
        yield f"  no usable skill: {clean_line(str(error))}"
        return
    size = instructions_of(data).count("\n") + 1
    yield f"{MARK} skill {skill.name}: {clean_line(skill.description, limit=240)}"
    yield f"  {size} lines of instructions for models"
    if scripts:
        shown = clean_line(", ".join(scripts), limit=240)
        yield f"{MARK} its files, which models may start in their sandbox: {shown}"


def command_lines(found: FoundMarkdown) -> Iterator[str]:
    """A command with each line that it has an agent run."""
    try:
        command = parse_command(found)
    except UsageError as error:
        yield f"  no usable command: {clean_line(str(error))}"
        return
    called = f"/{command.name} {command.hint}".rstrip()
    yield f"  command {clean_line(f'{called}: {command.description}', limit=240)}"
    for line in command.shell_lines:
        shown = clean_line(line, limit=_COMMAND_CHARS)
        yield f"{MARK} command /{command.name} has the agent run: {shown}"


def agent_lines(found: FoundMarkdown) -> Iterator[str]:
    """A role with what its agents are told and may use."""
    try:
        role = read_agent_file(found, {})
    except UsageError as error:
        yield f"  no usable agent: {clean_line(str(error))}"
        return
    yield f"{MARK} role {clean_line(f'{role.name}: {role.description}', limit=240)}"
    rights = role.sandbox_mode or "the sandbox of its parent"
    chosen = "the tools of its parent" if role.tools.only is None else ", ".join(role.tools.only)
    yield f"  {clean_line(f'{rights}; {chosen}', limit=240)}"
    yield f"  {role.developer_instructions.count(chr(10)) + 1} lines of instructions for models"
