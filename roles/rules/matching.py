"""Finds the rules that match a command, in a table by first token; names too broad prefixes. Pure.

The exact first token is looked up first. If nothing matched, the program is an absolute path and
the caller asks for it, the bare name is tried. If a `host_executable` of that name exists, it must
list the path.

Source: Codex `execpolicy`.
"""

from collections.abc import Iterator, Sequence

from swarm.mailbox.protocol.rules import PrefixRule, RuleDecision, RuleSet
from swarm.mailbox.protocol.values.base import Value

SEVERITY: dict[RuleDecision, int] = {"allow": 0, "prompt": 1, "forbidden": 2}


class MatchedRule(Value):
    at: int  # its index in `RuleSet.prefixes`
    rule: PrefixRule
    matched_prefix: tuple[str, ...]
    resolved_program: str | None = None  # the path, if the rule has the bare name


class RuleIndex:
    """An index over one `RuleSet`, for many look-ups."""

    def __init__(self, rules: RuleSet) -> None:
        self._by_head: dict[str, list[tuple[int, PrefixRule]]] = {}
        for at, rule in enumerate(rules.prefixes):
            for head in dict.fromkeys(rule.pattern[0]):
                self._by_head.setdefault(head, []).append((at, rule))
        self._paths = {one.name: frozenset(one.paths) for one in rules.executables}

    def find(self, words: Sequence[str], *, resolve: bool) -> tuple[MatchedRule, ...]:
        """Every rule that matches the start of the words, in the order of definition."""
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
        """True if a `host_executable` lists this path."""
        return path in self._paths.get(path.rpartition("/")[2], ())

    def _matches_at_head(
        self, head: str, words: Sequence[str], program: str | None
    ) -> Iterator[MatchedRule]:
        for at, rule in self._by_head.get(head, ()):
            length = len(rule.pattern)
            fits = length == len(words) if rule.exact else length <= len(words)
            if fits and all(
                word in allowed
                for word, allowed in zip(words[1:length], rule.pattern[1:], strict=True)
            ):
                matched = (head, *words[1:length])
                yield MatchedRule(
                    at=at, rule=rule, matched_prefix=matched, resolved_program=program
                )


def strictest(decisions: Sequence[RuleDecision]) -> RuleDecision | None:
    """forbidden over prompt over allow; None if there are none."""
    return max(decisions, key=SEVERITY.__getitem__, default=None)


# Prefixes too broad for a saved rule. Only the exact prefix is banned: `git pull` may be saved.
_BANNED_PROGRAMS = ("pythonw", "pyw", "pypy", "pypy3", "git", "env", "sudo", "osascript")
_BANNED_FLAGS = {
    "python3": ("", "-", "-c"),
    "python": ("", "-", "-c"),
    "py": ("", "-3"),
    "bash": ("", "-lc"),
    "sh": ("", "-c", "-lc"),
    "zsh": ("", "-lc"),
    "/bin/zsh": ("", "-lc"),
    "/bin/bash": ("", "-lc"),
    "pwsh": ("", "-Command", "-c"),
    "powershell": ("", "-Command", "-c"),
    "powershell.exe": ("", "-Command", "-c"),
    "node": ("", "-e"),
    "perl": ("", "-e"),
    "ruby": ("", "-e"),
    "php": ("", "-r"),
    "lua": ("", "-e"),
}
BANNED_PREFIXES = frozenset(
    {(name,) for name in _BANNED_PROGRAMS}
    | {(name, flag) if flag else (name,) for name, flags in _BANNED_FLAGS.items() for flag in flags}
)


def is_banned(prefix: Sequence[str]) -> bool:
    """True if a rule that allows exactly this prefix would allow nearly anything."""
    return tuple(prefix) in BANNED_PREFIXES
