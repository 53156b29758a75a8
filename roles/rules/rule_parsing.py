"""Checks the arguments of a rule file's calls and converts them to values, without Starlark. Pure.

A host is normalized to the form in which the proxy asks about it; any other would never match.

Everything ambiguous is an error for the file's author; nothing is guessed. Source: Codex
`execpolicy`, for the texts and the order of the checks.
"""

import posixpath
import shlex
from typing import Literal, TypeGuard

from swarm.mailbox.base import host_patterns
from swarm.mailbox.base.host_patterns import split_port
from swarm.mailbox.protocol.rules import (
    HostExecutable,
    NetworkRule,
    PrefixRule,
    RuleDecision,
    RuleSet,
)
from swarm.mailbox.protocol.values.base import Value

from .matching import RuleIndex

_NO_HOST = "invalid rule: network_rule host must be a hostname or IP literal"


class RuleRefused(ValueError):
    """A built-in function got an invalid argument; the text is for the file's author."""


def normalize_rule_host(raw: str) -> str:
    """Lower case, no trailing dots; keeps a port; brackets around an IPv6 address only with a port.

    Raises RuleRefused for a scheme, a path, a wildcard, blanks, an invalid port, or an empty text.
    Source: Codex `execpolicy`, which drops ports.
    """
    host = raw.strip()
    if any(part in host for part in ("://", "/", "?", "#")):
        raise RuleRefused(f"{_NO_HOST} (without scheme or path)")
    host, port = _split_port(host, raw)
    host = host.rstrip(".").strip().lower()
    if not host:
        raise RuleRefused("invalid rule: network_rule host cannot be empty")
    if "*" in host:
        raise RuleRefused(
            "invalid rule: network_rule host must be a specific host; wildcards are not allowed"
        )
    if any(sign.isspace() for sign in host):
        raise RuleRefused("invalid rule: network_rule host cannot contain whitespace")
    try:
        return host_patterns.normalize_pattern(
            host_patterns.join_port(host_patterns.normalize_host(host), port)
        )
    except host_patterns.InvalidHost as error:
        raise RuleRefused(f"{_NO_HOST} (got {host[:100]!r})") from error


def _split_port(host: str, raw: str) -> tuple[str, str]:
    if host.startswith("["):
        inside, closed, rest = host[1:].partition("]")
        if not closed:
            raise RuleRefused(
                "invalid rule: network_rule host has an invalid bracketed IPv6 literal"
            )
        if rest and not _is_port(rest):
            raise RuleRefused(
                f"invalid rule: network_rule host contains an unsupported suffix: {raw}"
            )
        return inside, rest[1:]
    name = host.partition(":")[0]
    if name and host.count(":") == 1 and _is_port(host[len(name) :]):
        return name, host[len(name) + 1 :]
    return host, ""


def _is_port(text: str) -> bool:
    return text[:1] == ":" and text[1:].isascii() and text[1:].isdigit()


Words = tuple[str, ...]
NetworkProtocol = Literal["http", "https", "socks5_tcp", "socks5_udp"]
_DECISIONS: dict[str, RuleDecision] = {
    "allow": "allow", "prompt": "prompt", "forbidden": "forbidden",
}  # fmt: skip
_PROTOCOLS: dict[str, NetworkProtocol] = {
    "http": "http",
    "https": "https",
    "https_connect": "https",
    "http-connect": "https",
    "socks5_tcp": "socks5_tcp",
    "socks5_udp": "socks5_udp",
}


class RuleExamples(Value):
    """The examples of one `prefix_rule` call; checked after the whole file is read."""

    rule: PrefixRule
    matching: tuple[Words, ...] = ()
    not_matching: tuple[Words, ...] = ()
    line: int | None = None


def read_prefix_rule(
    pattern: object, decision: object, justification: object, *, reach: tuple[object, object]
) -> PrefixRule:
    """Convert the arguments of `prefix_rule`; `reach`: `exact` and `unconfined`.

    Raises RuleRefused.
    """
    decided = "allow" if decision is None else _decision(decision)
    exact, unconfined = _flag(reach[0], "exact"), _flag(reach[1], "unconfined")
    if unconfined and decided != "allow":
        raise RuleRefused('invalid rule: unconfined is for decision="allow" alone')
    return PrefixRule(
        pattern=_pattern(pattern),
        decision=decided,
        justification=_justification(justification),
        exact=exact,
        unconfined=unconfined,
    )


def _flag(given: object, name: str) -> bool:
    if given is None or isinstance(given, bool):
        return bool(given)
    raise RuleRefused(f"invalid rule: {name} must be True or False (got {_kind(given)})")


def read_examples(given: object, name: str) -> tuple[Words, ...]:
    """Commands as text, split as a shell would, or as lists of words. Raises RuleRefused."""
    if given is None:
        return ()
    if not is_list(given):
        raise RuleRefused(f"invalid example: {name} must be a list (got {_kind(given)})")
    return tuple(_example(one) for one in given)


