"""Hosts and the patterns that name them: normal form, matching, and what two lists both allow.

Guards: a pattern or host that cannot be read is an error, never a pattern that matches nothing. Of
the hosts of two patterns one contains the other or they have nothing in common, and so with their
ports; `intersect_patterns` relies on it. A pattern without a port allows the two of the web; what
denies or asks holds for every port, whatever it names. Pure.

Source: Codex's domain patterns, safety sheet 11; ports are ours (there, they are dropped).
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address

from .errors import UsageError

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_PORT = re.compile(r"(?P<host>[^:\[\]]*|\[[^\[\]]*\]):(?P<port>[0-9]{1,5}|\*)\Z")
WEB_PORTS = (80, 443)  # of a pattern that names none
_MAX_PORT = 65535
_MAX_HOST_CHARACTERS = 253
ANY_HOST = "*"
UNSUPPORTED_WILDCARD = (
    'unsupported global wildcard domain pattern "*"; use exact hosts or scoped wildcards like '
    "*.example.com or **.example.com"
)


class InvalidHost(UsageError):
    """A host or pattern that nobody can connect to; the text names it."""


def normalize_host(text: str) -> str:
    """Lower case, without a trailing dot, an address without brackets and in its shortest form.

    Raises BadHost: it is neither a name (ASCII letters, digits, `-`, `_`) nor an address.
    """
    host = text.strip().lower()
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if "%" not in host:  # a zone (`fe80::1%eth0`) is nothing that a pattern could name
        with suppress(ValueError):
            return str(ip_address(host))
    host = host.removesuffix(".")
    if len(host) > _MAX_HOST_CHARACTERS or not all(map(_LABEL.match, host.split("."))):
        raise InvalidHost(f"not a host name: {text[:_MAX_HOST_CHARACTERS]!r}")
    return host


def normalize_pattern(text: str, *, denies: bool = False) -> str:
    """A pattern in normal form: `host`, `*.domain`, `**.domain`, or `*` (only to allow), each
    perhaps with `:port` or `:*` (every port) behind it; an IPv6 address then stands in brackets.
    Of what denies the port is dropped.

    Raises BadHost with the pattern and what is wrong with it.
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
    """How a host in normal form is named together with a port, but for those of the web."""
    return host if port in WEB_PORTS else join_port(host, str(port))


def split_port(pattern: str) -> tuple[str, str]:
    """A pattern in normal form → (hosts, port): "" where none is named, `*` for every one."""
    if (found := _PORT.match(pattern)) is None:
        return pattern, ""
    host = found["host"]
    return host.removeprefix("[").removesuffix("]"), found["port"]


def join_port(host: str, port: str) -> str:
    """Hosts in normal form with a port: a number, `*`, or "" for none. Undoes `split_port`."""
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
    """True if the pattern, without a port, names this host. Both in normal form."""
    if pattern == ANY_HOST:
        return True
    if pattern.startswith("**."):
        return host == pattern[3:] or host.endswith(pattern[2:])
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and host != pattern[1:]
    return host == pattern


def is_listed(host: str, patterns: Iterable[str]) -> bool:
    """True if a pattern names this host, whatever the port: for lists that deny or ask."""
    return any(is_match(host, split_port(pattern)[0]) for pattern in patterns)


def is_allowed(host: str, port: int, patterns: Iterable[str]) -> bool:
    """True if a pattern allows this port of this host; one without a port: those of the web."""
    for hosts, ports in map(split_port, patterns):
        fits = port in WEB_PORTS if not ports else ports in (ANY_HOST, str(port))
        if fits and is_match(host, hosts):
            return True
    return False


def is_pattern_within(inner: str, outer: str) -> bool:
    """True if every host of one pattern is a host of the other. Both without ports."""
    if outer == ANY_HOST or inner == outer:
        return True
    if inner == ANY_HOST:
        return False
    if not inner.startswith("*"):
        return is_match(inner, outer)
    if not outer.startswith("*"):
        return False  # one host
    domain = inner.lstrip("*").removeprefix(".")
    if outer.lstrip("*") == f".{domain}":
        return outer.startswith("**.")  # `*.d` within `**.d`, and not the other way about
    return is_match(domain, outer)


def intersect_patterns(one: Iterable[str], other: Iterable[str]) -> tuple[str, ...]:
    """Patterns that allow exactly the hosts and ports which both lists allow."""
    first, second = (tuple(map(split_port, patterns)) for patterns in (one, other))
    kept = [found for a in first for b in second if (found := _narrower(a, b)) is not None]
    kept += [found for b in second for a in first if (found := _narrower(b, a)) is not None]
    return tuple(dict.fromkeys(kept))


def _narrower(inner: tuple[str, str], outer: tuple[str, str]) -> str | None:
    """`inner` with the ports of both, if its hosts lie within the other's; None if nothing is."""
    if not is_pattern_within(inner[0], outer[0]):
        return None
    port = _common_port(inner[1], outer[1])
    return None if port is None else join_port(inner[0], port)


def _common_port(one: str, other: str) -> str | None:
    """The ports that both words allow, as a word; None: there are none."""
    if one == other or other == ANY_HOST:
        return one
    if one == ANY_HOST:
        return other
    named = one or other  # two different numbers, or a number beside the ports of the web
    if one and other:
        return None
    return named if int(named) in WEB_PORTS else None
