"""What narrows or bounds the decision: granular questions, broken rules, locked roles, grants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.approvals import CommandAction, ExtraPermissions
from swarm.mailbox.protocol.requests import Decided
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    Granular,
    Limits,
    ReadOnly,
    WorkspaceWrite,
)
from swarm.worker.policy.approval_offers import (
    RETRY_REASON,
    canonical_command,
    command_key,
    decide_retry,
    patch_keys,
)
from swarm.worker.policy.command_decision import (
    NEVER_ASKS,
    NO_RULE_QUESTIONS,
    NO_SANDBOX_QUESTIONS,
    OUTSIDE_PROJECT,
    READ_ONLY,
    ROLE_LOCKED,
    Ask,
    Refuse,
    Run,
    decide_command,
    decide_patch,
)
from swarm.worker.policy.command_facts import (
    AgentStanding,
    EscalationRequest,
    PatchFacts,
    RuleMatch,
    gather_facts,
)
from swarm.worker.policy.permission_sets import covers, intersection, is_empty, union

POLICIES = ("untrusted", "on-failure", "on-request", "never")
BOUND, FULL = WorkspaceWrite(), DangerFullAccess()
WRITE_O = ExtraPermissions(write=("/o",))
ESCALATE = EscalationRequest(permissions="require_escalated", justification="May I?")
MORE = EscalationRequest(permissions="with_additional_permissions", extra=WRITE_O)
GRANTED = EscalationRequest(
    permissions="with_additional_permissions", extra=WRITE_O, pre_approved=True
)
ALL = Granular()
NO_SANDBOX, NO_RULES = Granular(sandbox_approval=False), Granular(rules=False)


def rule(decision) -> RuleMatch:
    return RuleMatch(decision=decision, matched_prefix=("make",))


def facts(command, *, approval="on-request", granular=None, sandbox=BOUND, **more):
    words = command.split() if isinstance(command, str) else command
    limits = Limits(approval=approval, sandbox=sandbox, granular=granular)
    rules = more.get("rules", ())
    return gather_facts(
        words,
        limits,
        more.get("escalation"),
        match_rules=lambda _: tuple(rules),
        standing=more.get("standing"),
    )


def word(verdict) -> str:
    match verdict:
        case Run():
            return "run" if verdict.sandboxed else "free"
        case Ask():
            return "ask" if verdict.then.sandboxed else "ask-free"
        case Refuse():
            return verdict.reason


@pytest.mark.parametrize(
    # command, sandbox, escalation, rules → all questions, no sandbox questions, no rule questions
    ("command", "sandbox", "escalation", "rules", "row"),
    [
        ("ls", BOUND, None, (), ("run", "run", "run")),
        ("make", BOUND, None, (), ("run", "run", "run")),
        ("make", FULL, None, (), ("free", "free", "free")),
        ("rm -rf x", BOUND, None, (), ("ask", NO_SANDBOX_QUESTIONS, "ask")),
        ("rm -rf x", FULL, None, (), ("ask-free", NO_SANDBOX_QUESTIONS, "ask-free")),
        ("make", BOUND, ESCALATE, (), ("ask-free", NO_SANDBOX_QUESTIONS, "ask-free")),
        ("make", BOUND, MORE, (), ("ask", NO_SANDBOX_QUESTIONS, "ask")),
        ("make", BOUND, GRANTED, (), ("run", "run", "run")),
        ("make", BOUND, None, ("allow",), ("free", "free", "free")),
        ("make", BOUND, None, ("prompt",), ("ask", "ask", NO_RULE_QUESTIONS)),
        ("make", BOUND, ESCALATE, ("prompt",), ("ask-free", "ask-free", NO_RULE_QUESTIONS)),
    ],
)
def test_granular_refuses_unasked_what_it_does_not_let_through(
    command, sandbox, escalation, rules, row
):
    matches = [rule(one) for one in rules]
    found = tuple(
        word(
            decide_command(
                facts(
                    command,
                    sandbox=sandbox,
                    escalation=escalation,
                    rules=matches,
                    granular=granular,
                )
            )
        )
        for granular in (ALL, NO_SANDBOX, NO_RULES)
    )
    assert found == row


@pytest.mark.parametrize(
    ("sandbox", "outside", "row"),
    [
        (BOUND, (), ("run", "run")),
        (BOUND, ("/x",), ("ask-free", f"patch rejected: {OUTSIDE_PROJECT}")),
        (ReadOnly(), ("/x",), ("ask-free", f"patch rejected: {READ_ONLY}")),
        (FULL, ("/x",), ("free", "free")),
    ],
)
def test_granular_holds_for_patches(sandbox, outside, row):
    found = tuple(
        word(
            decide_patch(
                PatchFacts(
                    paths=("/w/a", *outside), outside=outside, sandbox=sandbox, granular=granular
                )
            )
        )
        for granular in (ALL, NO_SANDBOX)
    )
    assert found == row


@pytest.mark.parametrize(
    ("command", "rules", "row"),
    [
        ("ls", (), "ask run run run"),
        ("make", (), "ask ask ask no"),
        ("rm -rf x", (), "ask ask ask no"),
        ("make", ("allow",), "ask ask ask no"),
        ("make", ("forbidden",), "no no no no"),
        (["bash", "-c", "ls $X"], (), "ask ask ask no"),
    ],
)
def test_rules_that_cannot_be_read_are_not_taken_for_no_rules(command, rules, row):
    standing = AgentStanding(rules_broken="/r/a.rules:3: bad")
    matches = [rule(one) for one in rules]
    verdicts = [
        decide_command(facts(command, approval=approval, standing=standing, rules=matches))
        for approval in POLICIES
    ]
    words = ["no" if isinstance(one, Refuse) else word(one) for one in verdicts]
    assert words == row.split()


def test_the_question_and_the_refusal_name_the_rule_file_that_is_broken():
    standing = AgentStanding(rules_broken="/r/a.rules:3: bad")
    ask = decide_command(facts("make", standing=standing))
    assert isinstance(ask, Ask)
    assert ask.cause == "rule"
    assert "/r/a.rules:3: bad" in ask.reason
    refuse = decide_command(facts("make", approval="never", standing=standing))
    assert refuse.reason.startswith(NEVER_ASKS)
    assert "/r/a.rules:3: bad" in refuse.reason
    muted = decide_command(facts("make", granular=NO_RULES, standing=standing))
    assert muted == Refuse(reason=NO_RULE_QUESTIONS)


@pytest.mark.parametrize(
    ("escalation", "rules", "expected"),
    [
        (ESCALATE, (), ROLE_LOCKED),
        (MORE, (), ROLE_LOCKED),
        (GRANTED, (), ROLE_LOCKED),
        (None, ("allow",), "run"),
        (None, (), "run"),
    ],
)
def test_a_locked_role_stays_in_its_sandbox_whatever_is_said(escalation, rules, expected):
    standing = AgentStanding(is_locked=True, held=WRITE_O)
    matches = [rule(one) for one in rules]
    verdict = decide_command(facts("make", escalation=escalation, rules=matches, standing=standing))
    assert word(verdict) == expected
    if isinstance(verdict, Run):
        assert verdict.extra is None


def test_a_locked_role_patches_nothing_outside():
    refused = decide_patch(PatchFacts(paths=("/x",), outside=("/x",), is_locked=True))
    assert refused == Refuse(reason=f"patch rejected: {ROLE_LOCKED}")


@pytest.mark.parametrize(
    ("escalation", "approval", "expected"),
    [
        (None, "on-request", Run(extra=WRITE_O)),
        (GRANTED, "on-request", Run(extra=WRITE_O)),
        (GRANTED, "never", Run(extra=WRITE_O)),
        (None, "untrusted", Run(extra=WRITE_O)),
    ],
)
def test_what_is_held_joins_every_sandboxed_run(escalation, approval, expected):
    verdict = decide_command(
        facts(
            "make", approval=approval, escalation=escalation, standing=AgentStanding(held=WRITE_O)
        )
    )
    assert (verdict.then if isinstance(verdict, Ask) else verdict) == expected


def test_a_known_safe_command_is_not_given_what_nobody_was_asked_about():
    assert decide_command(facts("ls", escalation=MORE)) == Run()


RETRY = [
    # policy, granular, first verdict's cause (None: it ran unasked) → what follows a denial
    ("untrusted", None, "untrusted", "free"),
    ("untrusted", None, "permissions", "ask"),
    ("untrusted", None, None, "ask"),
    ("on-failure", None, None, "ask"),
    ("on-failure", None, "dangerous", "free"),
    ("on-request", None, None, "nothing"),
    ("on-request", None, "dangerous", "nothing"),
    ("on-request", ALL, None, "ask"),
    ("on-request", ALL, "rule", "free"),
    ("on-request", NO_SANDBOX, None, "nothing"),
    ("never", None, None, "nothing"),
]


@pytest.mark.parametrize(("approval", "granular", "cause", "expected"), RETRY)
def test_a_denial_is_followed_by_a_question_where_the_policy_has_one(
    approval, granular, cause, expected
):
    case = facts("make", approval=approval, granular=granular)
    yes = Decided(outcome="approved")
    first = Run() if cause is None else Ask(subject="`make`", cause=cause)
    ran = Run() if cause is None else Run(answer=yes)
    again = decide_retry(case, first, ran)
    match again:
        case None:
            assert expected == "nothing"
        case Run():
            assert (expected, again.sandboxed) == ("free", False)
        case Ask():
            assert (expected, again.cause, again.reason) == ("ask", "retry", RETRY_REASON)
            assert again.then == Run(sandboxed=False)


@pytest.mark.parametrize("ran", [Run(sandboxed=False), Run(sandboxed=False, answer=None)])
def test_what_ran_outside_is_not_tried_again(ran):
    assert decide_retry(facts("make", approval="on-failure"), ran, ran) is None


# --- keys and rights --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("bash", "-lc", "git  push"), ("git", "push")),
        (("/bin/sh", "-c", "git push"), ("git", "push")),
        (("git", "push"), ("git", "push")),
        (("bash", "-c", "ls && pwd"), ("__codex_shell_script__", "-c", "ls && pwd")),
        (("/tmp/bash", "-c", "ls"), ("/tmp/bash", "-c", "ls")),
    ],
)
def test_a_command_has_one_name_however_a_shell_was_called(argv, words):
    assert canonical_command(argv) == words


def test_a_key_differs_wherever_the_run_would():
    base = CommandAction(argv=("make",), cwd="/w")
    others = [
        CommandAction(argv=("make", "x"), cwd="/w"),
        CommandAction(argv=("make",), cwd="/v"),
        CommandAction(argv=("make",), cwd="/w", tty=True),
        CommandAction(argv=("make",), cwd="/w", sandboxed=False),
        CommandAction(
            argv=("make",), cwd="/w", permissions="with_additional_permissions", extra=WRITE_O
        ),
    ]
    keys = [command_key(one) for one in (base, *others)]
    assert len(set(keys)) == len(keys)
    assert len(set(patch_keys(("/a", "/b", "/a")))) == 2


_PATHS = st.lists(st.sampled_from(["/", "/a", "/a/b", "/ab", "/c", "/a/../c"]), max_size=3)
_RIGHTS = st.builds(
    lambda network, read, write: ExtraPermissions(
        network=network, read=tuple(read), write=tuple(write)
    ),
    st.booleans(), _PATHS, _PATHS,
)  # fmt: skip


@given(_RIGHTS, _RIGHTS)
def test_what_two_have_in_common_is_never_more_than_either(some, others):
    both = intersection(some, others)
    assert is_empty(both) or (covers(some, both) and covers(others, both))


@given(_RIGHTS, _RIGHTS)
def test_all_of_both_covers_each_of_them(some, others):
    plain = all(".." not in path for path in (*some.read, *some.write))
    if plain and not is_empty(some):
        assert covers(union(some, others), some)


@given(
    st.lists(st.sampled_from(["ls", "make", "rm", "-rf", "x", "bash", "-c", "ls && make"])),
    st.sampled_from(POLICIES),
    st.sampled_from([None, ALL, NO_SANDBOX, NO_RULES]),
    st.sampled_from([None, ESCALATE, MORE, GRANTED]),
    st.sampled_from(
        [
            AgentStanding(),
            AgentStanding(is_locked=True),
            AgentStanding(rules_broken="x"),
            AgentStanding(held=WRITE_O),
        ]
    ),
)
def test_nothing_runs_outside_or_with_more_unless_it_was_granted(
    argv, approval, granular, escalation, standing
):
    verdict = decide_command(
        facts(argv, approval=approval, granular=granular, escalation=escalation, standing=standing)
    )
    if isinstance(verdict, Run):
        assert verdict.sandboxed
        assert verdict.extra is None or covers(standing.held, verdict.extra)
    if isinstance(verdict, Ask) and approval == "never":
        pytest.fail("under `never` nobody is asked")
