"""Where an HTTP request wants to go, read strictly. Pure.

Guards: what could be read in two ways (user names in an authority, fragments, spaces, a port of 0)
is refused, so that the host which is judged is the one that is connected to.
"""

import re

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.host_patterns import InvalidHost, normalize_host
from swarm.mailbox.protocol.base import Value

_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?\Z")
_ABSOLUTE = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<rest>.*)\Z"
)
_HTTP_PORT, _HTTPS_PORT = 80, 443


class BadTarget(SwarmError):
    """The request cannot be passed on; the text is for the command."""


class HttpTarget(Value):
    """`authority` as it was written; `path` for the server itself."""

    host: str  # normal form
    port: int
    authority: str
    path: str = ""


def read_authority(text: str, *, default_port: int | None) -> HttpTarget:
    """`host:port`. Raises BadTarget; also without a port where there is no default."""
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
    """`/path?query` as the server itself is asked, within a tunnel to it. Raises BadTarget; also
    where `host`, the request's field, names another server than the tunnel leads to.
    """
    if "#" in text or not (text.startswith("/") or (text == "*" and method == "OPTIONS")):
        raise BadTarget("within a tunnel a request names a path")
    place = read_authority(host, default_port=_HTTPS_PORT)
    if (place.host, place.port) != (tunnel.host, tunnel.port):
        raise BadTarget(f"this tunnel leads to {tunnel.authority}, not to {host[:200]}")
    return HttpTarget(host=place.host, port=place.port, authority=host, path=text)


def read_absolute(text: str, *, method: str) -> HttpTarget:
    """`http://host[:port]/path?query`, as a proxy is asked. Raises BadTarget."""
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
