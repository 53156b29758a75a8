"""The gateway's copy of each agent's conversation, so that a request carries only new items.

The agent names the state that it expects here (number of items, and their chain digest). If it is
the current state, the new items are added; if it is an earlier state, the later items are dropped
first; else `NeedHistory` asks for the whole history. So a request never has a wrong history.
"""

import hashlib
from functools import partial

import msgspec

from swarm.mailbox.errors import MalformedMessage
from swarm.mailbox.protocol.items import AnyItem, CustomToolCall, FunctionCall, Message, decode_item
from swarm.mailbox.protocol.sampling import ModelInfo, SampleRequest, chain_digest

from .backend import Failure, RenderedRequest
from .request_encoding import HeadKey, ItemStore
from .sampling_fields import SamplingFields


class ConversationOwner(msgspec.Struct, frozen=True):
    """The agent that owns a conversation, and its model."""

    agent_id: str  # also the prompt cache key
    agent_path: str
    model: ModelInfo


class Conversation:
    """One agent's items on one wire."""

    def __init__(
        self, owner: ConversationOwner, store: ItemStore, fields: SamplingFields | None = None
    ) -> None:
        self.owner = owner
        self._store, self._fields = store, fields or SamplingFields()
        self._digests: list[bytes] = [b""]  # after 0, 1, 2, … items
        self._shapes: list[bytes] = [b""]

    def __len__(self) -> int:
        return len(self._digests) - 1

    def accept(self, request: SampleRequest) -> bool:
        """Bring the items up to date with the request. False: its base is not held here.

        Raises:
            MalformedMessage: An item cannot be read; nothing changed.
        """
        base = request.base_count
        if not 0 <= base <= len(self) or self._digests[base] != request.base_digest:
            return False
        try:
            items = [decode_item(raw) for raw in request.items]
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedMessage(f"an item of the request cannot be read: {error}") from error
        if base < len(self) and not self._rewind(base):
            return False
        for raw, item in zip(request.items, items, strict=True):
            self._store.append(item)
            self._digests.append(chain_digest(self._digests[-1], bytes(raw)))
            self._shapes.append(_shape(self._shapes[-1], item))
        return True

    def clear(self) -> None:
        """Forget all items; the next request is answered with `NeedHistory`."""
        self._store.clear()
        del self._digests[1:]
        del self._shapes[1:]

    def _rewind(self, count: int) -> bool:
        if count == 0:
            self.clear()
        elif not self._store.rewind(count):
            return False
        del self._digests[count + 1 :]
        del self._shapes[count + 1 :]
        return True

    def render(self, request: SampleRequest, *, ordinal: int) -> RenderedRequest:
        """The accepted request, ready for a backend."""
        owner = self.owner
        key = HeadKey(
            model=owner.model,
            instructions=request.instructions,
            tools=request.tools,
            effort=request.effort,
            output_schema=request.output_schema,
            summary=request.summary,
            verbosity=request.verbosity,
            sampling=self._fields.accepted(owner.model, request.sampling),
            compacts=request.compacts,
        )
        return RenderedRequest(
            agent_id=owner.agent_id,
            agent_path=owner.agent_path,
            ordinal=ordinal,
            model=owner.model,
            instructions=request.instructions,
            tools=request.tools,
            output_schema=request.output_schema,
            compacts=request.compacts,
            items=self._store.items(),
            body=self._store.body(key, owner.agent_id),
            shape=self._shapes[-1],
            with_partial=partial(self._with_partial, key),
            without_thinking=partial(self._store.without_thinking, key, owner.agent_id),
            without_schema=partial(self._store.without_schema, key, owner.agent_id),
            without_sampling=partial(self._without_sampling, key),
            take_notices=partial(self._fields.take_notices, owner.model, request.sampling),
        )

    def _without_sampling(self, key: HeadKey, failure: Failure) -> tuple[bytes, ...]:
        if not self._fields.refuse(self.owner.model, failure, key.sampling):
            return ()
        return self._store.body(self._with_accepted_fields(key), self.owner.agent_id)

    def _with_partial(self, key: HeadKey, text: str) -> tuple[bytes, ...]:
        return self._store.with_partial(self._with_accepted_fields(key), self.owner.agent_id, text)

    def _with_accepted_fields(self, key: HeadKey) -> HeadKey:
        """The key without sampling fields that were refused since it was made."""
        left = self._fields.accepted(self.owner.model, key.sampling)
        return msgspec.structs.replace(key, sampling=left)


def _shape(previous: bytes, item: AnyItem) -> bytes:
    """A digest of the kinds of items; equal in two runs whose outputs differ only in details."""
    match item:
        case Message(role=role):
            text = f"message {role}"
        case FunctionCall(name=name) | CustomToolCall(name=name):
            text = f"call {name}"
        case _:
            text = type(item).__name__
    return hashlib.blake2b(text.encode(), digest_size=8, key=previous).digest()
