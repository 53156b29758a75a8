"""The providers that a run uses: its own from the start, a further one with the first agent that
names it. Each has its own client, keys, rate limiter and retries.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.gateway import Fetching, LimitWindow, RateLimits, Throttled
from swarm.mailbox.protocol.sampling import ModelInfo

from .backend import Backend
from .provider_choice import ProviderChoice
from .providers import ProviderError

Announcement = Throttled | Fetching | RateLimits
Choose = Callable[[str, str | None], Awaitable[ProviderChoice]]  # of a provider and a model
OpenBackend = Callable[[ProviderChoice], AbstractAsyncContextManager[Backend]]


class OpenProvider:
    """A provider that can be asked, with the model that it has if none is named."""

    def __init__(self, choice: ProviderChoice, backend: Backend) -> None:
        self.choice, self.backend = choice, backend
        self.refused_continuation = False  # it refused a partial text

    def stop_continuing(self) -> None:
        """It refused a partial text: send it none again."""
        self.refused_continuation = True


class _Opening:
    """One provider that is being opened, or is open, or could not be opened."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.opened: OpenProvider | None = None
        self.problem = ""


class FurtherProviders:
    """Opens the providers beside the run's own, and remembers models that were looked up.

    Args:
        nursery: Holds each provider open until the gateway ends.
        allowed: Their ids; the gateway has no keys of others.
        choose: Checks a provider and reads what it says of a model. Raises ProviderError.
        open_backend: Opens the chosen provider.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        allowed: tuple[str, ...],
        *,
        choose: Choose,
        open_backend: OpenBackend,
    ) -> None:
        self._nursery, self._allowed = nursery, allowed
        self._choose, self._open_backend = choose, open_backend
        self._openings: dict[str, _Opening] = {}
        self._models: dict[tuple[str, str], ModelInfo] = {}

    def find(self, provider: str) -> OpenProvider | None:
        """The provider, if it is open."""
        opening = self._openings.get(provider)
        return None if opening is None else opening.opened

    def find_model(self, provider: str, slug: str) -> ModelInfo | None:
        """What `look_up` has found."""
        return self._models.get((provider, slug))

    async def open(self, provider: str, model: str | None) -> OpenProvider:
        """Open the provider unless it is open. Raises ProviderError; the next call tries again."""
        if provider not in self._allowed:
            raise ProviderError(not_in_run_text(provider))
        opening = self._openings.get(provider)
        if opening is None:
            opening = self._openings[provider] = _Opening()
            self._nursery.start_soon(self._hold, provider, model, opening)
        await opening.done.wait()
        if opening.opened is None:
            raise ProviderError(opening.problem)
        return opening.opened

    async def look_up(self, provider: str, slug: str) -> None:
        """Read what the server says of this model. Raises ProviderError."""
        self._models[provider, slug] = (await self._choose(provider, slug)).model

    async def _hold(self, provider: str, model: str | None, opening: _Opening) -> None:
        try:
            choice = await self._choose(provider, model)
            async with self._open_backend(choice) as backend:
                opening.opened = OpenProvider(choice, backend)
                opening.done.set()
                await trio.sleep_forever()
        except* SwarmError as group:
            if opening.opened is not None:
                raise
            del self._openings[provider]
            opening.problem = _first_text(group)
            opening.done.set()


def not_in_run_text(provider: str) -> str:
    """Why an agent may not use a provider that was not named when the run started."""
    return (
        f"provider `{provider}` is not part of this run: its key was not given to the gateway. "
        f"Name it when a run starts: `-c 'agents.providers=[\"{provider}\"]'`, a role's "
        "`model_provider`, or an entry of `fallback`"
    )


class Allowances:
    """Joins the rate-limit windows of all providers, because one announcement holds them all."""

    def __init__(self, announce: Callable[[Announcement], None]) -> None:
        self._announce = announce
        self._windows: dict[str, tuple[LimitWindow, ...]] = {}

    def announce_for(self, provider: str) -> Callable[[Throttled | RateLimits], None]:
        """The announcer for this provider's rate limiter."""

        def announce(news: Throttled | RateLimits) -> None:
            if isinstance(news, RateLimits):
                self._windows[provider] = news.windows
                joined = [
                    msgspec.structs.replace(one, name=f"{id_} {one.name}") if "@" in id_ else one
                    for id_, windows in self._windows.items()
                    for one in windows
                ]
                news = RateLimits(windows=tuple(joined))
            self._announce(news)

        return announce


def _first_text(group: BaseExceptionGroup[SwarmError]) -> str:
    error = group.exceptions[0]
    return _first_text(error) if isinstance(error, BaseExceptionGroup) else str(error)
