"""Reads an agent file (`.claude/agents/*.md`) as a role. Pure.

A role only takes rights away, whatever the file says: what would give one has no effect, and that
is said with file and line.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import cast

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.settings import EFFORTS, SkillChoice
from swarm.mailbox.protocol.values.limits import AskForApproval, McpAccess

from ..config.schema import SandboxMode
from ..markdown.front_matter import MarkdownFile, first_words, parse_markdown
from ..markdown.markdown_discovery import FoundMarkdown
from ..rights.role import Role
from .tool_mapping import MappedTools, map_tools

MODEL_WORDS = ("sonnet", "opus", "haiku")
_NAME = re.compile(r"[A-Za-z0-9][\w -]{0,63}\Z", re.ASCII)
_WORDS_CHARS = 300  # of what stands for a missing description
_EFFORTS = tuple(effort for effort in EFFORTS if effort != "none")  # these files have no "none"
_OBEYED = frozenset({
    "name", "description", "tools", "disallowedTools", "model", "effort", "mcpServers", "skills",
    "permissionMode", "color", "version", "author", "tags",
})  # fmt: skip
_MODES = {
    "acceptEdits": "a role gives no right: edits are judged as those of any agent here",
    "bypassPermissions": "a role gives no right: its calls are judged as those of any agent here",
    "auto": "a role gives no right: who answers is a matter of the run (`--reviewer`)",
}


def read_agent_file(found: FoundMarkdown, aliases: Mapping[str, str]) -> Role:
    """The role that this file describes, with its `warnings`.

    Args:
        found: The file.
        aliases: The person's models for words like `sonnet` (`agents.model_aliases`).

    Raises:
        UsageError: The text, with the file, says why it defines no agent.
    """
    file = _read(found)
    odd: list[str] = []
    name, description = _describe(found.path, file, odd)
    tools = map_tools(
        file.words("tools") if file.fields.get("tools") is not None else None,
        file.words("disallowedTools"),
    )
    return Role(
        name=f"{found.prefix}:{name}" if found.prefix else name,
        description=description,
        developer_instructions=file.body,
        model=_model(file, aliases),
        effort=word if (word := file.text("effort")) in _EFFORTS else None,
        approval=_approval(file, tools),
        sandbox_mode=_sandbox(file, tools),
        mcp_servers=_servers(file, tools),
        mcp_tools=tuple(
            McpAccess(server=server, tools=names) for server, names in tools.server_tools.items()
        ),
        tools=tools.choice,
        skills=SkillChoice(only=_skills(file)),
        warnings=(*odd, *_warnings(found.path, file, tools, aliases)),
        source=found.path,
    )


def _read(found: FoundMarkdown) -> MarkdownFile:
    try:
        if found.problem:
            raise UsageError(found.problem)
        return parse_markdown(found.data)
    except UsageError as error:
        text = str(error)
        raise UsageError(text if text.startswith(found.path) else f"{found.path}: {text}") from None


def _describe(path: str, file: MarkdownFile, odd: list[str]) -> tuple[str, str]:
    """Name and description; what stands for a faulty one is noted.

    Raises UsageError: it has no front matter or no text, or even the file's name is no role's.
    """
    if not file.fields:
        raise UsageError(f"{path}: an agent file begins with a front matter that has `name`")
    if not file.body:
        raise UsageError(f"{path}: it has no text: that is what its agents are told")
    name = file.text("name")
    if not _NAME.match(name):
        fault = "a role's name has letters, digits, blanks, - and _" if name else "it has no name"
        place = file.place(path, "name")
        name = re.sub(r"[^\w -]+", "-", PurePath(path).stem, flags=re.ASCII).strip("- ")[:64]
        if not _NAME.match(name):
            raise UsageError(f"{place}: {fault}, and neither is its file's")
        odd.append(f"{place}: {fault}; it is called {name}, as its file")
    if not (description := _description(file)):
        description = first_words(file.body, most_chars=_WORDS_CHARS)
        odd.append(f"{path}: it has no `description`; the first words of its text stand for it")
    return name, description


def _description(file: MarkdownFile) -> str:
    """The text in one line, also of a list."""
    if isinstance(file.fields.get("description"), list):
        return " ".join(" ".join(file.words("description")).split())
    return file.text("description")


def _sandbox(file: MarkdownFile, tools: MappedTools) -> SandboxMode | None:
    return "read-only" if tools.reads_only or file.text("permissionMode") == "plan" else None


def _approval(file: MarkdownFile, tools: MappedTools) -> AskForApproval | None:
    return "never" if file.text("permissionMode") == "dontAsk" else tools.approval


def _skills(file: MarkdownFile) -> tuple[str, ...] | None:
    return file.words("skills") if file.fields.get("skills") is not None else None


def _servers(file: MarkdownFile, tools: MappedTools) -> tuple[str, ...] | None:
    """The servers of `mcpServers`, and those whose tools are named; None: those of the parent."""
    given = file.fields.get("mcpServers")
    if given is None:
        return tools.servers
    names = file.words("mcpServers") if isinstance(given, str | list) else ()
    return tuple(dict.fromkeys((*names, *(tools.servers or ()))))


def _model(file: MarkdownFile, aliases: Mapping[str, str]) -> str | None:
    word = file.text("model")
    if word in aliases:
        return aliases[word]
    return None if word in {"", "inherit", "default", *MODEL_WORDS} else word


def _warnings(
    path: str, file: MarkdownFile, tools: MappedTools, aliases: Mapping[str, str]
) -> Iterator[str]:
    for key in file.fields:
        if key not in _OBEYED:
            yield f"{file.place(path, key)}: it has no effect here"
    for key, note in tools.notes:
        yield f"{file.place(path, key)}: {note}"
    word = file.text("model")
    if word in MODEL_WORDS and word not in aliases:
        yield (
            f"{file.place(path, 'model')}: no model is known for `{word}`, so it is the run's; "
            f"name one with [agents.model_aliases] {word} = …"
        )
    if (effort := file.text("effort")) and effort not in _EFFORTS:
        yield f"{file.place(path, 'effort')}: {effort!r} is not known; there are {_joined()}"
    mode = file.text("permissionMode")
    if mode and mode not in {"default", "plan", "dontAsk"}:
        why = _MODES.get(mode, "this mode is not known; it has no effect")
        yield f"{file.place(path, 'permissionMode')}: {why}"
    if _defines_servers(file):
        yield (
            f"{file.place(path, 'mcpServers')}: an agent file starts no server; configure it "
            "(`swarm mcp add`) and name it here"
        )


def _joined() -> str:
    return ", ".join(_EFFORTS)


def _defines_servers(file: MarkdownFile) -> bool:
    given = file.fields.get("mcpServers")
    inner = cast("list[object]", given) if isinstance(given, list) else [given]
    return any(isinstance(one, dict) for one in inner)
