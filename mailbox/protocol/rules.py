"""Command and network rules, as read from `.rules` files. Values only.

Source: Codex's execpolicy. The supervisor reads the rules once. Agents receive them with
their spec, and later the rules that a person adds permanently.
"""

from typing import Literal

import msgspec

from .values.base import Value

RuleDecision = Literal["allow", "prompt", "forbidden"]


class PrefixRule(Value):
    """Matches commands whose first words are each one of the alternatives at that place."""

    pattern: tuple[tuple[str, ...], ...]  # neither empty nor with an empty place
    decision: RuleDecision = "allow"
    justification: str | None = None
    exact: bool = False  # matches these words alone, and nothing that begins with them
    # An allowed command also leaves the sandbox where its further words write or run something,
    # or where it runs code of the project.
    unconfined: bool = False


class HostExecutable(Value):
    """Where a program of this bare name may be, for rules that use the bare name."""

    name: str
    paths: tuple[str, ...]  # absolute


class NetworkRule(Value):
    """For the proxy only; commands are not judged by it."""

    host: str  # normal form: lower case; a port only if the rule is for one port
    protocol: Literal["http", "https", "socks5_tcp", "socks5_udp"]
    decision: Literal["allow", "prompt", "deny"]
    justification: str | None = None


class RuleSet(Value):
    """The rules of all files, in order. `broken`: a file could not be read, so no rule is known."""

    prefixes: tuple[PrefixRule, ...] = ()
    executables: tuple[HostExecutable, ...] = ()
    network: tuple[NetworkRule, ...] = ()
    broken: str = ""  # the error, with file and line; "" = none

    def allowing(self, prefix: tuple[str, ...], *, exact: bool = False) -> "RuleSet":
        """The rules plus one that allows commands with this prefix; unchanged if it exists."""
        rule = PrefixRule(pattern=tuple((word,) for word in prefix), exact=exact)
        if not prefix or rule in self.prefixes:
            return self
        return msgspec.structs.replace(self, prefixes=(*self.prefixes, rule))
