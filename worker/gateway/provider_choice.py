"""Choose the provider and the model of a run, once, at its start.

Explicit configuration wins; then a key that is set; then a server on this machine that answers;
then the embedded model. If none is available, the error names the three ways to get one.
"""

import importlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec
import trio

from swarm.mailbox.protocol.gateway import Fetching
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import GatewaySpec, ProviderSpec
from swarm.mailbox.protocol.values.base import Value

from .backend import LocalModule
from .model_catalogue import Catalogue
from .provider_keys import ProviderKeys
from .providers import LOCAL_SERVERS, ProviderError, all_providers, key_problem, wire_of
from .served_models import ModelListClient, ServedModel, describe_models, find_served

PROBE_LIMIT_S = 0.5
LIST_LIMIT_S = 5.0
WINDOW_LIMIT_S = 2.0  # of a start that needs the list for a window only
EMBEDDED_MODEL = "smollm2"
SCRIPTED = "scripted:"


class ProviderChoice(Value):
    """The chosen provider and model. `why` is one sentence for the header line."""

    provider: ProviderSpec
    model: ModelInfo
    why: str


ReportProgress = Callable[[Fetching], None]  # receives the progress of long steps, for people


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
        self._providers = all_providers(spec.settings.providers)
        self._strangers: list[ProviderSpec] = []  # at whose address something else answers

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
            return await self._scripted(asked)
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
            slug, why = self._local_model()
            if problem := await self._local_problem(slug):
                raise ProviderError(f"the embedded model cannot be used: {problem}")
            return self._pick(provider, slug, why or "it was asked for")
        return await self._with_model(provider, f"it was asked for{self._of_account(provider)}")

    async def _by_key(self) -> ProviderChoice | None:
        """Keys of this run's variables and configuration come before stored accounts."""
        for provider in self._providers.values():
            if provider.account is None and provider.fetches_key:
                await self._keys.ensure_key(provider)  # a configured key that fails is an error
                return await self._with_model(provider, f"{provider.env_key} gives its key")
            is_stored = provider.account is not None and not self._keys.is_from_variable(provider)
            is_set = provider.env_key is not None and not is_stored
            if is_set and key_problem(provider, self._keys.values) is None:
                return await self._with_model(provider, f"{provider.env_key} is set")
        for provider in self._providers.values():
            if provider.account is not None:
                await self._keys.ensure_key(provider)
                why = f"no key is set{self._of_account(provider)}"
                return await self._with_model(provider, why)
        return None

    def _of_account(self, provider: ProviderSpec) -> str:
        """Which account is used, or which is not; "" where there is none."""
        if provider.account is None:
            return ""
        name = provider.account.name
        if self._keys.is_from_variable(provider):
            return f"; {provider.env_key} is set and comes before the stored account {name}"
        return f": account {name}"

    async def _by_server(self) -> ProviderChoice | None:
        """The first known server, in their order, that answers and has the model.

        Raises ProviderError if servers answer, but none has it, nor is it the embedded model.
        """
        found: dict[str, list[ServedModel]] = {}

        async def probe(provider: ProviderSpec) -> None:
            lists = self._lists(provider, PROBE_LIMIT_S)
            found[provider.id] = await lists.list_models()
            if found[provider.id] and not await lists.is_itself():
                found[provider.id] = []
                self._strangers.append(provider)

        async with trio.open_nursery() as nursery:
            for name in LOCAL_SERVERS:
                nursery.start_soon(probe, self._providers[name])
        wanted = self._spec.model
        for name in LOCAL_SERVERS:
            models = found[name]
            model = models[0] if models and wanted is None else find_served(wanted or "", models)
            if model is not None:
                provider = self._providers[name]
                why = f"no key is set, and {provider.name} answers at {provider.base_url}"
                return await self._pick_served(provider, model, why)
        answering = [(self._providers[name], found[name]) for name in LOCAL_SERVERS if found[name]]
        if wanted is None or wanted == EMBEDDED_MODEL or not answering:
            return None
        raise ProviderError(_unknown_model(wanted, answering))

    async def _embedded(self) -> ProviderChoice:
        wanted = self._spec.model
        if wanted is None or wanted == EMBEDDED_MODEL:
            slug, capable = self._local_model()
            problem = await self._local_problem(slug)
            if problem is None:
                which = capable or "the small embedded model"
                why = f"no key is set and no local server answers: {which}"
                return self._pick(self._providers["local"], slug, why)
        else:
            problem = f"the embedded one is {EMBEDDED_MODEL}"
        named = None if wanted == EMBEDDED_MODEL else wanted
        raise ProviderError(no_provider_text(problem, named) + _strangers_text(self._strangers))

    async def _with_model(self, provider: ProviderSpec, why: str) -> ProviderChoice:
        """An HTTP provider with the configured model, else its default, else the first that it
        lists.
        """
        known_as = provider.id if provider.account is None else provider.account.provider
        slug = self._spec.model or self._catalogue.default_of(known_as)
        if slug is not None and (provider.wire_api != "chat" or self._catalogue.find(slug)):
            return self._pick(provider, slug, why)  # lists of other wires say nothing of windows
        limit_s = LIST_LIMIT_S if slug is None else WINDOW_LIMIT_S
        models = await self._lists(provider, limit_s).list_models()
        if slug is not None:
            served = find_served(slug, models) or ServedModel(name=slug)
            return await self._pick_served(provider, served, why)
        if not models:
            raise ProviderError(_no_models(provider))
        if len(models) > 1 and provider.id not in LOCAL_SERVERS:
            some = ", ".join(model.name for model in models[:8])
            raise ProviderError(
                f"provider {provider.id} has {len(models)} models; name one with -m, for example: "
                f"{some}"
            )
        return await self._pick_served(provider, models[0], why)

    def _lists(self, provider: ProviderSpec, limit_s: float) -> ModelListClient:
        return ModelListClient(provider, self._keys.values, limit_s=limit_s)

    async def _pick_served(
        self, provider: ProviderSpec, served: ServedModel, why: str
    ) -> ProviderChoice:
        """A model without an entry in the catalogue has the window that its server gives it."""
        choice = self._pick(provider, served.name, why)
        if choice.model.known:
            return choice
        served = await self._lists(provider, PROBE_LIMIT_S).find_window(served)
        window = served.window_below(choice.model.context_window)
        model = msgspec.structs.replace(choice.model, context_window=window)
        return msgspec.structs.replace(choice, model=model)

    async def _scripted(self, asked: str) -> ProviderChoice:
        from .answer_script import load_script_aside  # imported late: only this needs yaml
        from .scripted_source import scripted_model

        path = asked.removeprefix(SCRIPTED)
        if not path:
            raise ProviderError("scripted: needs a file, as in --provider scripted:answers.yaml")
        provider = ProviderSpec(id="scripted", name="script", base_url=path, wire_api="scripted")
        slug = self._spec.model or "scripted"
        script = await load_script_aside(Path(path))
        model = scripted_model(script, "scripted", slug)
        why = f"the answers come from {Path(path).name}"
        return ProviderChoice(provider=provider, model=model, why=why)

    def _pick(self, provider: ProviderSpec, slug: str, why: str) -> ProviderChoice:
        model = self._catalogue.describe(slug, provider=provider.id, wire=wire_of(provider))
        return ProviderChoice(provider=provider, model=model, why=why)

    def _local_model(self) -> tuple[str, str]:
        """The embedded model, and why it is not the small one; "" if it is, or was named."""
        named = self._spec.model or self._catalogue.default_of("local")
        if named:
            return named, ""
        with suppress(ImportError):
            local = load_local_module()
            models_dir = Path(self._spec.models_dir)
            if found := local.find_capable_model(models_dir, self._spec.settings.catalogue):
                slug, free_bytes = found
                free = f"{free_bytes / 1e9:.0f} GB of memory are free"
                return slug, f"its file is here, it calls tools, and {free}"
        return EMBEDDED_MODEL, ""

    async def _local_problem(self, slug: str) -> str | None:
        try:
            local = load_local_module()
        except ImportError as error:
            return f"its library is not installed ({error.name or error})"
        spec = self._spec
        return await local.prepare_local(
            Path(spec.models_dir), slug, spec.settings.catalogue, self._report_progress, spec.places
        )


