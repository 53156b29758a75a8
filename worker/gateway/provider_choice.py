"""Choose the provider and the model of a run, once, at its start.

Explicit configuration wins; then a key that is set; then a server on this machine that answers;
then the embedded model. If none is available, the error names the three ways to get one.
"""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import msgspec
import trio

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.gateway import Fetching
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import GatewaySpec, ProviderSpec

from .backend import LocalModule
from .http_client import open_http
from .http_source import auth_headers
from .model_catalogue import Catalogue
from .provider_keys import ProviderKeys
from .providers import LOCAL_SERVERS, ProviderError, all_providers, key_problem, wire_of

PROBE_LIMIT_S = 0.5
LIST_LIMIT_S = 5.0
EMBEDDED_MODEL = "smollm2"
SCRIPTED = "scripted:"


class ProviderChoice(Value):
    """The chosen provider and model. `why` is one sentence for the header line."""

    provider: ProviderSpec
    model: ModelInfo
    why: str


class _Listed(msgspec.Struct):
    id: str | None = None  # OpenAI's form
    name: str | None = None  # Ollama's


class _Listing(msgspec.Struct):
    data: tuple[_Listed, ...] | None = None
    models: tuple[_Listed, ...] | None = None


ReportProgress = Callable[[Fetching], None]  # receives the progress of long steps, for people
_decode_listing = msgspec.json.Decoder(_Listing).decode


def load_local_module() -> LocalModule:
    """The embedded model's module. It is heavy, so it is imported only where it is needed."""
    return cast("LocalModule", importlib.import_module("swarm.worker.gateway.local_backend"))


class ProviderSelector:
    """Holds everything that the choice depends on."""

    def __init__(
        self, spec: GatewaySpec, keys: ProviderKeys, catalogue: Catalogue, report: ReportProgress
    ) -> None:
        self._spec, self._keys, self._catalogue, self._report_progress = (
            spec,
            keys,
            catalogue,
            report,
        )
        self._providers = all_providers(spec.providers)

    async def choose(self) -> ProviderChoice:
        """Raises ProviderError if no provider can be used."""
        asked = self._spec.provider
        if asked is not None:
            return await self._explicit(asked)
        bound = self._catalogue.find(self._spec.model or "")
        if bound is not None and bound.provider:
            choice = await self._explicit(bound.provider)
            why = f"it serves the model that was asked for, {self._spec.model}"
            return msgspec.structs.replace(choice, why=why)
        return await self._by_key() or await self._by_server() or await self._embedded()

    async def _explicit(self, asked: str) -> ProviderChoice:
        if asked.startswith(SCRIPTED):
            return self._scripted(asked)
        provider = self._providers.get(asked)
        if provider is None:
            known = ", ".join(self._providers)
            raise ProviderError(
                f"no provider is called {asked!r}; known are {known} and scripted:FILE"
            )
        await self._keys.ensure_key(provider)
        if problem := key_problem(provider, self._keys.values):
            raise ProviderError(problem)
        if provider.id == "local":
            if problem := await self._local_problem():
                raise ProviderError(f"the embedded model cannot be used: {problem}")
            return self._pick(provider, self._local_model(), "it was asked for")
        return await self._with_model(provider, "it was asked for")

    async def _by_key(self) -> ProviderChoice | None:
        for provider in self._providers.values():
            if provider.fetches_key:  # a configured key that cannot be fetched is an error
                await self._keys.ensure_key(provider)
                return await self._with_model(provider, f"{provider.env_key} gives its key")
            if provider.env_key is not None and key_problem(provider, self._keys.values) is None:
                return await self._with_model(provider, f"{provider.env_key} is set")
        return None

    async def _by_server(self) -> ProviderChoice | None:
        """The first known server, in their order, that answers and has a model."""
        found: dict[str, list[str]] = {}

        async def probe(provider: ProviderSpec) -> None:
            found[provider.id] = await list_models(
                provider, self._keys.values, limit_s=PROBE_LIMIT_S
            )

        async with trio.open_nursery() as nursery:
            for name in LOCAL_SERVERS:
                nursery.start_soon(probe, self._providers[name])
        for name in LOCAL_SERVERS:
            models = found[name]
            if models and (self._spec.model is None or self._spec.model in models):
                provider = self._providers[name]
                why = f"no key is set, and {provider.name} answers at {provider.base_url}"
                return self._pick(provider, self._spec.model or models[0], why)
        return None

    async def _embedded(self) -> ProviderChoice:
        wanted = self._spec.model
        if wanted is None or wanted == EMBEDDED_MODEL:
            problem = await self._local_problem()
            if problem is None:
                why = "no key is set and no local server answers: the small embedded model"
                return self._pick(self._providers["local"], self._local_model(), why)
        else:
            problem = f"{wanted} is not a model that it knows"
        raise ProviderError(no_provider_text(problem))

    async def _with_model(self, provider: ProviderSpec, why: str) -> ProviderChoice:
        """An HTTP provider with the configured model, else its default, else the first that it
        lists.
        """
        slug = self._spec.model or self._catalogue.default_of(provider.id)
        if slug is not None:
            return self._pick(provider, slug, why)
        models = await list_models(provider, self._keys.values, limit_s=LIST_LIMIT_S)
        if not models:
            raise ProviderError(_no_models(provider))
        if len(models) > 1 and provider.id not in LOCAL_SERVERS:
            some = ", ".join(models[:8])
            raise ProviderError(
                f"provider {provider.id} has {len(models)} models; name one with -m, for example: "
                f"{some}"
            )
        return self._pick(provider, models[0], why)

    def _scripted(self, asked: str) -> ProviderChoice:
        from .answer_script import load_script  # imported late: only this needs yaml
        from .scripted_source import scripted_model

        path = asked.removeprefix(SCRIPTED)
        if not path:
            raise ProviderError("scripted: needs a file, as in --provider scripted:answers.yaml")
        provider = ProviderSpec(id="scripted", name="script", base_url=path, wire_api="scripted")
        slug = self._spec.model or "scripted"
        model = scripted_model(load_script(Path(path)), "scripted", slug)
        why = f"the answers come from {Path(path).name}"
        return ProviderChoice(provider=provider, model=model, why=why)

    def _pick(self, provider: ProviderSpec, slug: str, why: str) -> ProviderChoice:
        model = self._catalogue.describe(slug, provider=provider.id, wire=wire_of(provider))
        return ProviderChoice(provider=provider, model=model, why=why)

    def _local_model(self) -> str:
        return self._spec.model or self._catalogue.default_of("local") or EMBEDDED_MODEL

    async def _local_problem(self) -> str | None:
        try:
            local = load_local_module()
        except ImportError as error:
            return f"its library is not installed ({error.name or error})"
        models_dir = Path(self._spec.models_dir)
        return await local.prepare_local(models_dir, self._local_model(), self._report_progress)


