"""Where the HTTP form listens, and the token that it wants. Pure."""

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.base import Value

MIN_TOKEN_CHARS = 20


class ListenAddress(Value):
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return self.host in {"127.0.0.1", "localhost", "::1"}

    @property
    def name(self) -> str:
        """As in an address: `127.0.0.1:8000`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, *, anywhere: bool) -> ListenAddress:
    """`HOST:PORT`, port 0 for any free one. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"--http {text[:100]!r} is not HOST:PORT, for example 127.0.0.1:8931")
    address = ListenAddress(host=host.strip("[]") or "127.0.0.1", port=int(port))
    if not address.is_loopback and not anywhere:
        raise UsageError(
            f"{address.host} can be reached from other machines, and the token is not encrypted; "
            "use 127.0.0.1, or say --http-anywhere if that is what you want"
        )
    return address


def check_token(token: str) -> str:
    """Raises UsageError for a token that can be guessed or is no header value."""
    if len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable():
        raise UsageError(
            f"$SWARM_MCP_TOKEN must have {MIN_TOKEN_CHARS} or more printable ASCII characters; "
            "unset it, and a random token is made"
        )
    return token
