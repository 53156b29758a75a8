"""One account as it is stored: a key, or what a sign-in has given. Its text form hides secrets.

It is bound to the address that it was stored for: another address does not get its key.
"""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.settings import KeepSecrets
from swarm.mailbox.protocol.values.base import Value

from ...config.secret_store import KeptIn, SecretStore

EARLY_S = 60.0  # a token that ends so soon is refreshed
ACCOUNTS_FOLDER = "accounts"  # in the folder of state


class StoredAccount(Value):
    """`kind`: a key that somebody typed, or tokens of a sign-in."""

    name: str
    kind: Literal["key", "login"]
    origin: str  # scheme, host and port of what gets its key
    key: str = ""
    issuer: str = ""
    client_id: str = ""
    access_token: str = ""
    refresh_token: str = ""
    expires_at: float = 0.0  # in seconds since 1970; 0: nobody said
    refreshed_at: float = 0.0
    account_id: str = ""
    email: str = ""
    token_endpoint: str = ""  # as the issuer's metadata said at the sign-in
    revocation_endpoint: str = ""
    ended: str = ""  # why only a new sign-in helps; "": it may be used

    def __repr__(self) -> str:
        return f"StoredAccount({self.name!r}, {self.kind!r})"

    def secrets(self) -> tuple[str, ...]:
        """What must appear nowhere else."""
        return tuple(one for one in (self.key, self.access_token, self.refresh_token) if one)

    def expiry(self, max_age_s: float = 0.0) -> float:
        """When the access token ends, in seconds since 1970; 0: nobody knows."""
        if self.expires_at or not max_age_s:
            return self.expires_at
        return self.refreshed_at + max_age_s

    def due_at(self, max_age_s: float = 0.0) -> float:
        """When a new token is to be got: a little before the end; 0: nobody knows."""
        expiry = self.expiry(max_age_s)
        return expiry and expiry - min(EARLY_S, (expiry - self.refreshed_at) / 2)


class AccountStore:
    """The accounts in a folder. Blocks as its `SecretStore` does."""

    def __init__(self, folder: Path) -> None:
        self.secrets = SecretStore(folder)

    def read(self, name: str) -> StoredAccount | None:
        """The account; None: there is none. Raises SwarmError."""
        data = self.secrets.read(name)
        if data is None:
            return None
        try:
            account = msgspec.json.decode(data, type=StoredAccount)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SwarmError(f"the stored account `{name}` cannot be read") from error
        if account.name != name:
            raise SwarmError(f"the stored account `{name}` is that of `{account.name[:80]}`")
        return account

    def write(self, account: StoredAccount, wanted: KeepSecrets | None = None) -> KeptIn:
        """Put it in place of the one before. Raises SwarmError."""
        return self.secrets.write(account.name, msgspec.json.encode(account), wanted)


def describe_account(account: StoredAccount, kept: KeptIn | None, now: float | None = None) -> str:
    """For lists: what it is, whose, until when, and where it is kept. No part of a key."""
    signed_in = f"signed in as {account.email}" if account.email else "signed in"
    words = ["API key" if account.kind == "key" else signed_in]
    words += [f"workspace {account.account_id}"] if account.account_id else []
    if account.ended:
        words.append(f"of no use any more: {account.ended}")
    elif account.expires_at and account.expires_at < (time.time() if now is None else now):
        words.append("refreshed at its next use" if account.refresh_token else "expired")
    elif account.expires_at:
        until = datetime.fromtimestamp(account.expires_at, UTC)
        words.append(f"until {until:%Y-%m-%d %H:%M} UTC")
    words.append("kept in the keyring" if kept == "keyring" else "kept in a file for you alone")
    return ", ".join(words)
