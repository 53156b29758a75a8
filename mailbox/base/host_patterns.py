"""Host names and host patterns: normal form, matching, intersection. Pure.

A host or pattern that cannot be parsed is an error; it never silently matches nothing. The hosts of
two patterns are disjoint or one set contains the other, and so are their ports;
`intersect_patterns` relies on that. A pattern without a port allows the web ports (80, 443).
Patterns that deny or ask apply to every port.

Source: Codex's domain patterns. Ports are an addition: Codex drops them.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address

from .errors import UsageError

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_PORT = re.compile(r"(?P<host>[^:\[\]]*|\[[^\[\]]*\]):(?P<port>[0-9]{1,5}|\*)\Z")
WEB_PORTS = (80, 443)  # allowed by a pattern without a port
_MAX_PORT = 65535
_MAX_HOST_CHARACTERS = 253
ANY_HOST = "*"
UNSUPPORTED_WILDCARD = (
    'unsupported global wildcard domain pattern "*"; use exact hosts or scoped wildcards like '
    "*.example.com or **.example.com"
)


class InvalidHost(UsageError):
    """Not a valid host or pattern; the text names it."""


def normalize_host(text: str) -> str:
    """Lower case, no trailing dot; an address without brackets and in its shortest form.

    Raises InvalidHost if it is neither a name (ASCII letters, digits, `-`, `_`) nor an address.
    """
    host = text.strip().lower()
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if "%" not in host:  # no pattern can name an address with a zone (`fe80::1%eth0`)
        with suppress(ValueError):
            return str(ip_address(host))
    host = host.removesuffix(".")
    if len(host) > _MAX_HOST_CHARACTERS or not all(map(_LABEL.match, host.split("."))):
        raise InvalidHost(f"not a host name: {text[:_MAX_HOST_CHARACTERS]!r}")
    return host


def normalize_pattern(text: str, *, denies: bool = False) -> str:
    """A pattern in normal form: `host`, `*.domain`, `**.domain`, or `*` (only to allow).

    `:port` or `:*` (every port) may follow; an IPv6 address is then in brackets. With `denies` the
    port is dropped.

    Raises InvalidHost with the pattern and what is wrong with it.
    """
    pattern, port = text.strip(), ""
    if found := _PORT.match(pattern):
        pattern, port = found["host"], found["port"]
        if port != ANY_HOST and not 0 < int(port) <= _MAX_PORT:
            raise InvalidHost(f"not a port, 1 to {_MAX_PORT} or *: {text[:_MAX_HOST_CHARACTERS]!r}")
    port = "" if denies else port
    if pattern == ANY_HOST:
        if denies:
            raise InvalidHost(UNSUPPORTED_WILDCARD)
        return join_port(ANY_HOST, port)
    marker = next((mark for mark in ("**.", "*.") if pattern.startswith(mark)), "")
    try:
        host = normalize_host(pattern.removeprefix(marker))
    except InvalidHost as error:
        raise InvalidHost(f"not a domain pattern: {text[:_MAX_HOST_CHARACTERS]!r}") from error
    if marker and is_address(host):
        raise InvalidHost(f"an address has no subdomains: {text!r}")
    return join_port(marker + host, port)


def with_port(host: str, port: int) -> str:
    """A host in normal form with its port; a web port is left out."""
    return host if port in WEB_PORTS else join_port(host, str(port))


def split_port(pattern: str) -> tuple[str, str]:
    """Split a normal-form pattern into (hosts, port). Port "": none is named; `*`: every port."""
    if (found := _PORT.match(pattern)) is None:
        return pattern, ""
    host = found["host"]
    return host.removeprefix("[").removesuffix("]"), found["port"]


def join_port(host: str, port: str) -> str:
    """Reverse `split_port`: hosts in normal form and a port (a number, `*`, or "" for none)."""
    if not port:
        return host
    number = port if port == ANY_HOST else str(int(port))
    return f"[{host}]:{number}" if ":" in host else f"{host}:{number}"


def is_address(host: str) -> bool:
    """True for an IP address in normal form."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_match(host: str, pattern: str) -> bool:
    """True if the pattern (without a port) matches the host. Both are in normal form."""
    if pattern == ANY_HOST:
        return True
    if pattern.startswith("**."):
        return host == pattern[3:] or host.endswith(pattern[2:])
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and host != pattern[1:]
    return host == pattern


def is_listed(host: str, patterns: Iterable[str]) -> bool:
    """True if a pattern matches the host, whatever the port: for lists that deny or ask."""
    return any(is_match(host, split_port(pattern)[0]) for pattern in patterns)


def is_allowed(host: str, port: int, patterns: Iterable[str]) -> bool:
    """True if a pattern allows this host and port; without a port it allows the web ports."""
    for hosts, ports in map(split_port, patterns):
        fits = port in WEB_PORTS if not ports else ports in (ANY_HOST, str(port))
        if fits and is_match(host, hosts):
            return True
    return False


def is_pattern_within(inner: str, outer: str) -> bool:
    """True if every host of `inner` is a host of `outer`. Both are without ports."""
    if outer == ANY_HOST or inner == outer:
        return True
    if inner == ANY_HOST:
        return False
    if not inner.startswith("*"):
        return is_match(inner, outer)
    if not outer.startswith("*"):
        return False  # `outer` is a single host
    domain = inner.lstrip("*").removeprefix(".")
    if outer.lstrip("*") == f".{domain}":
        return outer.startswith("**.")  # `*.d` lies within `**.d`, but not the reverse
    return is_match(domain, outer)


def intersect_patterns(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    """Patterns that allow exactly the hosts and ports that both lists allow."""
    first, second = (tuple(map(split_port, patterns)) for patterns in (one, other))
    kept = [found for a in first for b in second if (found := _narrower(a, b)) is not None]
    kept += [found for b in second for a in first if (found := _narrower(b, a)) is not None]
    return tuple(dict.fromkeys(kept))


def _narrower(inner: tuple[str, str], outer: tuple[str, str]) -> str | None:
    """`inner` with the common ports, if its hosts lie within `outer`; None if nothing is common."""
    if not is_pattern_within(inner[0], outer[0]):
        return None
    port = _common_port(inner[1], outer[1])
    return None if port is None else join_port(inner[0], port)


def _common_port(one: str, other: str) -> str | None:
    """The ports that both port fields allow, as a port field; None if there are none."""
    if one == other or other == ANY_HOST:
        return one
    if one == ANY_HOST:
        return other
    named = one or other  # two different numbers, or a number and the web ports
    if one and other:
        return None
    return named if int(named) in WEB_PORTS else None
