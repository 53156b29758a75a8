"""What the gateway serves from: the chosen backend, the model catalogue, an item store per wire.

`open_gateway_app` opens the parts in this order and closes them in reverse: catalogue, provider,
HTTP client, rate limiter, recording.
"""

import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from time import time
from typing import assert_never

import msgspec
import trio

from swarm.mailbox.base.redact import NOT_HIDDEN, Redactor, unhidden_keys
from swarm.mailbox.protocol.gateway import Fetching, RateLimits, Throttled
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import GatewaySpec, ProviderSpec

from . import chat_request, responses_request
from .backend import Backend, ResponseSource
from .constrained_calls import ConstrainedChatStore
from .fit.dialect import Dialect
from .http.http_client import open_http
from .http_source import HttpSource
from .model_catalogue import Catalogue, load_catalogue
from .open_providers import Allowances, FurtherProviders, OpenProvider, not_in_run_text
from .provider_choice import SCRIPTED, ProviderChoice, ProviderSelector, load_local_module
from .provider_keys import ProviderKeys
from .providers import ProviderError, wire_of
from .rate_limiter import RateLimiter
from .recording import (
    RECORDING_VERSION,
    RecordedModel,
    RecordingBackend,
    RecordingHeader,
    RecordingWriter,
    ReplayBackend,
    load_recording,
)
from .request_encoding import EncodingContext, ItemStore, RequestHeadCache, UnencodedItemStore
from .retry_policy import RetryingBackend


class GatewayDependencies:
    """What a `GatewayApp` needs from outside: the API keys, and callbacks for notifications."""

    def __init__(
        self,
        keys: Mapping[str, str],
        *,
        on_secret: Callable[[str], Awaitable[None]],
        announce: Callable[[Throttled | Fetching | RateLimits], None],
        warn: Callable[[str], None],
        noise: Callable[[], float] = random.random,
        unix_s: Callable[[], float] = time,
    ) -> None:
        self.announce, self.warn, self._announce_secret = announce, warn, on_secret
        self.noise = noise
        self.unix_s = unix_s
        self.redactor = Redactor(keys.values())
        self._limiters: list[RateLimiter] = []
        self.keys = ProviderKeys(keys, on_secret=self._add_secret, warn=warn)

    async def _add_secret(self, secret: str) -> None:
        self.redactor.add_secrets(secret)
        if unhidden_keys({"key": secret}):
            self.warn(f"a key that was fetched {NOT_HIDDEN}")
        await self._announce_secret(secret)

    def add_limiter(self, limiter: RateLimiter) -> None:
        """A server that is asked from now on."""
        self._limiters.append(limiter)

    def try_now(self) -> None:
        """No limit that is known of any server holds any more."""
        for limiter in self._limiters:
            limiter.try_now()

    def announce_fetching(self, fetching: Fetching) -> None:
        """Notify people of the progress of the start."""
        self.announce(fetching)


_HTTP_WIRES = frozenset({"responses", "chat", "messages"})


class UnknownModel(Exception):
    """This provider does not have the model. The agent receives the text."""


