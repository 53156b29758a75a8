"""The providers that agents of a run may use, and the model of a child. Pure.

The run's own provider, and those that were named when it started: by roles, by `fallback`, by
`agents.providers`. The gateway has the keys of these alone.
"""

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.model_reference import (
    InvalidReference,
    ModelReference,
    read_model_name,
    unknown_provider_text,
)
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.config.schema import RESERVED_PROVIDERS
from swarm.roles.rights.role import Role

from ..request.run_request import RunRequest


class RunProviders(Value):
    """Ids of providers. `own` is None until the gateway has chosen one."""

    own: str | None = None
    further: tuple[str, ...] = ()
    known: tuple[str, ...] = RESERVED_PROVIDERS  # that exist, also those that no agent may use

    @property
    def usable(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, (self.own, *self.further))))

    def read(self, text: str) -> ModelReference:
        """`MODEL` or `PROVIDER:MODEL`. Raises UsageError for what is neither."""
        try:
            return read_model_name(text, self.known)
        except InvalidReference as error:
            raise UsageError(str(error)) from error

    def check(self, provider: str) -> str | None:
        """The provider if an agent may use it; "" gives None, the run's own. Raises UsageError."""
        name = provider.strip()
        if not name:
            return None
        if name in self.usable:
            return name
        if name not in self.known:
            raise UsageError(unknown_provider_text(name, self.known))
        usable = ", ".join(self.usable) or "its own"
        raise UsageError(
            f"provider `{name}` is not part of this run, whose agents may use {usable}: its key "
            f"was not given to the gateway. Name it when a run starts, for example with "
            f"`-c 'agents.providers=[\"{name}\"]'`"
        )

    def is_same(self, one: str | None, other: str | None) -> bool:
        """True if both name the same provider; None is the run's own."""
        return (one or self.own) == (other or self.own)


def run_providers(request: RunRequest, *, own: str | None = None) -> RunProviders:
    """Of this run. `own`: the provider that the gateway has chosen."""
    configured = (provider.id for provider in request.gateway.providers)
    return RunProviders(
        own=own or request.model_settings.provider,
        further=request.gateway.further,
        known=tuple(dict.fromkeys((*RESERVED_PROVIDERS, *configured, *request.gateway.further))),
    )


def child_model(
    providers: RunProviders, parent: ModelReference, role: Role, wanted: str | None
) -> ModelReference:
    """The provider and model of a child: what its role sets, else what was asked for, else its
    parent's.

    Raises UsageError: a provider that may not be used, or another one than the role's.
    """
    asked = providers.read(wanted or "")
    if role.model is not None and role.model_provider is None:
        return ModelReference(provider=parent.provider, model=role.model)
    if asked.provider is not None and role.model_provider not in {None, asked.provider}:
        raise UsageError(
            f"role `{role.name}` uses provider {role.model_provider}: name a model of that one, "
            "or none"
        )
    provider = role.model_provider or asked.provider
    provider = parent.provider if provider is None else providers.check(provider)
    model = role.model or asked.model
    if model is None and providers.is_same(provider, parent.provider):
        model = parent.model
    return ModelReference(provider=provider, model=model)
