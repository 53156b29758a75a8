"""What a role's choice of plugins takes away: skills and MCP servers of the others. Pure.

Hooks of a plugin guard every agent, whatever its role says.
"""

from collections.abc import Sequence, Set

import msgspec

from swarm.mailbox.protocol.settings import SkillChoice
from swarm.mailbox.protocol.values.base import Value

from ...config.layers.merge import Layer, as_table
from ...rights.role import Role
from .files.plugin_parts import PluginParts


class BroughtPlugin(Value):
    """A plugin that counts here, and its MCP servers that do."""

    parts: PluginParts
    servers: tuple[str, ...] = ()

    def is_named(self, names: Set[str]) -> bool:
        """True if one of the names is its id, or its name alone."""
        return bool(names & {self.parts.plugin_id, self.parts.name})


def brought_plugins(layers: Sequence[Layer]) -> list[BroughtPlugin]:
    """The plugins among the layers of the configuration."""
    return [
        BroughtPlugin(parts=layer.plugin, servers=tuple(as_table(layer.values.get("mcp_servers"))))
        for layer in layers
        if layer.plugin is not None
    ]


def with_plugin_choice(role: Role, brought: Sequence[BroughtPlugin], warnings: list[str]) -> Role:
    """The role without what the plugins bring that it does not choose.

    `warnings` gets a line for each name that no plugin has.
    """
    only, exclude = role.plugins.only, frozenset(role.plugins.exclude)
    if only is None and not exclude:
        return role
    gone = [
        one
        for one in brought
        if (only is not None and not one.is_named(frozenset(only))) or one.is_named(exclude)
    ]
    skills = tuple(skill.name for one in gone for skill in one.parts.skills)
    servers = (server for one in gone for server in one.servers)
    warnings += [
        f"{role.source}: plugins: {name} is not a plugin that counts here"
        for name in (*(only or ()), *role.plugins.exclude)
        if not any(one.is_named({name}) for one in brought)
    ]
    return msgspec.structs.replace(
        role,
        skills=role.skills.narrowed(SkillChoice(exclude=skills)),
        without_servers=tuple(dict.fromkeys((*role.without_servers, *servers))),
    )
