"""What an MCP server asks an agent's model during a call (sampling), and the answer.

Every text of a question is the server's: untrusted, cleaned and bounded by the hub. Values only.
"""

from typing import Literal

from .values.base import Tagged, Value


class SamplingTurn(Value):
    role: Literal["user", "assistant"]
    text: str


class SamplingAction(Tagged, tag="sampling"):
    """A conversation that the agent's model is to continue, once, at the agent's expense."""

    server: str
    turns: tuple[SamplingTurn, ...]
    system: str = ""
    max_tokens: int = 1_000
    tool: str = ""  # the tool whose call asks
    source: str = ""  # where the server is configured


class SamplingAnswer(Value):
    """What the model wrote; `fault` says why there is nothing."""

    text: str = ""
    model: str = ""
    is_cut: bool = False  # at the question's limit
    fault: str = ""
