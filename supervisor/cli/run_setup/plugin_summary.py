"""Describes what a plugin would run, hear and reach, for the person who decides about it.

Text from a plugin is cleaned and cut. What runs or reaches out is marked and comes first.
"""

from collections.abc import Iterator

from swarm.roles.config.layer_paths import is_list
from swarm.roles.config.merge import as_table
from swarm.roles.plugins.plugin_markdown import plugin_markdown
from swarm.roles.plugins.plugin_parts import BYTES_PER_TOKEN, PluginParts

from ...console.safe_text import clean_line
from .trust_markdown import agent_lines, command_lines

_COMMAND_CHARS = 2_000
_MOST_NAMES = 12


def describe_plugin(parts: PluginParts) -> list[str]:
    """Lines about one plugin, without its name; marked ones begin with `!`."""
    lines = [*_running(parts), *_reading(parts)]
    lines += [f"  {clean_line(warning, limit=300)}" for warning in parts.warnings]
    lines = [line.replace(parts.root, "$PLUGIN_ROOT") for line in lines]
    return lines or ["  it brings nothing that is used here"]


def plugin_title(parts: PluginParts) -> str:
    """`plugin demo@team 1.2.0: what it says of itself`."""
    about = ", ".join(filter(None, (parts.manifest.display_name, parts.manifest.description)))
    by = f" (by {parts.manifest.author})" if parts.manifest.author else ""
    text = f"plugin {parts.plugin_id} {parts.manifest.version}"
    return clean_line(f"{text}: {about}{by}" if about else f"{text}{by}", limit=300)


def _running(parts: PluginParts) -> Iterator[str]:
    for hook in parts.hooks:
        when = clean_line(f"{hook.event} {hook.matcher}".strip(), limit=80)
        reach = ", WITH network" if hook.network else ""
        command = clean_line(hook.line, limit=_COMMAND_CHARS)
        yield f"! hook, {when}{reach}, runs: {command}"
    for name, table in parts.servers.items():
        if url := table.get("url"):
            yield f"! MCP server {name} reaches: {clean_line(str(url), limit=400)}"
            continue
        words = [str(table.get("command", "")), *_texts(table.get("args"))]
        command = clean_line(" ".join(words), limit=_COMMAND_CHARS)
        yield f"! MCP server {name} runs, in the sandbox and without network: {command}"
        hears = sorted(as_table(table.get("env")).items())
        asked = [f"{key}={value}" for key, value in hears if "${" in str(value)]
        if asked:
            yield f"! MCP server {name} hears: {clean_line(', '.join(asked), limit=400)}"


def _reading(parts: PluginParts) -> Iterator[str]:
    for skill in parts.skills:
        tokens = skill.size_bytes // BYTES_PER_TOKEN
        about = clean_line(skill.description, limit=200)
        yield f"! skill {skill.name} ({tokens:,} tokens when it is read): {about}"
    if parts.listed_tokens:
        yield f"  its skills cost up to {parts.listed_tokens:,} tokens in each request"
    for found in plugin_markdown(parts, "commands"):
        yield from command_lines(found)
    for found in plugin_markdown(parts, "agents"):
        yield from agent_lines(found)
    yield from _names("programs, which its hooks, servers and skills may start", parts.programs)


def _names(what: str, names: list[str] | tuple[str, ...]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        yield f"  {what}: {clean_line(', '.join(names[:_MOST_NAMES]), limit=600)}{more}"


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if is_list(value) else []
