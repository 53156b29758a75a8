"""`[model_providers.ID]` → `ProviderSpec`s, and whether the chosen provider can be used.

A token in the configuration is passed like a key: by pipe to the gateway, under a name that is not
a variable.
"""

import os
import re
import sys
from collections.abc import Sequence

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.near_names import nearest
from swarm.mailbox.protocol.spec import KeyCommand, ProviderSettings, ProviderSpec
from swarm.mailbox.protocol.values.base import with_shared
from swarm.roles.config.layers.layer_check import key_source_problem
from swarm.roles.config.part_keys import PROVIDER_PART_TABLES
from swarm.roles.config.schema import RESERVED_PROVIDERS, Config, ProviderTable

from ....parts.part_setup import (
    part_credentials,
    part_credentials_problem,
    with_part_providers,
)

_MOST_RETRIES = 100
_MOST_IDLE_MS = 24 * 60 * 60 * 1000  # a silence of a day is no answer any more
_MOST = {
    "request_max_retries": _MOST_RETRIES,
    "stream_max_retries": _MOST_RETRIES,
    "stream_idle_timeout_ms": _MOST_IDLE_MS,
}
_KEYRING_S = 30.0  # a locked keyring asks the person first
_SECRET = re.compile(r"auth|key|token|secret|cookie|credential", re.IGNORECASE)


def build_providers(
    config: Config, warnings: list[str]
) -> tuple[tuple[ProviderSpec, ...], dict[str, str]]:
    """The configured providers with a supported protocol, and the literal tokens of their keys."""
    specs: list[ProviderSpec] = []
    literal: dict[str, str] = {}
    for name, table in config.model_providers.items():
        if (lack := provider_problem(name, table)) is not None:
            if name != config.model_provider:
                warnings.append(f"{lack}; it is left out")
                continue
            raise UsageError(lack)
        key = table.env_key or ("OPENAI_API_KEY" if table.requires_openai_auth else None)
        if (fetched := key_source_field(table)) is not None:
            key = f"model_providers.{name}.{fetched}"
        if key is None and table.experimental_bearer_token:
            key = f"model_providers.{name}.experimental_bearer_token"
            literal[key] = table.experimental_bearer_token
            table = msgspec.structs.replace(table, key_header="authorization")
        table = _bounded(name, table, warnings)
        table, hidden = _without_secret_headers(name, table)
        literal |= hidden
        specs.append(_spec(name, table, key))
    return with_part_providers(config, specs), literal


def _bounded(name: str, table: ProviderTable, warnings: list[str]) -> ProviderTable:
    """The table with no number over its limit; what is lowered is said."""
    over = {key: most for key, most in _MOST.items() if getattr(table, key) > most}
    warnings += [
        f"model_providers.{name}.{key}: {getattr(table, key)} is over the largest value, {most}, "
        "which is used"
        for key, most in over.items()
    ]
    return msgspec.structs.replace(
        table,
        request_max_retries=min(table.request_max_retries, _MOST_RETRIES),
        stream_max_retries=min(table.stream_max_retries, _MOST_RETRIES),
        stream_idle_timeout_ms=min(table.stream_idle_timeout_ms, _MOST_IDLE_MS),
    )


def provider_problem(name: str, table: ProviderTable) -> str | None:
    """Why this provider cannot be used here; None if it can."""
    place = f"model_providers.{name}"
    if (problem := key_source_problem(table)) is not None:
        key, why = problem
        return f"{place}.{key}: {why}"
    if not table.base_url.startswith(("http://", "https://")):
        return f"{place}.base_url: must begin with http:// or https://"
    if (problem := part_credentials_problem(table.base_url, table)) is not None:
        key, why = problem
        return f"{place}.{key}: {why}"
    return None


def _spec(name: str, table: ProviderTable, key: str | None) -> ProviderSpec:
    spec = ProviderSpec(
        id=name,
        name=table.name or name,
        wire_api=table.wire_api,
        env_key=key,
        key_file=table.key_file or "",
        key_command=_command(name, table),
        credentials=part_credentials(f"model_providers.{name}", table.base_url, table, os.environ),
    )
    return with_shared(spec, ProviderSettings, table)


def key_source_field(table: ProviderTable) -> str | None:
    """The key of the table that says how the gateway gets the provider's key; None: another way."""
    names = ("auth", "key_file", "keyring", *PROVIDER_PART_TABLES)
    return next((name for name in names if getattr(table, name)), None)


def _command(name: str, table: ProviderTable) -> KeyCommand | None:
    place = f"model_providers.{name}"
    if (auth := table.auth) is not None:
        return KeyCommand(
            argv=(auth.command, *auth.args),
            what=f"{place}.auth",
            cwd=auth.cwd or "",
            timeout_s=auth.timeout_ms / 1000,
            refresh_s=auth.refresh_interval_ms / 1000,
        )
    if (ring := table.keyring) is not None:
        argv = (sys.executable, "-P", "-m", "keyring", "get", ring.service, ring.user or name)
        what = f"{place}.keyring"  # needs the extra `keyring`
        return KeyCommand(argv=argv, what=what, timeout_s=_KEYRING_S, refresh_s=0.0)
    return None


def _without_secret_headers(
    name: str, table: ProviderTable
) -> tuple[ProviderTable, dict[str, str]]:
    """Turn headers that hold a secret into keys: passed by pipe, in no file of the run."""
    given = table.http_headers
    names = {
        header: f"model_providers.{name}.http_headers.{header}"
        for header in given
        if _SECRET.search(header)
    }
    rest = {header: value for header, value in given.items() if header not in names}
    moved = msgspec.structs.replace(
        table, http_headers=rest, env_http_headers={**names, **table.env_http_headers}
    )
    return moved, {place: given[header] for header, place in names.items()}


def check_provider_exists(
    wanted: str | None, config: Config, built: Sequence[ProviderSpec]
) -> None:
    """Raises UsageError for an unknown provider, with the nearest name."""
    known = (*RESERVED_PROVIDERS, *(provider.id for provider in built))
    if wanted is None or wanted in known or wanted.startswith("scripted:"):
        return
    names = f"{', '.join(known)}, scripted:FILE"
    if near := nearest(wanted, known):
        names = f"did you mean `{near}`? Known: {names}"
    else:
        names = f"known: {names}"
    raise UsageError(f"Model provider `{wanted}` not found; {names}")
