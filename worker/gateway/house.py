"""What the service answers with: the chosen backend, the models it knows, and a store per wire.

Opened once, in order: catalogue, provider, HTTP client, gate, recorder; closed in reverse.
"""

import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import assert_never

import msgspec

from swarm.mailbox.protocol.gateway import Fetching, RateLimits, Throttled
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import GatewaySpec, ProviderSpec
from swarm.mailbox.redact import NOT_HIDDEN, Redactor, unhidden_keys

from . import chat_request, responses_request
from .backend import Backend, Source
from .cassette import (
    TAPE_VERSION,
    ModelTold,
    RecordingBackend,
    ReplayBackend,
    TapeBegins,
    TapeWriter,
    load_tape,
)
from .catalogue import Catalogue, load_catalogue
from .encoding import Heads, ItemStore, PlainStore, Rendering
from .gate import Gate
from .http import open_http
from .key_book import KeyBook
from .patience import PatientBackend
from .remote import HttpSource
from .select import Choice, Selector, load_local


class Surroundings:
    """What a house needs from outside: the keys, and ways to tell people something."""

    def __init__(
        self,
        keys: Mapping[str, str],
        *,
        learn: Callable[[str], Awaitable[None]],
        announce: Callable[[Throttled | Fetching | RateLimits], None],
        warn: Callable[[str], None],
        noise: Callable[[], float] = random.random,
    ) -> None:
        self.announce, self.warn, self._learn = announce, warn, learn
        self.noise = noise
        self.redactor = Redactor(keys.values())
        self.keys = KeyBook(keys, learn=self._learn_secret, warn=warn)

    async def _learn_secret(self, secret: str) -> None:
        self.redactor.learn(secret)
        if unhidden_keys({"key": secret}):
            self.warn(f"a key that was fetched {NOT_HIDDEN}")
        await self._learn(secret)

    def tell(self, fetching: Fetching) -> None:
        """Progress of the start, for people."""
        self.announce(fetching)


class UnknownModel(Exception):
    """This provider does not have the model; the text is for the agent."""


class House:
    """Backend, models and stores of one run."""

    def __init__(self, choice: Choice, backend: Backend, catalogue: Catalogue) -> None:
        self.choice, self.backend = choice, backend
        self._catalogue = catalogue
        self._responses_heads = Heads(responses_request.encode_head)
        self._chat_heads = Heads(chat_request.encode_head)
        self._messages_heads: Heads | None = None
        self.told_models: dict[str, ModelInfo] = {}  # of a replay: agent path → model
        self.tape: TapeWriter | None = None
        self.refused_to_go_on = False  # the provider does not do what it is said to

    @property
    def finds_by_number(self) -> bool:
        """True if an agent that comes back must count its requests on from where it was.

        On a tape an answer is found by its number; the embedded model's item ids hold it.
        """
        is_taped = self.tape is not None or bool(self.told_models)
        return is_taped or self.choice.model.wire in {"local", "scripted"}

    @property
    def continues_text(self) -> bool:
        """True if a text that broke off may be gone on with. Not on a tape: there each request of
        an agent has one answer.
        """
        is_able = self.choice.provider.continues_text and not self.refused_to_go_on
        return is_able and self.tape is None

    def model_for(self, slug: str | None, agent_path: str) -> ModelInfo:
        """The model an agent talks to, with its provider's patience. Raises UnknownModel."""
        provider = self.choice.provider
        return msgspec.structs.replace(
            self._find_model(slug, agent_path),
            stream_max_retries=provider.stream_max_retries,
            stream_idle_s=provider.stream_idle_timeout_ms / 1000,
            remote_compaction=provider.remote_compaction and provider.wire_api == "responses",
        )

    def _find_model(self, slug: str | None, agent_path: str) -> ModelInfo:
        default = self.choice.model
        if self.told_models:
            return self.told_models.get(agent_path, default)
        if slug is None or slug == default.slug or default.wire == "scripted":
            return default
        if default.wire == "local":
            raise UnknownModel(
                f"the embedded provider runs {default.slug} alone; start the run with -m {slug}"
            )
        return self._catalogue.describe(slug, provider=default.provider, wire=default.wire)

    def note_model(self, agent_path: str, model: ModelInfo) -> None:
        """Remember for a replay which model the agent was told of."""
        if self.tape is not None:
            self.tape.write(ModelTold(path=agent_path, model=model))

    def new_store(self, model: ModelInfo, blobs_dir: Path) -> ItemStore:
        """An empty store of the model's wire."""
        tolerant = self.choice.provider.tolerant_tool_calls
        rendering = Rendering(blobs_dir=blobs_dir, model=model, tolerant=tolerant)
        if isinstance(self.backend, ReplayBackend):
            return PlainStore()
        match model.wire:
            case "responses":
                return responses_request.ResponsesStore(rendering, self._responses_heads)
            case "chat":
                return chat_request.ChatStore(rendering, self._chat_heads)
            case "messages":
                return self._messages_store(rendering)
            case "local" | "scripted":
                return PlainStore()
            case _:
                assert_never(model.wire)

    def _messages_store(self, rendering: Rendering) -> ItemStore:
        from .messages_head import encode_head  # most runs speak another wire
        from .messages_request import MessagesStore

        if self._messages_heads is None:
            self._messages_heads = Heads(encode_head)
        return MessagesStore(rendering, self._messages_heads)


