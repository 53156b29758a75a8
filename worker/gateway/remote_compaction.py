"""Compaction by the provider: `POST /responses/compact`, answered with one JSON body.

Only the sealed items of the output are used. The output repeats the user's messages too, but the
agent keeps those itself, word for word. The agent decides that an output without sealed items is no
compaction.
"""

import msgspec
import trio

from swarm.mailbox.protocol.items import Compaction

from .backend import (
    Failure,
    RenderedRequest,
    ResponseEvents,
    ResponseFinished,
    ResponseItemDone,
    SampleError,
)
from .http_client import HttpReply
from .responses_stream import read_usage

_MOST_BYTES = 32 << 20
_KINDS = frozenset({"compaction", "compaction_summary"})


class _Item(msgspec.Struct):
    type: str = ""
    encrypted_content: str | None = None


class _Answer(msgspec.Struct):
    id: str = ""
    output: tuple[_Item, ...] = ()
    usage: msgspec.Raw = msgspec.Raw(b"null")


_decode = msgspec.json.Decoder(_Answer).decode


async def read_compaction(
    reply: HttpReply, request: RenderedRequest, begun: float
) -> ResponseEvents:
    """Yield the sealed items, then the end. Raises SampleError if the body cannot be decoded."""
    first_byte_s = trio.current_time() - begun
    body = await reply.read_bounded(_MOST_BYTES)
    try:
        answer = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = f"the compaction of {request.model.provider} cannot be read: {error}"
        raise SampleError(Failure(kind="bad_response", message=text)) from error
    for item in answer.output:
        if item.type in _KINDS and item.encrypted_content:
            yield ResponseItemDone(item=Compaction(encrypted_content=item.encrypted_content))
    yield ResponseFinished(
        response_id=answer.id, usage=read_usage(bytes(answer.usage)), first_byte_s=first_byte_s
    )
