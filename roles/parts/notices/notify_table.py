"""Checks the `[notify]` table. No I/O."""

from urllib.parse import SplitResult, urlsplit

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.parts.notices.notice_messages import NotifySettings

_MOST_CHARS = 2_000


def notify_settings(key: tuple[str, ...] | NotifySettings) -> NotifySettings:
    """The key in either form; a list is the program alone. Raises UsageError that names the key."""
    if not isinstance(key, NotifySettings):
        return NotifySettings(program=key)
    for name, address in (("ntfy", key.ntfy), ("webhook", key.webhook)):
        if address:
            _check_address(name, address)
    if key.command and not key.command[0].strip():
        raise UsageError("notify.command: the program has no name")
    return key


def token_variables(key: tuple[str, ...] | NotifySettings) -> tuple[str, ...]:
    """Variables that hold tokens of sinks: no agent sees them."""
    if not isinstance(key, NotifySettings):
        return ()
    return tuple(filter(None, (key.ntfy_token_env, key.webhook_token_env)))


def _check_address(name: str, address: str) -> None:
    parts = _split(address)
    is_sound = parts is not None and parts.scheme in {"http", "https"} and bool(parts.hostname)
    if (
        parts is None
        or not is_sound
        or len(address) > _MOST_CHARS
        or not address.isprintable()
        or " " in address
    ):
        raise UsageError(f"notify.{name}: give an address that begins with https:// or http://")
    if parts.username or parts.password:
        raise UsageError(
            f"notify.{name}: no password in an address; name a variable: {name}_token_env"
        )
    if name == "ntfy" and not parts.path.strip("/"):
        raise UsageError("notify.ntfy: the address names no topic, as https://ntfy.sh/TOPIC does")


def _split(address: str) -> SplitResult | None:
    """None: it is no address."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    return parts
