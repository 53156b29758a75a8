"""Describes what a plugin would run, hear and reach, for the person who decides about it.

Text from a plugin is shown exactly and never cut. What runs or reaches out is marked.
"""

import shlex
from collections.abc import Iterator

from swarm.roles.config.layers.layer_paths import is_list
from swarm.roles.config.layers.merge import as_table
from swarm.roles.parts.plugins.files.plugin_markdown import plugin_markdown
from swarm.roles.parts.plugins.files.plugin_parts import BYTES_PER_TOKEN, PluginParts

from ....base.safe_text import exact_line
from .trust_markdown import agent_lines, command_lines
from .trusted_texts import file_lines, text_lines


def describe_plugin(parts: PluginParts) -> list[str]:
    """Lines about one plugin, without its name; marked ones begin with `!`."""
    lines = [*_running(parts), *_reading(parts)]
    lines += [f"  {exact_line(warning)}" for warning in parts.warnings]
    lines = [line.replace(parts.root, "$PLUGIN_ROOT") for line in lines]
    return lines or ["  it brings nothing that is used here"]


def plugin_texts(parts: PluginParts) -> list[str]:
    """The whole text of each file that models read or that may be started."""
    lines: list[str] = []
    for skill in parts.skills:
        lines += _whole(parts, skill.path, file_lines(skill.path))
    for kind in ("commands", "agents"):
        for found in plugin_markdown(parts, kind):
            lines += _whole(parts, found.path, text_lines(found.data))
    for name in parts.programs:
        path = f"{parts.root}/{name}"
        lines += _whole(parts, path, file_lines(path))
    return lines


def _whole(parts: PluginParts, path: str, lines: Iterator[str]) -> Iterator[str]:
    yield f"{exact_line(path.replace(parts.root, '$PLUGIN_ROOT'))}, whole:"
    yield from (f"    {line}" for line in lines)


def plugin_title(parts: PluginParts) -> str:
    """`plugin demo@team 1.2.0: what it says of itself`."""
    about = ", ".join(filter(None, (parts.manifest.display_name, parts.manifest.description)))
    by = f" (by {parts.manifest.author})" if parts.manifest.author else ""
    text = f"plugin {parts.plugin_id} {parts.manifest.version}"
    return exact_line(f"{text}: {about}{by}" if about else f"{text}{by}")


def _running(parts: PluginParts) -> Iterator[str]:
    for hook in parts.hooks:
        when = exact_line(f"{hook.event} {hook.matcher}".strip())
        reach = ", WITH network" if hook.network else ""
        command = exact_line(hook.line)
        yield f"! hook, {when}{reach}, runs: {command}"
    for name, table in parts.servers.items():
        if url := table.get("url"):
            yield f"! MCP server {exact_line(name)} reaches: {exact_line(str(url))}"
            continue
        words = [str(table.get("command", "")), *_texts(table.get("args"))]
        command = exact_line(shlex.join(words))
        yield f"! MCP server {exact_line(name)} runs, in the sandbox and without network: {command}"
        hears = sorted(as_table(table.get("env")).items())
        asked = [f"{key}={value}" for key, value in hears if "${" in str(value)]
        if asked:
            yield f"! MCP server {exact_line(name)} hears: {exact_line(', '.join(asked))}"


def _reading(parts: PluginParts) -> Iterator[str]:
    for skill in parts.skills:
        tokens = skill.size_bytes // BYTES_PER_TOKEN
        about = exact_line(skill.description)
        yield f"! skill {exact_line(skill.name)} ({tokens:,} tokens when it is read): {about}"
    if parts.listed_tokens:
        yield f"  its skills cost up to {parts.listed_tokens:,} tokens in each request"
    for found in plugin_markdown(parts, "commands"):
        yield from command_lines(found)
    for found in plugin_markdown(parts, "agents"):
        yield from agent_lines(found)
    yield from _names("programs, which its hooks, servers and skills may start", parts.programs)


def _names(what: str, names: list[str] | tuple[str, ...]) -> Iterator[str]:
    if names:
        yield f"  {what}: {exact_line(', '.join(names))}"


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if is_list(value) else []
