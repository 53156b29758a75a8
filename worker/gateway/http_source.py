"""One attempt over HTTP: send the request, decode the response stream of the provider's wire.

It tries once and reports exactly what failed; retry_policy.py decides about another attempt. No
text contains anything that could hold a key (headers, query).
"""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from time import time

import msgspec
import trio

from swarm.mailbox.base.trained_tool_names import TRAINED_TOOL_NAMES
from swarm.mailbox.protocol.items import Origin
from swarm.mailbox.protocol.sampling import ToolSpec
from swarm.mailbox.protocol.spec import ProviderSpec

from .answering_models import AnsweringModels
from .backend import (
    AnyResponseEvent,
    AttemptEvents,
    Failure,
    NewId,
    RenderedRequest,
    RequestAccepted,
    RequestWaiting,
    ResponseEvents,
    ResponseFinished,
    SampleError,
)
from .chat_stream import ChatStream
from .constrained_calls import ConstrainedChatStream
from .failures import (
    FailureOrigin,
    classify_status,
    cut_off,
    only_keepalives,
    refuses_schema,
    refuses_thinking,
)
from .http.http_client import (
    KEEPALIVE_IDLE_FACTOR,
    HttpClient,
    HttpReply,
    HttpRequest,
    TransportFailed,
)
from .provider_keys import KeyUnavailable, ProviderKeys
from .providers import key_source
from .rate_limit_headers import MAX_PREVENTIVE_S, read_rate_limits, spent_allowance_s
from .request_headers import Unsigned, own_headers
from .responses_stream import ResponsesStream, read_compaction
from .sse import EventTooLarge, SseSplitter, UnreadableEvent
from .whole_answers import MAX_WHOLE_BYTES, events_of_answer, is_whole_answer
from .wire_stream import WireStream

_DRAIN_S = 0.25
MOST_REFITS = 4  # of one request: what is refused then fails it
_REFITTED = frozenset({"bad_request", "invalid_image"})
_MOST_COMPACTED_BYTES = 32 << 20
_PATHS = {"responses": "/responses", "chat": "/chat/completions", "messages": "/messages"}
USER_AGENT = "swarm-supervisor"
_HEADERS = {
    "accept": "text/event-stream",
    "content-type": "application/json",
    "user-agent": USER_AGENT,
}


class ProviderUrls(msgspec.Struct, frozen=True):
    """The addresses of a provider."""

    url: str  # with the query
    shown: str  # the same without the query, for texts
    compact_url: str  # of the provider's own compaction
    idle_s: float


def provider_urls(provider: ProviderSpec) -> ProviderUrls:
    """The provider's address."""
    shown = provider.base_url.rstrip("/") + _PATHS[provider.wire_api]
    query = "&".join(f"{name}={value}" for name, value in provider.query_params.items())
    return ProviderUrls(
        url=f"{shown}?{query}" if query else shown,
        compact_url=f"{shown}/compact?{query}" if query else f"{shown}/compact",
        shown=shown,
        idle_s=provider.stream_idle_timeout_ms / 1000,
    )


def _warn_nobody(text: str) -> None:
    """For a server that is the run's own."""


