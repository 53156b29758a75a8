"""Hosts and the patterns that name them: normal form, matching, and what two lists both allow.

Guards: a pattern or host that cannot be read is an error, never a pattern that matches nothing. Of
two patterns one contains the other or they have nothing in common; `intersect_patterns` relies on
it. Pure.

Source: Codex's domain patterns, safety sheet 11.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address

from .errors import UsageError

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_PORT = re.compile(r"(?P<host>[^:\[\]]*|\[[^\[\]]*\]):[0-9]{1,5}\Z")
_MOST_HOST_CHARACTERS = 253
ANY = "*"
UNSUPPORTED_WILDCARD = (
    'unsupported global wildcard domain pattern "*"; use exact hosts or scoped wildcards like '
    "*.example.com or **.example.com"
)


class BadHost(UsageError):
    """A host or pattern that nobody can connect to; the text names it."""


def normal_host(text: str) -> str:
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
    if len(host) > _MOST_HOST_CHARACTERS or not all(map(_LABEL.match, host.split("."))):
        raise BadHost(f"not a host name: {text[:_MOST_HOST_CHARACTERS]!r}")
    return host


def normal_pattern(text: str, *, denies: bool = False) -> str:
    """A pattern in normal form: `host`, `*.domain`, `**.domain`, or `*` (only to allow).

    Raises BadHost with the pattern and what is wrong with it.
    """
    pattern = text.strip()
    if pattern == ANY:
        if denies:
            raise BadHost(UNSUPPORTED_WILDCARD)
        return ANY
    marker = next((mark for mark in ("**.", "*.") if pattern.startswith(mark)), "")
    rest = pattern.removeprefix(marker)
    if found := _PORT.match(rest):
        rest = found["host"]
    try:
        host = normal_host(rest)
    except BadHost as error:
        raise BadHost(f"not a domain pattern: {text[:_MOST_HOST_CHARACTERS]!r}") from error
    if marker and is_address(host):
        raise BadHost(f"an address has no subdomains: {text!r}")
    return marker + host


def is_address(host: str) -> bool:
    """True for an IP address in normal form."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_match(host: str, pattern: str) -> bool:
    """True if the pattern names this host. Both in normal form."""
    if pattern == ANY:
        return True
    if pattern.startswith("**."):
        return host == pattern[3:] or host.endswith(pattern[2:])
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and host != pattern[1:]
    return host == pattern


def is_listed(host: str, patterns: Iterable[str]) -> bool:
    """True if any of the patterns names this host."""
    return any(is_match(host, pattern) for pattern in patterns)


def is_within(inner: str, outer: str) -> bool:
    """True if every host of one pattern is a host of the other."""
    if outer == ANY or inner == outer:
        return True
    if inner == ANY:
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
    """Patterns that name exactly the hosts which both lists name."""
    first, second = tuple(one), tuple(other)
    kept = [pattern for pattern in first if any(is_within(pattern, wide) for wide in second)]
    kept += [pattern for pattern in second if any(is_within(pattern, wide) for wide in first)]
    return tuple(dict.fromkeys(kept))
