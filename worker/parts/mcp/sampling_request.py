"""Reads what a server asks a model (sampling): texts alone, cleaned and bounded.

Whatever is outside of the bounds is refused whole: a conversation that is cut means something else.
"""

import mcp_types

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.server_sampling import SamplingAction, SamplingAnswer, SamplingTurn

from .tool_schema import clean_text

MAX_TURNS = 40
MAX_CHARS = 60_000  # of all texts together
MAX_TOKENS = 8_000  # of one answer; a server that asks for more gets so many
_TOOL = 200  # characters


class SamplingRefused(SwarmError):
    """No model is asked; the text tells the server why."""


def read_sampling(
    params: mcp_types.CreateMessageRequestParams, *, server: str, tool: str
) -> SamplingAction:
    """The question as people and the model may see it. Raises SamplingRefused.

    Wishes for another model, for context of the conversation and for a temperature are left out, as
    the protocol allows.
    """
    if params.tools:
        raise SamplingRefused("the model gets no tools (`sampling.tools` was not declared)")
    if not 0 < len(params.messages) <= MAX_TURNS:
        raise SamplingRefused(f"a question has 1 to {MAX_TURNS} messages")
    if params.messages[-1].role != "user":
        raise SamplingRefused("the last message must be a user's")
    texts = [_text_of(one) for one in params.messages]
    system = params.system_prompt or ""
    if len(system) + sum(map(len, texts)) > MAX_CHARS:
        raise SamplingRefused(f"the messages have more than {MAX_CHARS:,} characters together")
    if params.max_tokens < 1:
        raise SamplingRefused("maxTokens must be at least 1")
    return SamplingAction(
        server=server,
        turns=tuple(
            SamplingTurn(role=one.role, text=clean_text(text, limit=MAX_CHARS))
            for one, text in zip(params.messages, texts, strict=True)
        ),
        system=clean_text(system, limit=MAX_CHARS),
        max_tokens=min(params.max_tokens, MAX_TOKENS),
        tool=clean_text(tool, limit=_TOOL),
    )


def _text_of(message: mcp_types.SamplingMessage) -> str:
    texts: list[str] = []
    for block in message.content_as_list:
        if not isinstance(block, mcp_types.TextContent):
            raise SamplingRefused(f"only texts can be asked, and this holds {block.type}")
        texts.append(block.text)
    return "\n".join(texts)


def sampling_result(
    answer: SamplingAnswer,
) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
    """What the server gets."""
    if answer.fault:
        return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=answer.fault)
    return mcp_types.CreateMessageResult(
        role="assistant",
        content=mcp_types.TextContent(text=answer.text),
        model=answer.model,
        stop_reason="maxTokens" if answer.is_cut else "endTurn",
    )