class GatewayApp:
    """The providers, models and item stores of one run.

    Args:
        choice: The run's own provider and model.
        further: The other providers; None: there is no other.
    """

    def __init__(
        self,
        choice: ProviderChoice,
        backend: Backend,
        catalogue: Catalogue,
        further: FurtherProviders | None = None,
    ) -> None:
        self.own = OpenProvider(choice, backend)
        self.choice, self.backend = choice, backend
        self._catalogue, self._further = catalogue, further
        self._responses_heads = RequestHeadCache(responses_request.encode_head)
        self._chat_heads = RequestHeadCache(chat_request.encode_head)
        self._messages_heads: RequestHeadCache | None = None
        self.recorded_models: dict[str, ModelInfo] = {}  # in a replay: agent path → model
        self.recording: RecordingWriter | None = None
        self.model_reasons: bool | None = None  # of the run's own model, and of unknown ones

    @property
    def keeps_ordinals(self) -> bool:
        """True if a resumed agent must continue the count of its requests.

        A recording and a script find a response by this number.
        """
        is_taped = self.recording is not None or bool(self.recorded_models)
        return is_taped or self.choice.model.wire == "scripted"

    def continues_text(self, provider: OpenProvider) -> bool:
        """True if a text that broke off may be continued. False for a recording, which has one
        response per request of an agent.
        """
        is_able = provider.choice.provider.continues_text and not provider.refused_continuation
        return is_able and self.recording is None

    def find_provider(self, name: str | None) -> OpenProvider | None:
        """The provider of this id, if it is open; None as a name means the run's own."""
        is_own = name in {None, self.choice.provider.id} or bool(self.recorded_models)
        if is_own or self._is_own_script(name):
            return self.own
        return None if self._further is None or name is None else self._further.find(name)

    def _is_own_script(self, name: str | None) -> bool:
        own = self.choice.provider
        return own.wire_api == "scripted" and name == f"{SCRIPTED}{own.base_url}"

    async def open_provider(self, name: str | None, slug: str | None) -> OpenProvider:
        """The provider of this id, which is opened if necessary, ready for `model_for`.

        Raises ProviderError: it is unknown, is not part of this run, or cannot be used now.
        """
        provider = self.find_provider(name)
        if provider is None:
            if self._further is None or name is None:
                raise ProviderError(not_in_run_text(name or ""))
            provider = await self._further.open(name, slug)
        if slug is not None and self.must_look_up(provider, slug) and self._further is not None:
            await self._further.look_up(provider.choice.provider.id, slug)
        return provider

    def must_look_up(self, provider: OpenProvider, slug: str | None) -> bool:
        """True if only the provider's server may know the model's window, and was not asked."""
        default = provider.choice.model
        if slug is None or self._further is None or self.recorded_models:
            return False
        is_known = slug == default.slug or self._catalogue.find(slug) is not None
        if default.wire != "chat" or is_known:
            return False
        return self._further.find_model(default.provider, slug) is None

    def model_for(self, provider: OpenProvider, slug: str | None, agent_path: str) -> ModelInfo:
        """The model that an agent uses, with the retry settings of its provider. Raises
        UnknownModel.
        """
        settings = provider.choice.provider
        return msgspec.structs.replace(
            self._as_configured(self._find_model(provider, slug, agent_path)),
            stream_max_retries=settings.stream_max_retries,
            stream_idle_s=settings.stream_idle_timeout_ms / 1000,
            remote_compaction=settings.remote_compaction and settings.wire_api == "responses",
        )

    def _as_configured(self, model: ModelInfo) -> ModelInfo:
        """The model with what the configuration says of its family."""
        is_meant = not model.known or model.slug == self.choice.model.slug
        if self.model_reasons is None or not is_meant or model.wire not in _HTTP_WIRES:
            return model
        return msgspec.structs.replace(model, reasoning=self.model_reasons)

    def configured_dialect(self, slug: str) -> Dialect | None:
        """What a models.toml says of what this model's server takes."""
        entry = self._catalogue.find(slug)
        return None if entry is None else entry.dialect

    def _find_model(self, provider: OpenProvider, slug: str | None, agent_path: str) -> ModelInfo:
        default = provider.choice.model
        if self.recorded_models:
            return self.recorded_models.get(agent_path, default)
        if slug is None or slug == default.slug or default.wire == "scripted":
            return default
        if default.wire == "local":
            raise UnknownModel(
                f"the embedded provider runs {default.slug} alone; start the run with -m {slug}"
            )
        asked = self._further.find_model(default.provider, slug) if self._further else None
        return asked or self._catalogue.describe(
            slug, provider=default.provider, wire=wire_of(provider.choice.provider)
        )

    def note_model(self, agent_path: str, model: ModelInfo) -> None:
        """Record for a replay which model the agent received."""
        if self.recording is not None:
            self.recording.write(RecordedModel(path=agent_path, model=model))

    def new_store(self, provider: OpenProvider, model: ModelInfo, blobs_dir: Path) -> ItemStore:
        """An empty store for the model's wire."""
        tolerant = provider.choice.provider.tolerant_tool_calls
        context = EncodingContext(blobs_dir=blobs_dir, model=model, tolerant=tolerant)
        if isinstance(self.backend, ReplayBackend):
            return UnencodedItemStore()
        match model.wire:
            case "responses":
                return responses_request.ResponsesStore(context, self._responses_heads)
            case "chat" | "local":
                kind = ConstrainedChatStore if model.constrained_calls else chat_request.ChatStore
                return kind(context, self._chat_heads)
            case "messages":
                return self._messages_store(context)
            case "scripted":
                return UnencodedItemStore()
            case _:
                assert_never(model.wire)

    def _messages_store(self, context: EncodingContext) -> ItemStore:
        from .messages_head import encode_head  # imported late: most runs use another wire
        from .messages_request import MessagesStore

        if self._messages_heads is None:
            self._messages_heads = RequestHeadCache(encode_head)
        return MessagesStore(context, self._messages_heads)


