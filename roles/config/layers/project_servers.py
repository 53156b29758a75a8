"""What a project may not set for MCP servers, in its `.swarm` folder or its `.mcp.json`. Pure."""

import msgspec

from ..schema import Toml
from .merge import Layer, as_table


def without_known_servers(layer: Layer, below: Toml) -> Layer:
    """The layer without MCP servers that the person has, and without `sandbox`.

    A project's table must not change a program that the person's own table lets out of the sandbox,
    and not let one of its own out.
    """
    servers = as_table(layer.values.get("mcp_servers"))
    if not servers:
        return layer
    tables = as_table(below.get("mcp_servers"))
    known = {name for name, table in tables.items() if {"command", "url"} & as_table(table).keys()}
    kept: Toml = {}
    warnings: list[str] = []
    for name, value in servers.items():
        place = f"{layer.source or layer.name}: mcp_servers.{name}"
        if name in known:
            warnings.append(
                f"{place}: ignored, because your own configuration has a server of this name; "
                "rename one of them to use both"
            )
            continue
        table = as_table(value)
        if table.pop("sandbox", "read-only") != "read-only":
            warnings.append(
                f"{place}.sandbox: ignored: only your own configuration may run a server outside "
                "the sandbox"
            )
        kept[name] = table
    return msgspec.structs.replace(
        layer,
        values={**layer.values, "mcp_servers": kept},
        warnings=(*layer.warnings, *warnings),
    )
