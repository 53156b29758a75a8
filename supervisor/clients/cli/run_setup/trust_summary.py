"""Describes what a project's configuration would do, for the person who decides about trust.

Everything that the decision covers is shown, and nothing of it is cut: first whole texts that
models read, then each key and each program, nearest to the question. Text from the project is shown
exactly (`safe_text`), never obeyed. Keys that reach beyond the project or let agents do more are
marked, explained and listed first in their file.
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from swarm.mailbox.base.bounded_formats import parse_toml_text
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.safe_open import scan_folder
from swarm.mailbox.base.written_text import decode_leniently
from swarm.mailbox.protocol.hooks import HookForm
from swarm.roles.config.key_positions import KeyPath
from swarm.roles.config.layers.merge import leaves
from swarm.roles.config.layers.project_config import (
    DENIED_KEYS,
    MCP_FILE,
    PROJECT_FOLDER,
    ProjectFolder,
)
from swarm.roles.config.layers.trust import TrustStore
from swarm.roles.config.part_keys import PART_KEYS
from swarm.roles.config.schema import Toml
from swarm.roles.parts.hooks.hook_file import read_hook_json
from swarm.roles.parts.hooks.hook_output import CALL_GATES
from swarm.roles.parts.hooks.project_hooks import hook_form
from swarm.roles.parts.skills.skill_file import SKILL_FILE

from ....base.safe_text import exact_line
from .trust_markdown import MARK, markdown_lines
from .trusted_texts import shown_path, text_lines

_MOST_SCRIPTS = 200  # beside a skill: their names; what they hold is no part of the decision
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_NOTHING = TrustStore()
_MCP_NAME = f"../{MCP_FILE}"
_MEANINGS: dict[str, str] = {
    "sandbox_workspace_write": "changes what commands may write or reach",
    "shell_environment_policy": "changes the variables that commands get",
    "permissions": "changes what commands may read, write or reach",
    "default_permissions": "changes what commands may read, write or reach",
    "network": "changes what commands may reach",
    "isolation": "says which agents work in copies of the project",
    "allow_commit": "agents may record work in the repository unasked",
    "approvals_reviewer": "changes who is asked",
    "mcp_servers": "names programs that are started, in the sandbox, with these rights",
    "hooks": "starts programs at points of each agent's session, in the sandbox",
    "features": "switches parts on or off",
    "limits": "changes what commands may use",
    "budget": "changes what a run may cost",
    **{key: part.meaning for key, part in PART_KEYS.items()},
}
_VALUES: dict[tuple[str, object], str] = {
    ("sandbox_mode", "danger-full-access"): "commands run WITHOUT a sandbox",
    ("sandbox_mode", "workspace-write"): "commands may write in the project",
    ("merge", "auto"): "what agents changed in copies goes into the project unasked",
    ("approval_policy", "never"): "nothing is ever asked",
    ("approval_policy", "on-failure"): "asks only after the sandbox stopped something",
}


def describe_projects(folders: Sequence[ProjectFolder], store: TrustStore = _NOTHING) -> list[str]:
    """Lines for all folders, the outermost first; what changed since `store` trusted it first."""
    lines: list[str] = []
    for one in folders:
        if one.title:
            lines += [one.title, *(f"    {line}" for line in one.described)]
            continue
        has_config = any(not name.startswith("../") for name in one.files_by_name())
        place = Path(one.folder, PROJECT_FOLDER) if has_config or one.problem else one.folder
        lines += _texts(one)
        lines.append(shown_path(str(place)))
        if changes := store.changes(one):
            lines.append(f"    since you trusted it: {exact_line(str(changes))}")
        if one.problem:
            lines.append(f"    {exact_line(one.problem)}")
        lines += [f"    {exact_line(link)}" for link in one.left_out]
        for name, data in one.files_by_name().items():
            lines.append(f"    {_shown_name(one, name)}")
            shown = sorted(
                _file_lines(name, data, _skill_files(one, name)), key=lambda line: line[:1] != MARK
            )
            lines += [f"      {line}" for line in shown]
    return lines


def _texts(one: ProjectFolder) -> Iterator[str]:
    """The whole text of each file that models read."""
    for name, data in one.files_by_name().items():
        if markdown_lines(name, data) is not None:
            yield f"{_shown_name(one, name)}, whole:"
            yield from (f"    {line}" for line in text_lines(data))


def _shown_name(one: ProjectFolder, name: str) -> str:
    return shown_path(os.path.normpath(Path(one.folder, PROJECT_FOLDER, name)), name)


def _skill_files(one: ProjectFolder, name: str) -> tuple[str, ...]:
    """Names below `scripts/` of the skill that this file is; one more than are shown."""
    if Path(name).name != SKILL_FILE:
        return ()
    place = Path(one.folder, PROJECT_FOLDER, name).parent / "scripts"
    try:
        with scan_folder(os.path.normpath(place)) as entries:
            return tuple(sorted(entry.name for entry in islice(entries, _MOST_SCRIPTS + 1)))
    except OSError:
        return ()


def _file_lines(name: str, data: bytes, scripts: tuple[str, ...] = ()) -> Iterator[str]:
    text = decode_leniently(data).text
    if (lines := markdown_lines(name, data, scripts)) is not None:
        yield from lines
        return
    if name == _MCP_NAME:
        yield f"{MARK} names programs that are started, in the sandbox"
    if (form := hook_form(name)) is not None:
        yield from _hook_lines(name, data, form)
        return
    if not name.endswith(".toml"):
        if name.startswith("../") and name != _MCP_NAME:
            yield f"{MARK} a hook starts this file"
        yield from text_lines(data)
        return
    try:
        values: Toml = parse_toml_text(text)
    except ValueError as error:
        yield f"{MARK} not valid TOML: {exact_line(str(error))}"
        yield from text_lines(data)
        return
    for path, value in leaves(values):
        yield _key_line(path, value, own=name == "config.toml")


def _hook_lines(name: str, data: bytes, form: HookForm) -> Iterator[str]:
    """Each hook with its whole command line, and what of the file has no effect."""
    try:
        read = read_hook_json(data, name, form=form)
    except UsageError as error:
        yield f"{MARK} no usable hooks: {exact_line(str(error))}"
        yield from text_lines(data)
        return
    for hook in read.hooks:
        when = f"{hook.event} {hook.matcher}".strip()
        reach = ", WITH network" if hook.network else ""
        if hook.event in CALL_GATES:
            reach += ", MAY ALLOW what it is asked about" if hook.may_allow else ", can only deny"
        yield f"{MARK} hook, {exact_line(when)}{reach}, runs: {exact_line(hook.line)}"
    for warning in read.warnings:
        yield f"  {exact_line(warning)}"


def _key_line(path: KeyPath, value: object, *, own: bool) -> str:
    name = ".".join(key if _BARE_KEY.fullmatch(key) else json.dumps(key) for key in path)
    shown = exact_line(f"{name} = {_value(value)}")
    if own and path[0] in DENIED_KEYS:
        return f"  {shown}   (ignored: a project may not set it)"
    meaning = _VALUES.get((path[0], value) if isinstance(value, str) else ("", ""))
    meaning = meaning or _MEANINGS.get(path[0], "")
    return f"{MARK} {shown}   <- {meaning}" if meaning else f"  {shown}"


def _value(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, msgspec.MsgspecError):
        return str(value)


def describe_file_count(folders: Sequence[ProjectFolder]) -> str:
    """`3 files in 2 folders, 1 plugin`."""
    files = sum(len(one.files) for one in folders)
    plugins = sum(1 for one in folders if one.title)
    places = len(folders) - plugins
    parts = [f"{files} {_plural('file', files)} in {places} {_plural('folder', places)}"]
    parts += [f"{plugins} {_plural('plugin', plugins)}"] if plugins else []
    return ", ".join(parts if places else parts[1:] or parts)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
