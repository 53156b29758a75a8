"""The normal form of a host in a rule, with an optional port. Pure.

It is the form in which the proxy asks about a host; any other form would never match.
"""

from swarm.mailbox import host_patterns

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
