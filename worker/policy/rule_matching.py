"""What the run's rules say about one command, and which prefix the user could remember. No I/O.

A rule that names a program without a path allows it only in the system's program folders, or where
a `host_executable` lists it: `/tmp/x/git push` is not `git push`. To forbid or ask, such a rule
matches everywhere.

Source: Codex's execpolicy; stricter as said above.
"""

from collections.abc import Callable

from swarm.mailbox.protocol.rules import RuleSet
from swarm.roles.rules.matching import MatchedRule, RuleIndex, is_banned
from swarm.roles.rules.program_effects import leaves_open

from .command_facts import CommandFacts, MatchRules, PolicyCommand, RuleMatch
from .safe_commands import is_system_program
from .shell_parser import Words

MAX_PREFIX_WORDS = 64
MAX_PREFIX_BYTES = 4096


class _IndexCache:
    """The index of the last rules used: an agent has only one `RuleSet` at a time."""

    rules: RuleSet | None = None
    index = RuleIndex(RuleSet())


def match_rules(rules: RuleSet, words: Words) -> tuple[RuleMatch, ...]:
    """Every rule that matches these words, in the order of definition."""
    return tuple(
        RuleMatch(
            decision=found.rule.decision,
            matched_prefix=found.matched_prefix,
            justification=found.rule.justification,
            unconfined=found.rule.unconfined,
        )
        for found in find_rules(rules, words)
    )


def find_rules(rules: RuleSet, words: Words) -> tuple[MatchedRule, ...]:
    """The same with each rule's position in `rules.prefixes`."""
    index = _index_of(rules)
    return tuple(
        found
        for found in index.find(words, resolve=True)
        if found.resolved_program is None
        or found.rule.decision != "allow"
        or index.is_listed(found.resolved_program)
        or is_system_program(found.resolved_program)
    )


def rule_matcher(rules: RuleSet) -> MatchRules:
    """`match_rules` for these rules, as `gather_facts` takes it."""
    return lambda words: match_rules(rules, words)


def propose_prefix(
    facts: CommandFacts, asked: Words = (), *, needs_asking: Callable[[PolicyCommand], bool]
) -> Words:
    """The words that the user may choose to have remembered as allowed; () for none.

    Args:
        facts: The facts of the command that needs an approval.
        asked: The model's own `prefix_rule`.
        needs_asking: Whether the heuristic (no rule) would ask about a command.

    A command that a rule matches gets no proposal that its rule would defeat, and a line of several
    commands none that would leave it to be asked about again.
    """
    by_rule = any(match.decision != "allow" for one in facts.commands for match in one.rules)
    if by_rule or not facts.shell_is_known:
        return ()
    unruled = all(not one.rules for one in facts.commands)
    asked = asked if asked and (leaves_open(asked) or _is_whole(facts, asked)) else ()
    if asked and unruled and _is_rememberable(asked) and _settles(facts, asked, needs_asking):
        return asked
    if facts.is_complex:
        return ()
    waiting = [one for one in facts.commands if not one.rules]
    first = next((one for one in waiting if needs_asking(one)), None)
    chosen = first or next(iter(waiting), None)
    if chosen is None or not _is_rememberable(chosen.words):
        return ()
    return chosen.words if _settles(facts, chosen.words, needs_asking) else ()


def _settles(
    facts: CommandFacts, asked: Words, needs_asking: Callable[[PolicyCommand], bool]
) -> bool:
    """Whether a rule that allows `asked` would leave nothing to ask about this command.

    Commands with rules are allowed by them here.
    """
    return all(
        one.rules or _fits(one.words, asked) or not needs_asking(one) for one in facts.commands
    )


def _fits(words: Words, asked: Words) -> bool:
    return words[: len(asked)] == asked if leaves_open(asked) else words == asked


def _is_whole(facts: CommandFacts, asked: Words) -> bool:
    """Whether these words are a whole command of it, so that a rule for them can be exact."""
    return any(one.words == asked for one in facts.commands)


def _is_rememberable(prefix: Words) -> bool:
    return (
        len(prefix) <= MAX_PREFIX_WORDS
        and sum(len(word.encode("utf-8", "surrogatepass")) for word in prefix) <= MAX_PREFIX_BYTES
        and all(word.isprintable() for word in prefix)
        and bool(prefix[0])
        and not is_banned(prefix)
    )


def _index_of(rules: RuleSet) -> RuleIndex:
    if _IndexCache.rules is not rules:
        _IndexCache.rules, _IndexCache.index = rules, RuleIndex(rules)
    return _IndexCache.index