class HttpSource:
    """One provider behind one HTTP client. `warn` is told when another model answers."""

    def __init__(
        self,
        client: HttpClient,
        provider: ProviderSpec,
        keys: ProviderKeys,
        new_id: NewId,
        warn: Callable[[str], None] = _warn_nobody,
    ) -> None:
        self._client, self._provider, self._new_id = client, provider, new_id
        self._urls, self._keys = provider_urls(provider), keys
        self._answering = AnsweringModels(provider, warn)
        # A cloud says of credentials that have ended what others say of a missing right.
        self._renewed_after = {401} if provider.credentials is None else {401, 403}
        self._origin = FailureOrigin(
            provider=provider.name or provider.id,
            url=self._urls.shown,
            key_from=key_source(provider),
            env_key_instructions=provider.env_key_instructions,
        )

    async def attempt(self, request: RenderedRequest) -> AttemptEvents:
        body = b"".join(request.body)
        refused: Failure | None = None
        is_renewed, refits, is_answered = False, 0, False
        for notice in request.take_notices():
            yield RequestWaiting(reason=notice, delay_s=0.0)
        while True:
            key = await self._fresh_key()
            post = self._post(request, body)
            begun = trio.current_time()
            try:
                async with self._client.post(post) as reply:
                    if reply.status != 200:
                        refused = await self._refused(reply)
                    else:
                        yield RequestAccepted(
                            pause_s=_pause_s(reply.headers),
                            limits=read_rate_limits(reply.headers, time()),
                        )
                        async with aclosing(self._answer(reply, request, begun)) as events:
                            async for event in events:
                                is_answered = True
                                yield event
                        return
            except TransportFailed as error:
                raise SampleError(self._broken(error)) from error
            except SampleError as error:
                refused = error.failure
                if is_answered or refused.kind != "bad_request" or refused.http_status is None:
                    raise  # else it is a refusal, though the status said that all is well
            if refused.http_status in self._renewed_after and not is_renewed:
                is_renewed = True
                if await self._has_other_key(key):
                    continue
            refits += 1
            body, notices = self._without_refused(request, refused, post.body)
            for notice in notices:
                yield RequestWaiting(reason=notice, delay_s=0.0)
            if not body or refits > MOST_REFITS:
                raise SampleError(refused)

    def _post(self, request: RenderedRequest, body: bytes) -> HttpRequest:
        url = self._urls.compact_url if request.compacts else self._urls.url
        own = own_headers(self._provider, self._keys.values, Unsigned("POST", url, body))
        return HttpRequest(url, _HEADERS | own, body, self._urls.idle_s)

    def _without_refused(
        self, request: RenderedRequest, refused: Failure, sent: bytes
    ) -> tuple[bytes, tuple[str, ...]]:
        """The body without what was refused, and what to say; b"": there is no other body."""
        if refuses_thinking(refused) and (body := b"".join(request.without_thinking())):
            return body, ()
        if refuses_schema(refused) and (body := b"".join(request.without_schema())):
            return body, (self._unheld(request.model.slug),)
        is_template = refused.http_status == 500  # of a server that fails at what it does not take
        if refused.kind not in _REFITTED and not is_template:
            return b"", ()
        body = b"".join(request.refit(refused, sent))
        return b"" if body == sent else body, request.take_notices()

    def _unheld(self, slug: str) -> str:
        return (
            f"{self._origin.provider} refuses `response_format`: from now on the tool calls of "
            f"{slug} are read as the model writes them (`constrained_calls` in models.toml)"
        )

    async def _fresh_key(self) -> str:
        """The key that will be sent; "" if there is none. Raises SampleError."""
        try:
            await self._keys.ensure_key(self._provider)
        except KeyUnavailable as error:
            raise SampleError(Failure(kind="missing_key", message=str(error))) from error
        return self._keys.values.get(self._provider.env_key or "", "")

    async def _has_other_key(self, refused: str) -> bool:
        """True if there is a key now that was not refused. Raises SampleError."""
        try:
            return await self._keys.refresh_key(self._provider, refused)
        except KeyUnavailable as error:
            raise SampleError(Failure(kind="missing_key", message=str(error))) from error

    async def _answer(
        self, reply: HttpReply, request: RenderedRequest, begun: float
    ) -> ResponseEvents:
        """The events of an answer. With the first one, what was sent is known to be taken."""
        is_taken = False
        read = self._read_compacted if request.compacts else self._read
        async with aclosing(read(reply, request, begun)) as events:
            async for event in events:
                if not is_taken:
                    is_taken = True
                    request.note_accepted()
                    for notice in request.take_notices():
                        yield RequestWaiting(reason=notice, delay_s=0.0)
                yield event

    async def _read(
        self, reply: HttpReply, request: RenderedRequest, begun: float
    ) -> ResponseEvents:
        splitter, stream, first = SseSplitter(), self._open_stream(request), _FirstBytes(begun)
        try:
            async with aclosing(self._read_events(reply, splitter, stream, first)) as events:
                async for event in events:
                    yield _timed(event, first.after_s)
        except EventTooLarge as error:
            text = f"{self._origin.provider}: {error}"
            raise SampleError(Failure(kind="bad_response", message=text)) from error
        except SampleError as error:
            is_stream = splitter.events_seen or first.is_whole
            if error.failure.kind == "stream_disconnected" and not is_stream:
                raise SampleError(self._no_stream(reply, first.preview)) from error
            raise
        finally:
            self._answering.note(request.model.slug, stream.served_model)

    async def _read_events(
        self,
        reply: HttpReply,
        splitter: SseSplitter,
        stream: WireStream[object],
        first: "_FirstBytes",
    ) -> ResponseEvents:
        limit_s, said, said_at = KEEPALIVE_IDLE_FACTOR * self._urls.idle_s, 0, trio.current_time()
        while chunk := await reply.read_some():
            if first.note(chunk):
                for event in await self._read_whole(reply, chunk, stream):
                    yield event
                return
            for payload in splitter.feed(chunk):
                for event in stream.feed(payload):
                    yield event
            if stream.finished:
                await reply.drain(_DRAIN_S)
                return
            if stream.progress > said:
                said, said_at = stream.progress, trio.current_time()
            elif trio.current_time() - said_at > limit_s:
                raise SampleError(only_keepalives(limit_s, provider=self._origin.provider))
        for payload in splitter.finish():
            for event in stream.feed(payload):
                yield event
        for event in stream.finish():
            yield event

    async def _read_whole(
        self, reply: HttpReply, beginning: bytes, stream: WireStream[object]
    ) -> list[AnyResponseEvent]:
        """The events of an answer that came as one JSON object instead of a stream."""
        body = beginning + await reply.read_bounded(MAX_WHOLE_BYTES)
        try:
            payloads = events_of_answer(body, self._provider.wire_api)
        except UnreadableEvent as error:
            raise SampleError(self._no_stream(reply, beginning[:200])) from error
        events = [event for payload in payloads for event in stream.feed(payload)]
        return [*events, *stream.finish()]

    async def _read_compacted(
        self, reply: HttpReply, request: RenderedRequest, begun: float
    ) -> ResponseEvents:
        first_byte_s = trio.current_time() - begun
        body = await reply.read_bounded(_MOST_COMPACTED_BYTES)
        for event in read_compaction(body, provider=request.model.provider):
            yield _timed(event, first_byte_s)

    def _open_stream(self, request: RenderedRequest) -> WireStream[object]:
        stream = self._stream_of_wire(request)
        stream.offered_tools = frozenset(tool.name for tool in request.tools)
        stream.origin = Origin(provider=request.model.provider, model=request.model.slug)
        return stream

    def _stream_of_wire(self, request: RenderedRequest) -> WireStream[object]:
        name = self._origin.provider
        if self._provider.wire_api == "responses":
            return ResponsesStream(
                provider=name, new_id=self._new_id, provider_id=request.model.provider
            )
        if self._provider.wire_api == "messages":
            from .messages_stream import MessagesStream  # imported late: most runs use another wire

            return MessagesStream(provider=name, slug=request.model.slug, new_id=self._new_id)
        kind = ConstrainedChatStream if request.model.constrained_calls else ChatStream
        return kind(
            provider=name,
            new_id=self._new_id,
            offered=_readable_names(request.tools),
            tolerant=self._provider.tolerant_tool_calls,
        )

    async def _refused(self, reply: HttpReply) -> Failure:
        body = await reply.read_bounded()
        return classify_status(reply.status, reply.headers, body, origin=self._origin)

    def _broken(self, error: TransportFailed) -> Failure:
        name = self._origin.provider
        match error.phase:
            case "connect":
                text = f"cannot reach {name} at {self._urls.shown} ({error})"
                return Failure(
                    kind="connection_failed", message=text, retryable=True, scope="everyone"
                )
            case "send":
                text = f"{name} at {self._urls.shown} broke the connection ({error})"
                return Failure(
                    kind="connection_failed", message=text, retryable=True, scope="request"
                )
            case "idle":
                text = f"{name}: {error}"
                return Failure(kind="idle_timeout", message=text, retryable=True)
            case "stream":
                return cut_off("final", provider=name, why=str(error))
            case "packed":
                text = f"{name} at {self._urls.shown}: {error}; check its proxies and gateways"
                return Failure(kind="bad_response", message=text)

    def _no_stream(self, reply: HttpReply, preview: bytes) -> Failure:
        kind = reply.headers.get("content-type", "no content type")[:80]
        text = (
            f"{self._origin.provider} sent no event stream from {self._urls.shown} ({kind}): "
            f"{_show(preview)}; check `base_url` and `wire_api`"
        )
        return Failure(kind="bad_response", message=text, retryable=True, http_status=200)


