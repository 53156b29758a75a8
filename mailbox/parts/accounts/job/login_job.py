"""What `swarm login` and `logout` ask of the gateway's code, in a process of its own."""

from typing import Literal

from ....protocol.settings import KeepSecrets
from ....protocol.values.base import Value
from ..account_messages import AccountSource


class LoginJob(Value):
    """Sent through a pipe: it may hold a key."""

    verb: Literal["key", "browser", "device", "logout"]
    source: AccountSource
    base_url: str = ""  # of the configured provider; "": of the built-in one
    key: str = ""
    keep: KeepSecrets = "auto"
    opens_browser: bool = True
    timeout_s: float = 300.0
    paste_from: int = -1  # a descriptor that the process inherits; -1: nobody pastes an address


class LoginResult(Value):
    """`failure` is "" unless it did not work. Of a logout: why the issuer was not told."""

    status: str = ""  # as lists show it
    failure: str = ""
