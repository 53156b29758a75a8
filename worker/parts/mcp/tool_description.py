"""What a server says of a tool, cleaned, with what the server's table says of it. Pure."""

import hashlib

import mcp_types
import msgspec

from swarm.mailbox.protocol.mcp import McpAnnotations, McpServer, McpTool

from .tool_schema import clean_schema, clean_text


def is_enabled(tool: str, server: McpServer) -> bool:
    """By the server's own name of the tool: the allow-list, then the deny-list."""
    listed = server.enabled_tools is None or tool in server.enabled_tools
    return listed and tool not in server.disabled_tools


def describe_tool(tool: mcp_types.Tool, server: McpServer) -> McpTool:
    """The tool, cleaned; its `name` is given later, when all tools of an agent are known."""
    hints = tool.annotations or mcp_types.ToolAnnotations()
    found = McpTool(
        server=server.name,
        tool=tool.name,
        name="",
        description=clean_text(tool.description or hints.title or tool.title or ""),
        parameters=clean_schema(tool.input_schema),
        annotations=McpAnnotations(
            read_only=hints.read_only_hint,
            destructive=hints.destructive_hint,
            idempotent=hints.idempotent_hint,
            open_world=hints.open_world_hint,
        ),
        output_schema=b"" if tool.output_schema is None else clean_schema(tool.output_schema),
    )
    digest = hashlib.sha256(msgspec.json.encode(found, order="sorted")).hexdigest()[:32]
    open_world = hints.open_world_hint is not False
    own = next((one for one in server.tool_approvals if one.tool == tool.name), None)
    has_changed = own is not None and own.digest not in ("", digest)
    return msgspec.structs.replace(
        found,
        approval=server.approval if own is None or has_changed else own.mode,
        parallel=server.parallel,
        source=server.source,
        digest=digest,
        open_world=open_world if server.open_world is None else server.open_world,
        has_changed=has_changed,
    )