def no_provider_text(embedded_problem: str, wanted: str | None = None) -> str:
    """The error text for a machine without a provider; the cause comes first.

    `wanted`: the model that was asked for.
    """
    cause = f"the embedded model cannot be used: {embedded_problem}"
    if wanted:
        cause = f"no provider here has the model {wanted!r} ({embedded_problem})"
    return (
        f"{cause}, and no other provider has a key or answers. Three ways to get one:\n"
        "  1. a key: set OPENAI_API_KEY or ANTHROPIC_API_KEY, store one with `swarm login openai`, "
        "or configure another provider with its `env_key`\n"
        "  2. a server on this machine: Ollama (port 11434), LM Studio (1234) or a llama.cpp "
        "server (8080), with a model loaded\n"
        f"  3. the small embedded model: swarm models pull {EMBEDDED_MODEL}"
    )


def _strangers_text(strangers: Sequence[ProviderSpec]) -> str:
    """What answers where a known server would, and is none; "" without any."""
    return "".join(
        f"\nWhat answers at {one.base_url} is no {one.name}, so it is not used unasked; if it is "
        "yours, name it in a table [model_providers.NAME] with that `base_url` and "
        '`wire_api = "chat"`'
        for one in strangers
    )


def _unknown_model(
    wanted: str, answering: Sequence[tuple[ProviderSpec, Sequence[ServedModel]]]
) -> str:
    """The error text for a model that no running server has."""
    lines = [
        f"  {provider.name} at {provider.base_url} serves {describe_models(models, wanted)}"
        for provider, models in answering
    ]
    return "\n".join((f"no server on this machine has the model {wanted!r}:", *lines))


def _no_models(provider: ProviderSpec) -> str:
    if provider.id in LOCAL_SERVERS:
        return (
            f"{provider.name} does not answer at {provider.base_url}, or has no model: start it, "
            "load a model, and try again"
        )
    return f"provider {provider.id} has no default model and lists none: name one with -m"
