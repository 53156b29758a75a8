"""The decision tables: every row of the heuristic, every outcome, and patches."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.approvals import LossPreview
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, ReadOnly, WorkspaceWrite
from swarm.worker.policy.approval_offers import refusal_without_reviewer
from swarm.worker.policy.command_decision import Ask, Refuse, Run, decide_command, decide_patch
from swarm.worker.policy.command_facts import (
    AgentStanding,
    CommandFacts,
    EscalationRequest,
    PatchFacts,
    RuleMatch,
    gather_facts,
)

POLICIES = ("untrusted", "on-failure", "on-request", "never")
ESCALATE = EscalationRequest(permissions="require_escalated", justification="May I?")
MORE = EscalationRequest(permissions="with_additional_permissions", justification="May I?")
GRANTED = EscalationRequest(permissions="with_additional_permissions", pre_approved=True)
FORCED = "commands that remove by force are not permitted. Use a safer approach"
RUN, FREE = Run(), Run(sandboxed=False)

WORKSPACE = WorkspaceWrite()


def facts(
    argv, approval="on-request", sandbox=WORKSPACE, escalation=None, rules=None
) -> CommandFacts:
    words = argv.split() if isinstance(argv, str) else argv
    limits = Limits(approval=approval, sandbox=sandbox)
    match = (lambda one: tuple(rules.get(one[0], ()))) if rules else (lambda _: ())
    return gather_facts(words, limits, escalation, match_rules=match)


def word(verdict) -> str:
    """run, free (outside of the sandbox), ask, ask-free (free when approved), refuse."""
    match verdict:
        case Run():
            return "run" if verdict.sandboxed else "free"
        case Ask():
            return "ask" if verdict.then.sandboxed else "ask-free"
        case Refuse():
            return "refuse"


ROPE = DangerFullAccess()
TABLE = [
    # command, sandbox, escalation → untrusted, on-failure, on-request, never
    ("ls", WorkspaceWrite(), None, "ask run run run"),
    ("ls", ReadOnly(), None, "ask run run run"),
    ("ls", ROPE, None, "ask-free free free free"),
    ("ls", ReadOnly(), ESCALATE, "ask-free refuse run refuse"),
    ("rm -rf x", WorkspaceWrite(), None, "ask ask ask refuse"),
    ("rm -rf x", ROPE, None, "ask-free ask-free ask-free refuse"),
    ("rm -fr x", ReadOnly(), ESCALATE, "ask-free refuse ask-free refuse"),
    ("sudo rm -f x", WorkspaceWrite(), None, "ask ask ask refuse"),
    ("make", ROPE, None, "ask-free free free free"),
    ("make", ROPE, ESCALATE, "ask-free refuse free refuse"),
    ("make", ReadOnly(), None, "ask run run run"),
    ("make", WorkspaceWrite(), None, "ask run run run"),
    ("make", WorkspaceWrite(), ESCALATE, "ask-free refuse ask-free refuse"),
    ("make", WorkspaceWrite(), MORE, "ask refuse ask refuse"),
    ("make", WorkspaceWrite(), GRANTED, "ask run run run"),
]


@pytest.mark.parametrize("approval", POLICIES)
@pytest.mark.parametrize(("command", "sandbox", "escalation", "row"), TABLE)
def test_a_command_without_rules_is_judged_by_the_table(
    command, sandbox, escalation, row, approval
):
    expected = row.split()[POLICIES.index(approval)]
    assert word(decide_command(facts(command, approval, sandbox, escalation))) == expected


@pytest.mark.parametrize(
    ("script", "row"),
    [
        ("ls && pwd", "ask run run run"),
        ("ls && make", "ask run run run"),
        ("ls; rm -rf x", "ask ask ask refuse"),
        ("rm -rf $X", "ask run run run"),
        ("rm -rf <<EOF\nx\nEOF", "ask ask ask refuse"),
        ("cat <<EOF\nx\nEOF", "ask run run run"),
    ],
)
def test_a_script_is_as_strict_as_its_strictest_command(script, row):
    verdicts = [
        word(decide_command(facts(["bash", "-lc", script], approval))) for approval in POLICIES
    ]
    assert verdicts == row.split()


@pytest.mark.parametrize(("script", "expected"), [("ls", "run"), ("cat <<EOF\nx\nEOF", "ask")])
def test_a_complex_command_is_never_known_safe(script, expected):
    assert word(decide_command(facts(["bash", "-lc", script], escalation=MORE))) == expected


@pytest.mark.parametrize("approval", ["on-failure", "never"])
def test_wishing_for_more_where_nobody_would_be_asked_is_refused_in_words(approval):
    name = {"on-failure": "OnFailure", "never": "Never"}[approval]
    assert decide_command(facts("make", approval, escalation=ESCALATE)) == Refuse(
        reason=f"approval policy is {name}; reject command — you cannot ask for escalated "
        f"permissions if the approval policy is {name}"
    )


def rule(decision, prefix="git push", why=None) -> RuleMatch:
    return RuleMatch(decision=decision, matched_prefix=tuple(prefix.split()), justification=why)


@pytest.mark.parametrize(
    ("rules", "approval", "expected"),
    [
        ([rule("allow")], "on-request", FREE),
        ([rule("allow")], "untrusted", FREE),
        ([rule("allow")], "never", FREE),
        (
            [rule("forbidden")],
            "on-request",
            Refuse(
                reason="`git push -f` rejected: policy forbids commands starting with `git push`"
            ),
        ),
        (
            [rule("forbidden", "git", "no git"), rule("forbidden", "git push", "no pushing")],
            "never",
            Refuse(reason="`git push -f` rejected: no pushing"),
        ),
        (
            [rule("allow", "git push -f"), rule("prompt", "git", "shared")],
            "on-request",
            Ask(
                subject="`git push -f`",
                cause="rule",
                reason="`git push -f` requires approval: shared",
            ),
        ),
        (
            [rule("prompt")],
            "untrusted",
            Ask(
                subject="`git push -f`",
                cause="rule",
                reason="`git push -f` requires approval by policy",
            ),
        ),
        (
            [rule("prompt")],
            "never",
            Refuse(reason="approval required by policy, but AskForApproval is set to Never"),
        ),
    ],
)
def test_the_strictest_rule_decides_and_the_longest_prefix_gives_the_reason(
    rules, approval, expected
):
    assert decide_command(facts("git push -f", approval, rules={"git": rules})) == expected


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["bash", "-lc", "git push && git pull"], FREE),
        (["bash", "-lc", "git push && make"], RUN),
        (["bash", "-lc", "git push && ls"], RUN),
        (["bash", "-lc", "git push <<EOF\nx\nEOF"], RUN),
        (["bash", "-lc", "git push $X"], RUN),
        (["/tmp/bash", "-lc", "git push"], RUN),
    ],
)
def test_only_rules_for_every_plain_command_of_a_known_shell_lift_the_sandbox(argv, expected):
    assert decide_command(facts(argv, rules={"git": [rule("allow")]})) == expected


def test_a_rule_reaches_into_a_shell_of_unknown_origin_to_forbid():
    argv = ["/tmp/bash", "-lc", "git push"]
    assert word(decide_command(facts(argv, rules={"git": [rule("forbidden")]}))) == "refuse"


def test_a_dangerous_command_under_never_is_refused_with_its_reason():
    verdict = decide_command(facts(["bash", "-lc", "rm -rf x"], "never"))
    assert verdict == Refuse(reason=f"`bash -lc 'rm -rf x'` rejected: {FORCED}")


def test_the_models_own_words_are_the_reason_of_an_ask():
    assert decide_command(facts("make", escalation=ESCALATE)) == Ask(
        subject="`make`", cause="escalation", reason="May I?", then=FREE
    )


def test_an_empty_command_is_refused():
    assert word(decide_command(facts([]))) == "refuse"


PATCHES = [
    # sandbox, outside, available → untrusted, on-failure, on-request, never
    (WorkspaceWrite(), (), True, "ask run run run"),
    (WorkspaceWrite(), ("/x",), True, "ask-free run ask-free refuse"),
    (WorkspaceWrite(), (), False, "ask ask ask refuse"),
    (ReadOnly(), ("/x",), True, "ask-free run ask-free refuse"),
    (ROPE, (), True, "ask-free free free free"),
    (ROPE, (), False, "ask-free free free free"),
]


@pytest.mark.parametrize("approval", POLICIES)
@pytest.mark.parametrize(("sandbox", "outside", "available", "row"), PATCHES)
def test_a_patch_is_judged_by_where_it_writes(sandbox, outside, available, row, approval):
    verdict = decide_patch(
        PatchFacts(
            paths=("/w/a", *outside),
            outside=outside,
            approval=approval,
            sandbox=sandbox,
            sandbox_available=available,
        )
    )
    assert word(verdict) == row.split()[POLICIES.index(approval)]


@pytest.mark.parametrize(
    ("sandbox", "paths", "reason"),
    [
        (WorkspaceWrite(), (), "empty patch"),
        (
            WorkspaceWrite(),
            ("/x",),
            "writing outside of the project; rejected by user approval settings",
        ),
        (
            ReadOnly(),
            ("/x",),
            "writing is blocked by read-only sandbox; rejected by user approval settings",
        ),
    ],
)
def test_a_refused_patch_says_why(sandbox, paths, reason):
    verdict = decide_patch(
        PatchFacts(paths=paths, outside=paths, approval="never", sandbox=sandbox)
    )
    assert verdict == Refuse(reason=f"patch rejected: {reason}")


@pytest.mark.parametrize(
    ("verdict", "parts"),
    [
        (
            decide_command(facts("make all", escalation=ESCALATE)),
            ["`make all`", "outside of the sandbox", "May I?"],
        ),
        (decide_command(facts("rm -rf x")), ["`rm -rf x`", "removes files by force"]),
        (decide_command(facts("make", "untrusted")), ["every command needs approval"]),
        (
            decide_patch(PatchFacts(paths=("/x",), outside=("/x",), sandbox=WorkspaceWrite())),
            ["apply_patch to /x", "where this agent may not"],
        ),
    ],
)
def test_an_ask_that_nobody_can_answer_tells_the_model_what_and_what_now(verdict, parts):
    assert isinstance(verdict, Ask)
    reason = refusal_without_reviewer(verdict).reason
    for part in [*parts, "Nobody can be asked", "say in your answer"]:
        assert part in reason


@given(
    st.lists(st.text(), max_size=4),
    st.sampled_from(POLICIES),
    st.sampled_from([ReadOnly(), WorkspaceWrite(), ROPE]),
    st.sampled_from([None, ESCALATE, MORE, GRANTED]),
)
def test_nothing_leaves_a_sandbox_without_a_rule_or_a_question(argv, approval, sandbox, escalation):
    verdict = decide_command(facts(argv, approval, sandbox, escalation))
    if isinstance(verdict, Run) and not isinstance(sandbox, DangerFullAccess):
        assert verdict.sandboxed


COMMIT = "git commit -m x"


@pytest.mark.parametrize("approval", POLICIES)
@pytest.mark.parametrize(
    ("sandbox", "locked", "expected"),
    [
        (WorkspaceWrite(), False, "commits"),
        (WorkspaceWrite(), True, "does not"),
        (ROPE, False, "does not"),
    ],
)
def test_a_yes_beforehand_to_committing_holds_under_every_policy(
    approval, sandbox, locked, expected
):
    given = msgspec.structs.replace(
        facts(COMMIT, approval, sandbox),
        repository="/w",
        records_only=True,
        standing=AgentStanding(may_commit=True, is_locked=locked),
    )
    verdict = decide_command(given)
    commits = isinstance(verdict, Run) and verdict.commits_in == "/w" and verdict.sandboxed
    assert commits == (expected == "commits")


@pytest.mark.parametrize("approval", POLICIES)
def test_a_yes_to_committing_is_none_to_what_throws_work_away_or_leaves_the_sandbox(approval):
    loss = LossPreview(summary="it throws away 3 files", count=3)
    throwing = msgspec.structs.replace(
        facts("git reset --hard", approval),
        repository="/w",
        loss=loss,
        standing=AgentStanding(may_commit=True),
    )
    leaving = msgspec.structs.replace(
        facts(COMMIT, approval, escalation=ESCALATE),
        repository="/w",
        records_only=True,
        standing=AgentStanding(may_commit=True),
    )
    for verdict in (decide_command(throwing), decide_command(leaving)):
        assert not (isinstance(verdict, Run) and (verdict.commits_in or not verdict.sandboxed))


def test_without_a_yes_beforehand_committing_is_asked_about_or_stays_closed():
    given = {
        approval: decide_command(
            msgspec.structs.replace(facts(COMMIT, approval), repository="/w", records_only=True)
        )
        for approval in POLICIES
    }
    assert [word(one) for one in given.values()] == ["ask", "ask", "ask", "run"]
    assert given["never"].commits_in == ""
