"""What an MCP server asks a model, as lines for the person who is to approve it.

All texts are the server's: every one is shown exactly.
"""

from swarm.mailbox.protocol.server_sampling import SamplingAction

from ..base.safe_text import exact_line, exact_lines

_SYSTEM = "system"


def describe_sampling(action: SamplingAction) -> str:
    """What is asked, in one line."""
    last = action.turns[-1].text if action.turns else ""
    return f"{action.server} asks the model: {last}"


def sampling_lines(action: SamplingAction) -> list[str]:
    """Who asks, and what an approval means."""
    source = exact_line(action.source) or "?"
    tool = exact_line(action.tool)
    return [
        f"MCP server {exact_line(action.server)} ({source}) asks the model during its tool {tool}",
        f"the answer (at most {action.max_tokens:,} tokens) goes to the server; this agent pays",
    ]


def conversation_lines(action: SamplingAction) -> list[str]:
    """Every text, each line marked."""
    said = [(_SYSTEM, action.system)] if action.system else []
    said += [(one.role, one.text) for one in action.turns]
    lines: list[str] = []
    for role, text in said:
        lines.append(f"{role}:")
        lines += [f"| {line}" for line in exact_lines(text)]
    return lines
