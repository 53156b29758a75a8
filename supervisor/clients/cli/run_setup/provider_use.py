"""Which providers a run uses beside its own: those of roles, of fallback lists, of
`agents.providers`. All are checked before anything starts.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.model_reference import (
    SCRIPTED,
    InvalidReference,
    ModelReference,
    read_fallback,
    split_reference,
    unknown_provider_text,
)
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.config.file_reading import decode_text, read_bounded
from swarm.roles.config.key_positions import find_key_positions
from swarm.roles.config.layers.config_loader import LoadedConfig
from swarm.roles.config.layers.layer_check import describe_place
from swarm.roles.config.layers.requirements import Requirements
from swarm.roles.config.schema import RESERVED_PROVIDERS, AgentsTable
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import Roles

from ....request.run_request import RunRequest

MAX_FALLBACKS = 16


class ProviderUse(Value):
    """Roles without those that name a provider that is not there, and what all may use."""

    roles: Roles
    further: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def plan_provider_use(
    loaded: LoadedConfig, roles: Roles, root: Role, providers: Sequence[ProviderSpec]
) -> ProviderUse:
    """What this configuration and these roles use. Raises UsageError with file, line and key."""
    known = tuple(dict.fromkeys((*RESERVED_PROVIDERS, *(one.id for one in providers))))
    config = loaded.config
    own = ModelReference(provider=config.model_provider, model=config.model)
    try:
        fallback = checked_fallback(config.fallback, known, own)
    except InvalidReference as error:
        raise UsageError(f"{place_of_setting(loaded, 'fallback')}: {error}") from error
    allowed = msgspec.convert(config.agents, AgentsTable).providers
    for name in allowed:
        if name not in known and not name.startswith(SCRIPTED):
            place = place_of_setting(loaded, "agents.providers")
            raise UsageError(f"{place}: {unknown_provider_text(name, known)}")
    usable, broken = dict[str, Role](), dict[str, str]()
    for name, role in roles.known.items():
        problem = role_provider_problem(role, known)
        if problem and name == root.name:
            raise UsageError(problem)
        if problem:
            broken[name] = problem
        else:
            usable[name] = role
    used = [*allowed, *(split_reference(entry).provider for entry in fallback)]
    for role in usable.values():
        used += [role.model_provider, *(split_reference(e).provider for e in role.fallback or ())]
    return ProviderUse(
        roles=msgspec.structs.replace(roles, known=usable, broken=roles.broken | broken),
        further=tuple(dict.fromkeys(name for name in used if name and name != own.provider)),
        fallback=fallback,
        warnings=tuple(f"role cannot be used: {why}" for why in broken.values()),
    )


def checked_fallback(
    entries: Sequence[str], known: Sequence[str], own: ModelReference
) -> tuple[str, ...]:
    """The list, each entry as `provider:model` or `provider`. Raises InvalidReference.

    No entry comes twice, and none is what the list stands in for: an agent would go round in a
    loop.
    """
    if len(entries) > MAX_FALLBACKS:
        raise InvalidReference(f"{len(entries)} entries; at most {MAX_FALLBACKS} are tried")
    found: list[str] = []
    for entry in entries:
        reference = read_fallback(entry, known)
        if str(reference) in found:
            raise InvalidReference(f"{entry!r} comes twice: that would be a loop; leave one out")
        if reference == own or (reference.model is None and reference.provider == own.provider):
            raise InvalidReference(
                f"{entry!r} is what the list stands in for: that would be a loop; leave it out"
            )
        found.append(str(reference))
    return tuple(found)


def role_provider_problem(role: Role, known: Sequence[str]) -> str | None:
    """Why the role's provider or its fallback list cannot be used, with file and line."""
    provider = role.model_provider
    if provider is not None and provider not in known and not provider.startswith(SCRIPTED):
        place = _role_place(role, "model_provider")
        return f"{place}: {unknown_provider_text(provider, known)}"
    own = ModelReference(provider=provider, model=role.model)
    try:
        checked_fallback(role.fallback or (), known, own)
    except InvalidReference as error:
        return f"{_role_place(role, 'fallback')}: {error}"
    return None


def provider_violations(request: RunRequest, required: Requirements) -> Iterator[str]:
    """What of the run's providers the administrator's pins do not allow."""
    provider, model = required.pins.get("model_provider"), required.pins.get("model")
    if provider is not None:
        for name in request.gateway.further:
            if name != provider:
                yield f"provider {name}, which {required.place('pins')}, model_provider forbids"
    lists = [role.fallback or () for role in request.roles.known.values()]
    if request.fan_out is not None:
        lists.append(request.fan_out.agents.model_settings.fallback)
    for entry in (*request.model_settings.fallback, *(one for own in lists for one in own)):
        if model is not None and split_reference(entry).model != model:
            yield f"fallback {entry}, which {required.place('pins')}, model forbids"


def place_of_setting(loaded: LoadedConfig, key: str) -> str:
    """File, line and key of the layer that sets the key."""
    origin = loaded.merged.origin(tuple(key.split(".")))
    for layer in reversed(loaded.layers):
        if origin is not None and (layer.name, layer.source) == (origin.layer, origin.file):
            return describe_place(layer, key)
    return key


def _role_place(role: Role, key: str) -> str:
    """File and line of a role's key. The file is the person's own: a project may not set it."""
    try:
        path = Path(role.source)
        places = find_key_positions(decode_text(read_bounded(path), path))
    except (UsageError, OSError):
        return f"{role.source}, {key}"
    place = places.get(("agents", role.name, key)) or places.get((key,))
    return f"{role.source}{f', line {place.line}' if place else ''}, {key}"
