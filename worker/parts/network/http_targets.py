"""Parse the target of an HTTP request strictly. Pure.

Ambiguous targets (user names in an authority, fragments, spaces, port 0) are refused, so that the
checked host is the one that is connected to.
"""

import re

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.host_patterns import InvalidHost, normalize_host
from swarm.mailbox.protocol.values.base import Value

_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?\Z")
_ABSOLUTE = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>.*)\Z"
)
_HTTP_PORT, _HTTPS_PORT = 80, 443


class BadTarget(SwarmError):
    """The request cannot be passed on; the command receives the text."""


class HttpTarget(Value):
    """`authority` as the client wrote it; `path` as the server receives it."""

    host: str  # normal form
    port: int
    authority: str
    path: str = ""


def read_authority(text: str, *, default_port: int | None) -> HttpTarget:
    """Parse `host:port`. Raises BadTarget, also for a missing port without a default."""
    found = _AUTHORITY.match(text)
    port = int(found["port"] or default_port or 0) if found else 0
    if found is None or not 0 < port < 65536:
        raise BadTarget(f"not a host and port: {text[:200]!r}")
    try:
        host = normalize_host(found["host"])
    except InvalidHost as error:
        raise BadTarget(str(error)) from error
    return HttpTarget(host=host, port=port, authority=text)


def read_inside(text: str, *, method: str, host: str, tunnel: HttpTarget) -> HttpTarget:
    """Parse `/path?query`, the form inside a tunnel. Raises BadTarget, also if `host`, the
    request's field, names another server than the tunnel's.
    """
    if "#" in text or not (text.startswith("/") or (text == "*" and method == "OPTIONS")):
        raise BadTarget("within a tunnel a request names a path")
    place = read_authority(host, default_port=_HTTPS_PORT)
    if (place.host, place.port) != (tunnel.host, tunnel.port):
        raise BadTarget(f"this tunnel leads to {tunnel.authority}, not to {host[:200]}")
    return HttpTarget(host=place.host, port=place.port, authority=host, path=text)


def read_absolute(text: str, *, method: str) -> HttpTarget:
    """Parse `http://host[:port]/path?query`, the form for proxies. Raises BadTarget."""
    found = _ABSOLUTE.match(text)
    if found is None:
        raise BadTarget("this is a proxy: the request needs a whole URL")
    if found["scheme"].lower() != "http":
        raise BadTarget(f"{found['scheme'][:20]} URLs need CONNECT")
    if "#" in found["rest"]:
        raise BadTarget("a URL on the wire has no fragment")
    place = read_authority(found["authority"], default_port=_HTTP_PORT)
    path = found["rest"]
    if not path:
        path = "*" if method == "OPTIONS" else "/"
    elif path.startswith("?"):
        path = "/" + path
    return HttpTarget(host=place.host, port=place.port, authority=place.authority, path=path)
