"""Matching rules to words: exact first, then by bare name; the strictest wins; what may be kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.rules import HostExecutable, PrefixRule, RuleSet
from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.roles.rules.matching import BANNED_PREFIXES, RuleIndex
from swarm.worker.policy.command_decision import Refuse, Run, decide_command
from swarm.worker.policy.command_facts import RuleMatch, gather_facts
from swarm.worker.policy.rule_matching import match_rules, propose_prefix, rule_matcher


def rule(text, decision="allow", why=None) -> PrefixRule:
    """`git pull|fetch` → git, then either."""
    pattern = tuple(tuple(place.split("|")) for place in text.split())
    return PrefixRule(pattern=pattern, decision=decision, justification=why)


def rules(*prefixes, **paths) -> RuleSet:
    executables = tuple(HostExecutable(name=name, paths=tuple(p)) for name, p in paths.items())
    return RuleSet(prefixes=prefixes, executables=executables)


GIT = rules(rule("git pull|fetch"), rule("git push", "prompt", "others see it"), rule("rm|dd x"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("git pull", ["git pull"]),
        ("git fetch --all", ["git fetch"]),
        ("git", []),
        ("git status", []),
        ("git -C x pull", []),
        ("Git pull", []),
        ("dd x y", ["dd x"]),
        ("/usr/bin/git pull", ["git pull"]),
        ("./git pull", []),
        ("bin/git pull", []),
        ("/tmp/git pull", []),
        ("/tmp/git push", ["git push"]),
        ("/", []),
        ("/usr/bin/", []),
        ("", []),
    ],
)
def test_a_rule_speaks_about_words_that_begin_with_it(words, expected):
    found = match_rules(GIT, tuple(words.split()))
    assert [" ".join(one.matched_prefix) for one in found] == expected


def test_a_match_carries_all_that_is_shown():
    assert match_rules(GIT, ("/opt/x/git", "push", "-f")) == (
        RuleMatch(
            decision="prompt",
            matched_prefix=("git", "push"),
            justification="others see it",
        ),
    )


def test_rules_come_in_the_order_of_definition():
    many = rules(rule("a b", "forbidden"), rule("a"), rule("a b c", "prompt"))
    found = match_rules(many, ("a", "b", "c"))
    assert [one.decision for one in found] == ["forbidden", "allow", "prompt"]


def test_a_rule_for_the_path_itself_hides_those_for_the_name():
    both = rules(rule("git", "forbidden"), rule("/usr/bin/git pull"))
    assert [one.decision for one in match_rules(both, ("/usr/bin/git", "pull"))] == ["allow"]
    assert [one.decision for one in match_rules(both, ("/usr/bin/git", "x"))] == ["forbidden"]


def test_a_listed_executable_is_the_only_one_of_its_name():
    listed = rules(rule("git"), rule("git", "prompt"), git=["/opt/git/bin/git"])
    assert len(match_rules(listed, ("/opt/git/bin/git",))) == 2
    assert match_rules(listed, ("/usr/bin/git",)) == ()
    assert len(match_rules(listed, ("git",))) == 2


def test_an_allowed_name_is_not_allowed_from_a_folder_that_is_nobodys():
    """The rule language alone would say so; an agent could have written the program."""
    assert len(RuleIndex(GIT).find(("/tmp/git", "pull"), resolve=True)) == 1
    assert match_rules(GIT, ("/tmp/git", "pull")) == ()


def test_nothing_is_resolved_unless_it_is_asked_for():
    assert RuleIndex(GIT).find(("/usr/bin/git", "pull"), resolve=False) == ()


TOKENS = st.sampled_from(["a", "b", "c", "/bin/a", "/tmp/a"])
WORDS = st.lists(TOKENS, min_size=1, max_size=4).map(tuple)
PREFIXES = st.builds(
    PrefixRule,
    pattern=st.lists(
        st.lists(TOKENS, min_size=1, max_size=2).map(tuple), min_size=1, max_size=3
    ).map(tuple),
    decision=st.sampled_from(["allow", "prompt", "forbidden"]),
)
STRICT = {"allow": 0, "prompt": 1, "forbidden": 2}


def fits(one: PrefixRule, words) -> bool:
    return len(one.pattern) <= len(words) and all(
        word in place for word, place in zip(words, one.pattern, strict=False)
    )


@given(st.lists(PREFIXES, max_size=6), WORDS)
def test_the_table_finds_exactly_what_reading_every_rule_would_find(prefixes, words):
    found = RuleIndex(rules(*prefixes)).find(words, resolve=False)
    assert [one.at for one in found] == [n for n, one in enumerate(prefixes) if fits(one, words)]
    assert all(one.matched_prefix == words[: len(one.rule.pattern)] for one in found)


@given(st.lists(PREFIXES, max_size=5), PREFIXES, WORDS)
def test_one_more_rule_never_makes_matched_words_freer(prefixes, more, words):
    """Words by their own first token; a rule for a path hides those for its bare name."""
    before = RuleIndex(rules(*prefixes)).find(words, resolve=False)
    after = RuleIndex(rules(*prefixes, more)).find(words, resolve=False)
    strictest = [max((STRICT[one.rule.decision] for one in f), default=-1) for f in (before, after)]
    assert strictest[1] >= strictest[0]


@given(st.lists(PREFIXES, max_size=5), WORDS)
def test_a_forbidden_command_never_runs_whatever_else_is_allowed(prefixes, words):
    matcher = rule_matcher(rules(*prefixes))
    facts = gather_facts(words, Limits(sandbox=WorkspaceWrite()), match_rules=matcher)
    forbidden = any(one.decision == "forbidden" for one in facts.commands[0].rules)
    verdict = decide_command(facts)
    assert isinstance(verdict, Refuse) == forbidden
    if isinstance(verdict, Run) and not verdict.sandboxed:
        assert {one.decision for one in facts.commands[0].rules} == {"allow"}


def proposal(script, asked="", given=rules(), *, shell="bash"):  # noqa: B008
    argv = [shell, "-c", script]
    facts = gather_facts(argv, Limits(approval="untrusted"), match_rules=rule_matcher(given))
    kept = propose_prefix(facts, tuple(asked.split()), needs_asking=lambda one: not one.is_safe)
    return " ".join(kept)


@pytest.mark.parametrize(
    ("script", "asked", "expected"),
    [
        ("touch /x", "", "touch /x"),
        ("touch /x", "touch", "touch /x"),
        ("grep -r x", "grep", "grep"),
        ("git pull", "git", "git pull"),
        ("git pull origin", "git pull", "git pull origin"),
        ("git log -3", "git log", "git log"),
        ("make all", "make test", "make all"),
        ("ls && make", "make", "make"),
        ("make && npm ci", "make", ""),
        ("make && npm ci", "npm", ""),
        ("make && make test", "make", ""),
        ("ls", "", "ls"),
        ("ls && pwd", "", "ls"),
        ("python3 -c 'x'", "python3 -c", "python3 -c x"),
        ("cat <<EOF\nx\nEOF", "", ""),
        ("cat <<EOF\nx\nEOF", "cat", "cat"),
        ("python3", "", ""),
        ("make 'a\nb'", "", ""),
    ],
)
def test_a_prefix_is_proposed_that_would_settle_the_question(script, asked, expected):
    assert proposal(script, asked) == expected


def test_a_command_with_a_rule_gets_no_proposal_that_the_rule_would_defeat():
    assert proposal("git push", "git push", GIT) == ""
    assert proposal("git pull && make", "make", GIT) == "make"


def test_what_an_unknown_shell_would_run_is_never_remembered():
    assert proposal("make", "make", shell="/tmp/bash") == ""


@given(st.sampled_from(sorted(BANNED_PREFIXES)), WORDS)
def test_a_banned_prefix_is_never_proposed(prefix, words):
    facts = gather_facts((*prefix,), Limits(approval="untrusted"))
    for asked in (prefix, words):
        assert propose_prefix(facts, asked, needs_asking=lambda one: True) not in BANNED_PREFIXES
