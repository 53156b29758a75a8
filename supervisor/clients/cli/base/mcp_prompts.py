"""Prompts of MCP servers as a person's words: `/SERVER:PROMPT WORDS…` → text with its origin.

The text is the server's. It is sent because a person asked for exactly this prompt, and it says
whose it is, so that neither a model nor a reviewer takes it for what the person wrote.
"""

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.protocol.mcp import GetMcpPrompt, ListMcpPrompts, McpOutcome, McpText

from ....base.prompt_call import PromptCall, parse_prompt_call
from ....base.safe_text import clean_block, clean_line


class PromptArgument(msgspec.Struct, frozen=True):
    name: str
    description: str = ""
    required: bool = False


class PromptEntry(msgspec.Struct, frozen=True):
    """A prompt as its server describes it."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class _Prompts(msgspec.Struct, frozen=True):
    prompts: tuple[PromptEntry, ...] = ()


class _Message(msgspec.Struct, frozen=True):
    role: str
    text: str


class _Messages(msgspec.Struct, frozen=True):
    messages: tuple[_Message, ...] = ()


def expand_prompt_call(text: str) -> str:
    """The words that a text stands for: the prompt of a configured server, or itself.

    Raises SwarmError.
    """
    call = parse_prompt_call(text)
    if call is None:
        return text
    from ..run_setup.run_settings import load_config_here  # other words need no configuration yet

    known = load_config_here(lenient=True).config.mcp_servers
    return fetch_prompt(call) if call.server in known else text


def list_prompts(server: str) -> tuple[PromptEntry, ...]:
    """The prompts of a server, which is started for it. Raises SwarmError."""
    outcome = _ask(server, ListMcpPrompts(server=server))
    return decode_json_as(_text(outcome), _Prompts).prompts


def fetch_prompt(call: PromptCall) -> str:
    """The words that the prompt stands for. Raises SwarmError with words for the person."""
    question = GetMcpPrompt(server=call.server, name=call.prompt, words=call.words)
    found = decode_json_as(_text(_ask(call.server, question)), _Messages)
    return render_prompt(call, tuple((one.role, one.text) for one in found.messages))


def render_prompt(call: PromptCall, messages: tuple[tuple[str, str], ...]) -> str:
    """The messages under a line that says where they come from. Raises UsageError."""
    texts = [
        clean_block(text) if role == "user" else f"({clean_line(role)}:) {clean_block(text)}"
        for role, text in messages
        if text.strip()
    ]
    if not texts:
        raise UsageError(f"the prompt `{call.prompt}` of `{call.server}` is empty")
    name = clean_line(call.prompt)
    head = f"[Text of the prompt `{name}` of the MCP server `{call.server}`, sent by the person]"
    return "\n\n".join([head, *texts])


def _ask(server: str, question: ListMcpPrompts | GetMcpPrompt) -> McpOutcome:
    from .mcp_process import ask_server  # loads what only a use of servers needs

    outcome = ask_server(server, question)
    if outcome.state != "completed":
        raise SwarmError(f"{server}: {clean_line(outcome.message, limit=600)}")
    return outcome


def _text(outcome: McpOutcome) -> str:
    return "".join(one.text for one in outcome.parts if isinstance(one, McpText))
