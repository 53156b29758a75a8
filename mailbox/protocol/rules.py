"""Rules about commands and hosts, as read from `.rules` files. Values only.

Source: execpolicy, safety sheet 9. Rules are read once, by the supervisor; agents get them with
their spec, and are told of what a person allows for ever while they live.
"""

from typing import Literal

import msgspec

from .base import Value

RuleDecision = Literal["allow", "prompt", "forbidden"]


class PrefixRule(Value):
    """Matches words that begin with one of the alternatives at each place."""

    pattern: tuple[tuple[str, ...], ...]  # never empty, nor any place of it
    decision: RuleDecision = "allow"
    justification: str | None = None


class HostExecutable(Value):
    """Where a program of this bare name may lie, for rules that name it bare."""

    name: str
    paths: tuple[str, ...]  # absolute


class NetworkRule(Value):
    """For the proxy alone; no command is judged by it."""

    host: str  # normal form: lower case; a port is named only where it is not any
    protocol: Literal["http", "https", "socks5_tcp", "socks5_udp"]
    decision: Literal["allow", "prompt", "deny"]
    justification: str | None = None


class RuleSet(Value):
    """All files together, in order. `broken`: a file could not be read, so nothing is known."""

    prefixes: tuple[PrefixRule, ...] = ()
    executables: tuple[HostExecutable, ...] = ()
    network: tuple[NetworkRule, ...] = ()
    broken: str = ""  # what is wrong, with file and line; "" = nothing

    def allowing(self, prefix: tuple[str, ...]) -> "RuleSet":
        """With a rule that allows commands that begin with these words; the same if it is there."""
        rule = PrefixRule(pattern=tuple((word,) for word in prefix))
        if not prefix or rule in self.prefixes:
            return self
        return msgspec.structs.replace(self, prefixes=(*self.prefixes, rule))