@asynccontextmanager
async def open_gateway_app(
    spec: GatewaySpec, dependencies: GatewayDependencies
) -> AsyncIterator[GatewayApp]:
    """Choose and open everything. Raises UsageError or ProviderError if it fails."""
    catalogue = load_catalogue(spec.settings.catalogue)
    if spec.settings.replay is not None:
        yield _open_replay(Path(spec.settings.replay), catalogue, dependencies)
        return
    choose = partial(_choose, spec, dependencies, catalogue)
    choice = await choose(spec.provider, spec.model)
    allowances = Allowances(dependencies.announce)
    recording: RecordingWriter | None = None
    if spec.settings.record is not None:
        recording = RecordingWriter(
            Path(spec.settings.record), dependencies.redactor, dependencies.warn
        )
        recording.write(
            RecordingHeader(
                version=RECORDING_VERSION, provider=choice.provider.id, model=choice.model
            )
        )

    def open_backend(choice: ProviderChoice) -> AbstractAsyncContextManager[Backend]:
        return _open_backend(choice, spec, dependencies, allowances, recording)

    try:
        async with open_backend(choice) as backend, trio.open_nursery() as nursery:
            allowed = tuple(dict.fromkeys((choice.provider.id, *spec.settings.further)))
            further = FurtherProviders(nursery, allowed, choose=choose, open_backend=open_backend)
            app = GatewayApp(choice, backend, catalogue, further)
            app.recording = recording
            app.model_reasons = spec.settings.model_reasons
            yield app
            nursery.cancel_scope.cancel()
    finally:
        if recording is not None:
            recording.close()


async def _choose(
    spec: GatewaySpec,
    dependencies: GatewayDependencies,
    catalogue: Catalogue,
    provider: str | None,
    model: str | None,
) -> ProviderChoice:
    wanted = msgspec.structs.replace(spec, provider=provider, model=model)
    selector = ProviderSelector(
        wanted, dependencies.keys, catalogue, dependencies.announce_fetching
    )
    return await selector.choose()


def _open_replay(path: Path, catalogue: Catalogue, dependencies: GatewayDependencies) -> GatewayApp:
    recording = load_recording(path)
    provider = ProviderSpec(id="replay", name="recording", wire_api="scripted")
    why = f"the answers come from {Path(path).name}, recorded with {recording.header.provider}"
    choice = ProviderChoice(provider=provider, model=recording.header.model, why=why)
    app = GatewayApp(choice, ReplayBackend(recording, dependencies.warn), catalogue)
    app.recorded_models = recording.models or {"": recording.header.model}
    return app


@asynccontextmanager
async def _open_backend(
    choice: ProviderChoice,
    spec: GatewaySpec,
    dependencies: GatewayDependencies,
    allowances: Allowances,
    recording: RecordingWriter | None,
) -> AsyncIterator[Backend]:
    """One provider's backend, recorded if there is a recording."""
    async with _open_unrecorded(choice, spec, dependencies, allowances) as backend:
        yield backend if recording is None else RecordingBackend(backend, recording)


@asynccontextmanager
async def _open_unrecorded(
    choice: ProviderChoice,
    spec: GatewaySpec,
    dependencies: GatewayDependencies,
    allowances: Allowances,
) -> AsyncIterator[Backend]:
    provider = choice.provider

    def with_retries(source: ResponseSource) -> RetryingBackend:
        announce = allowances.announce_for(provider.id)
        limiter = RateLimiter(
            announce=announce, noise=dependencies.noise, unix_s=dependencies.unix_s
        )
        dependencies.add_limiter(limiter)
        return RetryingBackend(source, limiter, max_retries=provider.request_max_retries)

    match choice.model.wire:
        case "responses" | "chat" | "messages":
            async with open_http(provider.base_url) as client:
                keys, warn = dependencies.keys, dependencies.warn
                yield with_retries(HttpSource(client, provider, keys, new_short_id, warn))
        case "scripted":
            from .answer_script import load_script_aside  # imported late: only this needs yaml
            from .scripted_source import ScriptedSource

            script = await load_script_aside(Path(provider.base_url))
            yield with_retries(ScriptedSource(script, provider="script"))
        case "local":
            models_dir = Path(spec.models_dir)
            async with load_local_module().open_local(
                models_dir,
                choice.model,
                provider,
                spec.settings.catalogue,
                bind=spec.bind,
                new_id=new_short_id,
            ) as backend:
                yield backend
        case _:
            assert_never(choice.model.wire)


def new_short_id() -> str:
    """An id that is unique enough within a run: 12 hex digits."""
    return secrets.token_hex(6)
