"""The normal form of a host in a rule. Pure; raises RuleRefused for what names no single host.

Rule: it is the form in which the proxy asks about a host, or the rule would never match.
"""

from swarm.mailbox import hosts

_NO_HOST = "invalid rule: network_rule host must be a hostname or IP literal"


class RuleRefused(ValueError):
    """A builtin was given something that cannot be; the text is for the file's author."""


def normal_host(raw: str) -> str:
    """Lower case, without port, brackets and trailing dots.

    Raises RuleRefused for a scheme, a path, a wildcard, blanks, or nothing.
    Source: safety sheet 9.2.
    """
    host = raw.strip()
    if any(part in host for part in ("://", "/", "?", "#")):
        raise RuleRefused(f"{_NO_HOST} (without scheme or path)")
    host = _without_port(host, raw).rstrip(".").strip().lower()
    if not host:
        raise RuleRefused("invalid rule: network_rule host cannot be empty")
    if "*" in host:
        raise RuleRefused(
            "invalid rule: network_rule host must be a specific host; wildcards are not allowed"
        )
    if any(sign.isspace() for sign in host):
        raise RuleRefused("invalid rule: network_rule host cannot contain whitespace")
    try:
        return hosts.normal_host(host)
    except hosts.BadHost as error:
        raise RuleRefused(f"{_NO_HOST} (got {host[:100]!r})") from error


def _without_port(host: str, raw: str) -> str:
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
        return inside
    name = host.partition(":")[0]
    return name if name and host.count(":") == 1 and _is_port(host[len(name) :]) else host


def _is_port(text: str) -> bool:
    return text[:1] == ":" and text[1:].isascii() and text[1:].isdigit()
