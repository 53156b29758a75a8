"""Logins with MCP servers: what OAuth has given, one entry of the `SecretStore` for each server.

A login is bound to the server's name and address: after either has changed it is not found, so a
token is sent to no other server. The folder is hidden from every command, tool and hook.
"""

import hashlib
import time
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.settings import KeepSecrets
from swarm.mailbox.protocol.values.base import Value

from .secret_store import SecretStore, SecretsUnavailable

EARLY_S = 5.0  # a token that ends so soon counts as expired


class StoredLogin(Value):
    """One login. Its text form hides what is secret."""

    server: str
    url: str
    access_token: str
    token_endpoint: str
    client_id: str
    client_secret: str = ""
    client_auth: str = "none"  # how the client proves itself at the token endpoint
    refresh_token: str = ""
    expires_at: float = 0.0  # in seconds since 1970; 0: the server did not say
    scopes: tuple[str, ...] = ()  # granted
    missing_scopes: tuple[str, ...] = ()  # asked for by the server since: the next login's
    issuer: str = ""
    resource: str = ""  # what the token is for, as it was asked for; "": not said
    revocation_endpoint: str = ""
    registration: str = ""  # the client's record as JSON, used again by the next login

    def __repr__(self) -> str:
        return f"StoredLogin({self.server!r}, {self.url!r})"

    def secrets(self) -> tuple[str, ...]:
        """What must appear nowhere else."""
        return tuple(
            one for one in (self.access_token, self.refresh_token, self.client_secret) if one
        )

    def is_expired(self, now: float) -> bool:
        """True if the access token is no longer of use, or only for a moment."""
        return bool(self.expires_at) and now > self.expires_at - EARLY_S


class LoginStore:
    """The logins in a folder. Blocks as its `SecretStore` does.

    Args:
        folder: Made with the first login, mode 0700.
    """

    def __init__(self, folder: Path) -> None:
        self._secrets = SecretStore(folder)

    def read(self, server: str, url: str) -> StoredLogin | None:
        """The login with this server; None if there is none, or it cannot be read."""
        try:
            data = self._secrets.read(_name(server, url))
            login = msgspec.json.decode(data or b"", type=StoredLogin)
        except (msgspec.DecodeError, UnicodeDecodeError, SwarmError):
            return None
        return login if (login.server, login.url) == (server, url) else None

    def write(self, login: StoredLogin, wanted: KeepSecrets | None = None) -> None:
        """Put the login in place of the one before. Raises SwarmError.

        `wanted` None: where it is kept now.
        """
        name = _name(login.server, login.url)
        try:
            self._secrets.write(name, msgspec.json.encode(login), wanted)
        except SecretsUnavailable as error:
            raise SwarmError(f"the login with `{login.server}`: {error}") from error

    def remove(self, server: str, url: str) -> bool:
        """Forget the login; False if there was none. Raises OSError, SwarmError."""
        return self._secrets.remove(_name(server, url))

    def try_locked(self, server: str, url: str) -> AbstractContextManager[bool]:
        """Hold the login alone within the block, if no other process does: whether it is held.

        Raises SwarmError if the lock's file cannot be made.
        """
        return self._secrets.try_locked(_name(server, url))


def _name(server: str, url: str) -> str:
    """A server's name is fit for a file's name; two addresses never share an entry."""
    return f"{server}-{hashlib.sha256(url.encode()).hexdigest()[:16]}"


def describe_login(login: StoredLogin | None, *, now: float | None = None) -> str:
    """For a list: `not logged in`, `OAuth until …`, `login expired`."""
    if login is None:
        return "not logged in"
    if not login.expires_at:
        return "OAuth"
    until = datetime.fromtimestamp(login.expires_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if not login.is_expired(time.time() if now is None else now):
        return f"OAuth until {until}"
    return "OAuth, refreshed at its next use" if login.refresh_token else "login expired"


def login_command(server: str) -> str:
    """What a person types to log in."""
    return f"swarm mcp login {server}"
