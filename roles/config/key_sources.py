"""Checks where the configuration takes a provider's key from: at most one source. No I/O."""

from collections.abc import Iterator

from .schema import AuthTable, ProviderTable

_MAX_TIMEOUT_MS = 600_000


def key_sources(table: ProviderTable) -> Iterator[str]:
    """The keys of the table that name a source, in the order in which errors list them."""
    said: dict[str, object] = {
        "env_key": table.env_key,
        "experimental_bearer_token": table.experimental_bearer_token,
        "requires_openai_auth": table.requires_openai_auth,
        "key_file": table.key_file,
        "keyring": table.keyring,
    }
    return (key for key, value in said.items() if value)


def key_source_problem(table: ProviderTable) -> tuple[str, str] | None:
    """(key, reason) of the first error in the key sources; None if there is none.

    Source: Codex's rules for `auth`, plus rules for the sources that only swarm has.
    """
    others = list(key_sources(table))
    if table.auth is not None:
        if others:
            return "auth", f"provider auth cannot be combined with {', '.join(others)}"
        return _auth_problem(table.auth)
    for ours in ("key_file", "keyring"):
        rest = [other for other in others if other != ours]
        if ours in others and rest:
            return ours, f"cannot be combined with {', '.join(rest)}"
    if table.keyring is not None and not table.keyring.service.strip():
        return "keyring.service", "must not be empty"
    return None


def _auth_problem(auth: AuthTable) -> tuple[str, str] | None:
    if not auth.command.strip():
        return "auth.command", "provider auth.command must not be empty"
    if not 0 < auth.timeout_ms <= _MAX_TIMEOUT_MS:
        return "auth.timeout_ms", f"must be between 1 and {_MAX_TIMEOUT_MS}"
    if auth.refresh_interval_ms < 0:
        return "auth.refresh_interval_ms", "must not be negative; 0 = only when a key is refused"
    return None
