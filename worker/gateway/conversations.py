"""The gateway's copy of each agent's conversation, so that a request carries only new items.

The agent names the state that it expects here (number of items, and their chain digest). If it is
the current state, the new items are added; if it is an earlier state, the later items are dropped
first; else `NeedHistory` asks for the whole history. So a request never has a wrong history.
"""

import hashlib
from functools import partial

import msgspec

from swarm.mailbox.base.errors import MalformedMessage
from swarm.mailbox.protocol.items import AnyItem, CustomToolCall, FunctionCall, Message, decode_item
from swarm.mailbox.protocol.sampling import ModelInfo, SampleRequest, chain_digest

from .backend import Failure, RenderedRequest
from .fit.dialect import Dialect, LearnedDialects
from .fit.refusals import plainest, read_refusal
from .request_encoding import HeadKey, ItemStore
from .sampling_fields import SamplingFields


class ConversationOwner(msgspec.Struct, frozen=True):
    """The agent that owns a conversation, and its model."""

    agent_id: str  # also the prompt cache key
    agent_path: str
    model: ModelInfo


_GUESS = (
    "refused a request in unknown words, and took it in the plainest form: it gets this form from "
    "now on"
)


class Conversation:
    """One agent's items on one wire.

    The items are kept as they came, for a server that teaches how it wants them.
    """

    def __init__(
        self,
        owner: ConversationOwner,
        store: ItemStore,
        fields: SamplingFields | None = None,
        dialects: LearnedDialects | None = None,
    ) -> None:
        self.owner = owner
        self._store, self._fields = store, fields or SamplingFields()
        self._dialects = dialects or LearnedDialects()
        self._items: list[bytes] = []
        self._guess: Dialect | None = None  # tried, and not yet taken by the server
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
            self._items.append(bytes(raw))
            self._digests.append(chain_digest(self._digests[-1], bytes(raw)))
            self._shapes.append(_shape(self._shapes[-1], item))
        return True

    def clear(self) -> None:
        """Forget all items; the next request is answered with `NeedHistory`."""
        self._store.clear()
        self._items.clear()
        del self._digests[1:]
        del self._shapes[1:]

    def _rewind(self, count: int) -> bool:
        if count == 0:
            self.clear()
        elif not self._store.rewind(count):
            return False
        del self._items[count:]
        del self._digests[count + 1 :]
        del self._shapes[count + 1 :]
        return True

    def render(self, request: SampleRequest, *, ordinal: int) -> RenderedRequest:
        """The accepted request, ready for a backend."""
        owner = self.owner
        dialect = self._dialects.of(owner.model)
        self._guess = None
        self._fit_store(dialect)
        key = HeadKey(
            dialect=dialect,
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
            refit=partial(self._refit, key),
            note_accepted=self._note_accepted,
            take_notices=partial(self._take_notices, request),
        )

    def _fit_store(self, dialect: Dialect) -> None:
        """Encode the items again if the server takes them otherwise than was known."""
        if self._store.change_dialect(dialect):
            for raw in self._items:
                self._store.append(decode_item(raw))

    def _refit(self, key: HeadKey, failure: Failure, sent: bytes) -> tuple[bytes, ...]:
        """The body as the server takes it, after what it refused; () if it names nothing."""
        model = self.owner.model
        if self._fields.refuse(model, failure, key.sampling):
            return self._body(key)
        said = failure.said or failure.message
        while True:
            dialect = self._guess or self._dialects.of(model)
            lesson = read_refusal(
                said, wire=model.wire, sent=sent, tools=key.tools, dialect=dialect
            )
            if lesson is None:
                return self._guessed_body(key, failure)
            if self._guess is None:
                notice = f"{model.provider} {model.slug} {lesson.notice}"
                self._dialects.learn(model, lesson.dialect, notice)
            else:
                self._guess = lesson.dialect
            if b"".join(body := self._body(key)) != sent:
                return body

    def _guessed_body(self, key: HeadKey, failure: Failure) -> tuple[bytes, ...]:
        """The plainest form, once, after a refusal in unknown words."""
        if self._guess is not None or failure.may_be_too_long or failure.kind != "bad_request":
            return ()
        if failure.http_status not in {400, 422, 500} or not self._holds_calls():
            return ()
        self._guess = plainest(self._dialects.of(self.owner.model))
        return self._body(key)

    def _holds_calls(self) -> bool:
        """True if the conversation has more than messages, so that its form may be the reason."""
        items = (decode_item(raw) for raw in self._items)
        return any(isinstance(item, FunctionCall | CustomToolCall) for item in items)

    def _note_accepted(self) -> None:
        """The server took what was sent: a guess is what it wants."""
        if (guess := self._guess) is not None:
            model, self._guess = self.owner.model, None
            self._dialects.learn(model, guess, f"{model.provider} {model.slug} {_GUESS}")

    def _take_notices(self, request: SampleRequest) -> tuple[str, ...]:
        model = self.owner.model
        told = self._fields.take_notices(model, request.sampling)
        return (*told, *self._dialects.take_notices(model))

    def _with_partial(self, key: HeadKey, text: str) -> tuple[bytes, ...]:
        return self._store.with_partial(self._current_key(key), self.owner.agent_id, text)

    def _body(self, key: HeadKey) -> tuple[bytes, ...]:
        current = self._current_key(key)
        self._fit_store(current.dialect)
        return self._store.body(current, self.owner.agent_id)

    def _current_key(self, key: HeadKey) -> HeadKey:
        """The key without what was refused since it was made."""
        model = self.owner.model
        left = self._fields.accepted(model, key.sampling)
        dialect = self._guess or self._dialects.of(model)
        return msgspec.structs.replace(key, sampling=left, dialect=dialect)


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
