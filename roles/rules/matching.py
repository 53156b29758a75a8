"""Which rules speak about a command. Pure, and fast: rules lie in a table by their first token.

An exact first token is looked up first. Only when nothing matched, the program is an absolute path
and the caller wants it, its bare name is tried, provided that a `host_executable` of this name, if
there is one, lists the path.

Source: execpolicy, safety sheet 9.3.
"""

from collections.abc import Iterator, Sequence

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.rules import PrefixRule, RuleDecision, RuleSet

SEVERITY: dict[RuleDecision, int] = {"allow": 0, "prompt": 1, "forbidden": 2}


class MatchedRule(Value):
    """One rule that matches."""

    at: int  # its place in `Rules.prefixes`
    rule: PrefixRule
    matched_prefix: tuple[str, ...]
    resolved_program: str | None = None  # the path, where the rule named the program bare


class RuleIndex:
    """The rules of one `Rules`, made ready for many look-ups."""

    def __init__(self, rules: RuleSet) -> None:
        self._by_head: dict[str, list[tuple[int, PrefixRule]]] = {}
        for at, rule in enumerate(rules.prefixes):
            for head in dict.fromkeys(rule.pattern[0]):
                self._by_head.setdefault(head, []).append((at, rule))
        self._paths = {one.name: frozenset(one.paths) for one in rules.executables}

    def find(self, words: Sequence[str], *, resolve: bool) -> tuple[MatchedRule, ...]:
        """Every rule that the words begin with, in the order of definition."""
        if not words:
            return ()
        found = tuple(self._matches_at_head(words[0], words, None))
        if found or not resolve or not words[0].startswith("/"):
            return found
        name = words[0].rpartition("/")[2]
        listed = self._paths.get(name)
        if not name or (listed is not None and words[0] not in listed):
            return ()
        return tuple(self._matches_at_head(name, words, words[0]))

    def is_listed(self, path: str) -> bool:
        """Whether a `host_executable` names this path."""
        return path in self._paths.get(path.rpartition("/")[2], ())

    def _matches_at_head(
        self, head: str, words: Sequence[str], program: str | None
    ) -> Iterator[MatchedRule]:
        for at, rule in self._by_head.get(head, ()):
            length = len(rule.pattern)
            if length <= len(words) and all(
                word in allowed
                for word, allowed in zip(words[1:length], rule.pattern[1:], strict=True)
            ):
                matched = (head, *words[1:length])
                yield MatchedRule(
                    at=at, rule=rule, matched_prefix=matched, resolved_program=program
                )


def strictest(decisions: Sequence[RuleDecision]) -> RuleDecision | None:
    """forbidden over prompt over allow; None without any."""
    return max(decisions, key=SEVERITY.__getitem__, default=None)
