"""Measures what a request holds beside the conversation: instructions, tools, the answer's schema.

Pure. The sizes go into the journal with the first token count after they change.
"""

from collections.abc import Iterable

from swarm.mailbox.protocol.context_sizes import HeadSizes, TextSize
from swarm.mailbox.protocol.sampling import ToolSpec
from swarm.mailbox.protocol.spec import RoleBrief

_MOST_TOOLS = 1_000  # named one by one; what is more is one entry


def measure_head(
    instructions: str,
    tools: tuple[ToolSpec, ...],
    *,
    schema: bytes | None,
    role: RoleBrief,
    guidance_files: Iterable[TextSize],
) -> HeadSizes:
    """Return the sizes, in bytes, of a request's instructions, tools and schema."""
    sizes = [TextSize(name=tool.name, size_bytes=_tool_bytes(tool)) for tool in tools]
    if more := sizes[_MOST_TOOLS:]:
        rest = TextSize(name="", size_bytes=sum(one.size_bytes for one in more))
        sizes = [*sizes[:_MOST_TOOLS], rest]
    return HeadSizes(
        instructions_bytes=len(instructions.encode()),
        instructions_from=role.name if role.base_instructions else "",
        tools=tuple(sizes),
        schema_bytes=len(schema or b""),
        guidance_files=tuple(guidance_files),
    )


def _tool_bytes(tool: ToolSpec) -> int:
    texts = (tool.name, tool.description, tool.grammar or "")
    return sum(len(text.encode()) for text in texts) + len(tool.parameters)