async def list_models(
    provider: ProviderSpec, keys: Mapping[str, str], *, limit_s: float
) -> list[str]:
    """The text models that a server offers; [] if it does not answer in time."""
    url = f"{provider.base_url.rstrip('/')}/models"
    if provider.id == "ollama":  # its own list has the models on disk, newest first
        url = f"{provider.base_url.removesuffix('/v1')}/api/tags"
    async with open_http(provider.base_url) as client:
        text = await client.get_text(url, auth_headers(provider, keys), limit_s=limit_s)
    try:
        listing = _decode_listing(text or "{}")
    except msgspec.DecodeError:
        return []
    names = [listed.id or listed.name for listed in listing.data or listing.models or ()]
    return [name for name in names if name and "embed" not in name.lower()]


def no_provider_text(embedded_problem: str) -> str:
    """The error text for a machine without a provider."""
    return (
        "no model provider can be used. Three ways to get one:\n"
        "  1. a key: set OPENAI_API_KEY or ANTHROPIC_API_KEY, or configure another provider with "
        "its `env_key`\n"
        "  2. a server on this machine: Ollama (port 11434), LM Studio (1234) or a llama.cpp "
        "server (8080), with a model loaded\n"
        f"  3. the small embedded model: swarm models pull {EMBEDDED_MODEL}\n"
        f"(the embedded model now: {embedded_problem})"
    )


def _no_models(provider: ProviderSpec) -> str:
    if provider.id in LOCAL_SERVERS:
        return (
            f"{provider.name} does not answer at {provider.base_url}, or has no model: start it, "
            "load a model, and try again"
        )
    return f"provider {provider.id} has no default model and lists none: name one with -m"
