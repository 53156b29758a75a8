"""`[model_providers.ID]` → `ProviderSpec`s, and whether the chosen one can be used at all.

A token written into the configuration travels as a key: by pipe to the gateway, under a name that
is no variable.
"""

from collections.abc import Sequence
from difflib import get_close_matches

import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.roles.config.schema import RESERVED_PROVIDERS, Config, ProviderTable


def build_providers(
    config: Config, warnings: list[str]
) -> tuple[tuple[ProviderSpec, ...], dict[str, str]]:
    """The configured providers that we can speak to, and the literal tokens of their keys."""
    specs: list[ProviderSpec] = []
    literal: dict[str, str] = {}
    for name, table in config.model_providers.items():
        if (lack := what_lacks(name, table)) is not None:
            if name != config.model_provider:
                warnings.append(f"{lack}; it is left out")
                continue
            raise UsageError(lack)
        key = table.env_key or ("OPENAI_API_KEY" if table.requires_openai_auth else None)
        if key is None and table.experimental_bearer_token:
            key = f"model_providers.{name}.experimental_bearer_token"
            literal[key] = table.experimental_bearer_token
            table = msgspec.structs.replace(table, key_header="authorization")
        specs.append(_spec(name, table, key))
    return tuple(specs), literal


def what_lacks(name: str, table: ProviderTable) -> str | None:
    """Why this provider cannot be used here; None if it can."""
    place = f"model_providers.{name}"
    if table.auth is not None:
        return f"{place}.auth: tokens from a command are not supported; use env_key"
    if table.aws is not None:
        return f"{place}.aws: AWS signatures are not supported"
    if not table.base_url.startswith(("http://", "https://")):
        return f"{place}.base_url: must begin with http:// or https://"
    return None


def _spec(name: str, table: ProviderTable, key: str | None) -> ProviderSpec:
    return ProviderSpec(
        id=name,
        name=table.name or name,
        base_url=table.base_url,
        wire_api=table.wire_api,
        env_key=key,
        env_key_instructions=table.env_key_instructions,
        query_params=table.query_params,
        http_headers=table.http_headers,
        env_http_headers=table.env_http_headers,
        request_max_retries=min(table.request_max_retries, 100),
        stream_max_retries=min(table.stream_max_retries, 100),
        stream_idle_timeout_ms=table.stream_idle_timeout_ms,
        tolerant_tool_calls=table.tolerant_tool_calls,
        key_header=table.key_header,
    )


def check_choice(wanted: str | None, config: Config, built: Sequence[ProviderSpec]) -> None:
    """Raises UsageError for a provider that nobody knows, with the nearest name."""
    known = (*RESERVED_PROVIDERS, *(provider.id for provider in built))
    if wanted is None or wanted in known or wanted.startswith("scripted:"):
        return
    near = get_close_matches(wanted, known, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    raise UsageError(
        f"Model provider `{wanted}` not found{hint} Known: {', '.join(known)}, scripted:FILE"
        if near
        else f"Model provider `{wanted}` not found; known: {', '.join(known)}, scripted:FILE"
    )