@asynccontextmanager
async def open_house(spec: GatewaySpec, around: Surroundings) -> AsyncIterator[House]:
    """Choose and open everything. Raises UsageError (also ProviderError) if that cannot be."""
    catalogue = load_catalogue(spec.catalogue)
    if spec.replay is not None:
        yield _replaying(Path(spec.replay), catalogue, around)
        return
    choice = await Selector(spec, around.keys, catalogue, around.tell).choose()
    async with _open_backend(choice, spec, around) as backend:
        if spec.record is None:
            yield House(choice, backend, catalogue)
            return
        tape = TapeWriter(Path(spec.record), around.redactor, around.warn)
        tape.write(
            TapeBegins(version=TAPE_VERSION, provider=choice.provider.id, model=choice.model)
        )
        house = House(choice, RecordingBackend(backend, tape), catalogue)
        house.tape = tape
        try:
            yield house
        finally:
            tape.close()


def _replaying(path: Path, catalogue: Catalogue, around: Surroundings) -> House:
    tape = load_tape(path)
    provider = ProviderSpec(id="replay", name="recording", wire_api="scripted")
    why = f"the answers come from {Path(path).name}, recorded with {tape.begins.provider}"
    choice = Choice(provider=provider, model=tape.begins.model, why=why)
    house = House(choice, ReplayBackend(tape, around.warn), catalogue)
    house.told_models = tape.models or {"": tape.begins.model}
    return house


@asynccontextmanager
async def _open_backend(
    choice: Choice, spec: GatewaySpec, around: Surroundings
) -> AsyncIterator[Backend]:
    provider = choice.provider

    def patient(source: Source) -> PatientBackend:
        gate = Gate(announce=around.announce, noise=around.noise)
        return PatientBackend(source, gate, max_retries=provider.request_max_retries)

    match choice.model.wire:
        case "responses" | "chat" | "messages":
            async with open_http(provider.base_url) as client:
                yield patient(HttpSource(client, provider, around.keys, new_short_id))
        case "scripted":
            from .script import load_script  # needs yaml, which no other provider does
            from .scripted import ScriptedSource

            script = load_script(Path(provider.base_url))
            yield patient(ScriptedSource(script, provider="script"))
        case "local":
            models_dir = Path(spec.models_dir)
            with load_local().open_local(models_dir, choice.model, bind=spec.bind) as backend:
                yield backend
        case _:
            assert_never(choice.model.wire)


def new_short_id() -> str:
    """Unique enough within a run: 12 hex digits."""
    return secrets.token_hex(6)