def read_network_rule(
    host: object, protocol: object, decision: object, justification: object
) -> NetworkRule:
    """Convert the arguments of `network_rule`. Raises RuleRefused."""
    wanted = _text(protocol, "network_rule protocol")
    if wanted not in _PROTOCOLS:
        raise RuleRefused(
            "invalid rule: network_rule protocol must be one of http, https, socks5_tcp, "
            f"socks5_udp (got {_cut(wanted)})"
        )
    decided = "forbidden" if decision == "deny" else _decision(decision)
    name = normalize_rule_host(_text(host, "network_rule host"))
    if decided != "allow":
        name, _ = split_port(name)  # denials and prompts apply to every port
    why = _justification(justification)
    return NetworkRule(
        host=name,
        protocol=_PROTOCOLS[wanted],
        decision="deny" if decided == "forbidden" else decided,
        justification=why,
    )


def read_host_executable(name: object, paths: object) -> HostExecutable:
    """Convert the arguments of `host_executable`. Raises RuleRefused."""
    bare = _text(name, "host_executable name")
    if not bare:
        raise RuleRefused("invalid rule: host_executable name cannot be empty")
    if "/" in bare or bare in (".", ".."):
        raise RuleRefused(
            f"invalid rule: host_executable name must be a bare executable name (got {_cut(bare)})"
        )
    if not is_list(paths):
        raise RuleRefused(
            f"invalid rule: host_executable paths must be a list (got {_kind(paths)})"
        )
    listed: list[str] = []
    for raw in paths:
        path = _text(raw, "host_executable paths")
        if not path.startswith("/"):
            raise RuleRefused(
                f"invalid rule: host_executable paths must be absolute (got {_cut(path)})"
            )
        if posixpath.basename(path) != bare:
            raise RuleRefused(
                f"invalid rule: host_executable path `{_cut(path)}` must have basename `{bare}`"
            )
        listed.append(path)
    return HostExecutable(name=bare, paths=tuple(dict.fromkeys(listed)))


def check_examples(examples: RuleExamples, executables: tuple[HostExecutable, ...]) -> None:
    """Check `not_match` first, with host executables resolved. Raises RuleRefused."""
    index = RuleIndex(RuleSet(prefixes=(examples.rule,), executables=executables))
    for words in examples.not_matching:
        if index.find(words, resolve=True):
            raise RuleRefused(
                f"expected example to not match rule `{show_rule(examples.rule)}`: "
                f"{_cut(shlex.join(words))}"
            )
    unmatched = [
        _cut(shlex.join(words))
        for words in examples.matching
        if not index.find(words, resolve=True)
    ]
    if unmatched:
        raise RuleRefused(
            "expected every example to match at least one rule. rules: "
            f"[{show_rule(examples.rule)}]; unmatched examples: [{', '.join(unmatched[:10])}]"
        )


def show_rule(rule: PrefixRule) -> str:
    """The rule as its author would write it, in one line of limited length."""
    places = [
        shlex.quote(place[0]) if len(place) == 1 else f"({'|'.join(map(shlex.quote, place))})"
        for place in rule.pattern
    ]
    return _cut(f"{rule.decision}: {' '.join(places)}")


def is_list(value: object) -> TypeGuard[list[object]]:
    """True for a list. (With `isinstance` alone a type checker does not know its contents.)"""
    return isinstance(value, list)


def _pattern(given: object) -> tuple[Words, ...]:
    if not is_list(given):
        raise RuleRefused(f"invalid pattern element: pattern must be a list (got {_kind(given)})")
    if not given:
        raise RuleRefused("invalid pattern element: pattern cannot be empty")
    return tuple(_pattern_element(element) for element in given)


def _pattern_element(element: object) -> Words:
    if isinstance(element, str):
        return (element,)
    if not is_list(element):
        raise RuleRefused(
            "invalid pattern element: pattern element must be a string or list of strings "
            f"(got {_kind(element)})"
        )
    if not element:
        raise RuleRefused("invalid pattern element: pattern alternatives cannot be empty")
    return _strings(element, "invalid pattern element: pattern alternative must be a string")


def _strings(values: list[object], problem: str) -> Words:
    for value in values:
        if not isinstance(value, str):
            raise RuleRefused(f"{problem} (got {_kind(value)})")
    return tuple(str(value) for value in values)


def _example(given: object) -> Words:
    if isinstance(given, str):
        try:
            words = tuple(shlex.split(given))
        except ValueError as error:
            raise RuleRefused("invalid example: example string has invalid shell syntax") from error
        if not words:
            raise RuleRefused("invalid example: example cannot be an empty string")
        return words
    if not is_list(given):
        raise RuleRefused(
            f"invalid example: example must be a string or list of strings (got {_kind(given)})"
        )
    words = _strings(given, "invalid example: example tokens must be strings")
    if not words:
        raise RuleRefused("invalid example: example cannot be an empty list")
    return words


def _decision(given: object) -> RuleDecision:
    if isinstance(given, str) and given in _DECISIONS:
        return _DECISIONS[given]
    raise RuleRefused(f"invalid decision: {_cut(str(given))}")


def _justification(given: object) -> str | None:
    if given is None:
        return None
    text = _text(given, "justification")
    if not text.strip():
        raise RuleRefused("invalid rule: justification cannot be empty")
    return text


def _text(given: object, what: str) -> str:
    if isinstance(given, str):
        return given
    raise RuleRefused(f"invalid rule: {what} must be a string (got {_kind(given)})")


def _kind(value: object) -> str:
    """The type's name as authors of rule files know it."""
    return "string" if isinstance(value, str) else type(value).__name__


def _cut(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]}…"
