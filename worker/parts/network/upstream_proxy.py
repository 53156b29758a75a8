"""Upstream proxies: which one the environment names for a target, and the tunnel through it.

The password of a proxy's address is sent only to that proxy; no text, log or event contains it. A
target whose proxy address is invalid is refused: the proxy is never bypassed.

Source: the variables are read as curl reads them.
"""

import base64
import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import unquote_to_bytes, urlsplit

import trio

from swarm.mailbox.base.host_patterns import InvalidHost, is_address, normalize_host
from swarm.mailbox.protocol.proxy import NetworkTarget
from swarm.mailbox.protocol.values.base import Value

from .access_decision import is_loopback, is_loopback_name

_HEAD_BYTES = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: |\r)")
_DEFAULT_PORT = 1080  # curl's default


class UpstreamFailed(Exception):
    """The upstream proxy cannot be reached, or refuses. The command receives the text."""


class UpstreamProxy(Value):
    """One proxy; `authorization` is the value of its credentials header, b"" for none."""

    host: str
    port: int
    authorization: bytes = b""


class InvalidUpstream(Value):
    """A variable names a proxy that cannot be used."""

    why: str


class UpstreamProxies(Value):
    """The proxies that the environment names. None: connect directly."""

    plain: UpstreamProxy | InvalidUpstream | None = None
    secure: UpstreamProxy | InvalidUpstream | None = None
    exempt: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong with the variables, each problem once, without their values."""
        found = (one.why for one in (self.plain, self.secure) if isinstance(one, InvalidUpstream))
        return tuple(dict.fromkeys(found))


def read_upstreams(variables: Mapping[str, str]) -> UpstreamProxies:
    """Read HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY; lower-case names come first."""

    def said(name: str) -> str:
        return (variables.get(name.lower()) or variables.get(name) or "").strip()

    def chosen(name: str) -> UpstreamProxy | InvalidUpstream | None:
        used = name if said(name) else "ALL_PROXY"
        return _read(used, said(used)) if said(used) else None

    exempt = (word.strip().lower().removesuffix(".") for word in said("NO_PROXY").split(","))
    return UpstreamProxies(
        plain=chosen("HTTP_PROXY"),
        secure=chosen("HTTPS_PROXY"),
        exempt=tuple(word for word in exempt if word),
    )


def _read(name: str, url: str) -> UpstreamProxy | InvalidUpstream:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or _DEFAULT_PORT
        host = normalize_host(parts.hostname or "")
    except (ValueError, InvalidHost):
        return InvalidUpstream(why=f"{name} holds no address of a proxy")
    if parts.scheme.lower() != "http":
        return InvalidUpstream(why=f"{name} names another kind of proxy than http://")
    if parts.username is None and parts.password is None:
        return UpstreamProxy(host=host, port=port)
    login = unquote_to_bytes(parts.username or "") + b":" + unquote_to_bytes(parts.password or "")
    return UpstreamProxy(host=host, port=port, authorization=b"Basic " + base64.b64encode(login))


def upstream_for(target: NetworkTarget, upstreams: UpstreamProxies) -> UpstreamProxy | None:
    """The proxy for the target; None: connect directly. Targets on this machine never have one.

    Raises UpstreamFailed.
    """
    host = target.host
    here = is_loopback(host) if is_address(host) else is_loopback_name(host)
    if here or any(_is_exempt(target, word) for word in upstreams.exempt):
        return None
    chosen = upstreams.plain if target.protocol == "http" else upstreams.secure
    if isinstance(chosen, InvalidUpstream):
        raise UpstreamFailed(f"there is no way out: {chosen.why}")
    return chosen


def _is_exempt(target: NetworkTarget, word: str) -> bool:
    """`*`, a domain with or without a leading dot, an address, a network; optionally with a
    port.
    """
    if word == "*":
        return True
    name, colon, port = word.rpartition(":")
    if colon and port.isdecimal() and ":" not in name:
        if int(port) != target.port:
            return False
        word = name
    if is_address(target.host):
        try:
            return ip_address(target.host) in ip_network(word.strip("[]"), strict=False)
        except ValueError:
            return False
    domain = word.removeprefix("*").removeprefix(".")
    return target.host == domain or target.host.endswith(f".{domain}")


async def ask_for_tunnel(
    sock: trio.socket.SocketType, target: NetworkTarget, upstream: UpstreamProxy
) -> None:
    """Send CONNECT; afterwards `sock` carries the target's data. Raises UpstreamFailed, OSError."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    lines = [f"CONNECT {host}:{target.port} HTTP/1.1", f"Host: {host}:{target.port}"]
    head = "\r\n".join(lines).encode("ascii")
    if upstream.authorization:
        head += b"\r\nProxy-Authorization: " + upstream.authorization
    await trio.SocketStream(sock).send_all(head + b"\r\n\r\n")
    found = _STATUS.match(await _read_head(sock))
    if found is None:
        raise UpstreamFailed("the upstream proxy's answer cannot be read")
    if found[1] != b"200":
        raise UpstreamFailed(refusal_text(int(found[1])))


def refusal_text(status: int) -> str:
    """The text for a command about an upstream proxy's refusal."""
    if status == 407:
        return "the upstream proxy wants other credentials than the environment's"
    return f"the upstream proxy refuses: {status}"


async def _read_head(sock: trio.socket.SocketType) -> bytes:
    """Read up to and including the blank line, and no byte more: the next ones are the target's."""
    head = b""
    while len(head) < _HEAD_BYTES:
        seen = await sock.recv(4096, trio.socket.MSG_PEEK)
        if not seen:
            break
        end = (head + seen).find(b"\r\n\r\n")
        head += await sock.recv(len(seen) if end < 0 else end + 4 - len(head))
        if end >= 0:
            return head
    raise UpstreamFailed("the upstream proxy hung up")