class _FirstBytes:
    """The beginning of a body, and when it came."""

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self.after_s: float | None = None
        self.preview = b""
        self.is_whole = False

    def note(self, chunk: bytes) -> bool:
        """True for the first piece of a whole JSON answer."""
        if self.preview.strip():
            return False
        if self.after_s is None:
            self.after_s = trio.current_time() - self._begun
        self.preview = chunk[:200]
        self.is_whole = is_whole_answer(chunk)
        return self.is_whole


def _readable_names(tools: tuple[ToolSpec, ...]) -> frozenset[str]:
    """Names of calls that are read out of text: the tools, and what models call such tools."""
    names = frozenset(tool.name for tool in tools)
    return names | TRAINED_TOOL_NAMES.keys() if "exec_command" in names else names


def _show(preview: bytes) -> str:
    """The start of a body that is not an event stream; never bytes that are not text."""
    text = preview.decode("utf-8", "ignore")
    if not text.isprintable() and not "".join(text.split()).isprintable():
        return "its bytes are not text"
    return repr(" ".join(text.split())) if text or not preview else "its bytes are not text"


def _timed(event: AnyResponseEvent, first_byte_s: float | None) -> AnyResponseEvent:
    if isinstance(event, ResponseFinished):
        return msgspec.structs.replace(event, first_byte_s=first_byte_s)
    return event


def _pause_s(headers: Mapping[str, str]) -> float | None:
    spent_s = spent_allowance_s(headers, time())
    return None if spent_s is None else min(spent_s, MAX_PREVENTIVE_S)
