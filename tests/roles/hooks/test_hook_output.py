"""What the end of a hook means, and what several of them mean together."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.hooks import Hook
from swarm.roles.hooks.hook_combination import HookVerdict, combine
from swarm.roles.hooks.hook_file import EVENTS
from swarm.roles.hooks.hook_output import HookEnd, HookOpinion, read_opinion

HOOK = Hook(hook_id="h1", event="PreToolUse", command="true")
CLOSED = Hook(hook_id="h2", event="PreToolUse", command="true", fails_closed=True)


def said(event: str, **inner: object) -> HookEnd:
    value = {"hookSpecificOutput": {"hookEventName": event, **inner}}
    return HookEnd(exit_code=0, stdout=json.dumps(value))


@pytest.mark.parametrize(
    ("event", "end", "status", "decision", "reason"),
    [
        ("PreToolUse", HookEnd(exit_code=0), "completed", "", ""),
        ("PreToolUse", HookEnd(exit_code=0, stdout="fine\n"), "completed", "", ""),
        ("PreToolUse", HookEnd(exit_code=2, stderr=" no \n"), "blocked", "deny", "no"),
        ("PreToolUse", HookEnd(exit_code=2), "failed", "", ""),
        ("PreToolUse", HookEnd(exit_code=1), "failed", "", ""),
        ("PreToolUse", HookEnd(), "failed", "", ""),
        ("PreToolUse", HookEnd(fault="hook timed out after 1s"), "failed", "", ""),
        ("PreToolUse", HookEnd(fault="x", changed=True), "blocked", "deny", "x"),
        ("Stop", HookEnd(fault="x", changed=True), "failed", "", ""),
        ("PreToolUse", HookEnd(exit_code=0, stdout="{nonsense"), "failed", "", ""),
        ("PreToolUse", HookEnd(exit_code=0, stdout="[1]"), "failed", "", ""),
        ("PreToolUse", HookEnd(exit_code=0, stdout='{"decision":"block","reason":"r"}'),
         "blocked", "deny", "r"),
        ("PreToolUse", HookEnd(exit_code=0, stdout='{"decision":"block"}'), "failed", "", ""),
        ("PreToolUse", HookEnd(exit_code=0, stdout='{"continue":false}'), "failed", "", ""),
        ("PreToolUse", said("PreToolUse", permissionDecision="deny"), "failed", "", ""),
        ("PreToolUse", said("PreToolUse", permissionDecision="deny",
                            permissionDecisionReason="r"), "blocked", "deny", "r"),
        ("PreToolUse", said("PreToolUse", permissionDecision="ask"), "completed", "ask", ""),
        ("PreToolUse", said("PreToolUse", permissionDecision="allow"), "completed", "allow", ""),
        ("PreToolUse", said("Stop", permissionDecision="allow"), "failed", "", ""),
        ("PreToolUse", said("PreToolUse", updatedInput=1), "failed", "", ""),
        ("PermissionRequest", said("PermissionRequest", decision={"behavior": "allow"}),
         "completed", "allow", ""),
        ("PermissionRequest", said("PermissionRequest", decision={"behavior": "deny"}),
         "blocked", "deny", "a hook denied the permission"),
        ("PermissionRequest", said("PermissionRequest", decision={"behavior": "allow",
                                   "updatedInput": {"a": 1}}), "failed", "", ""),
        ("PostToolUse", HookEnd(exit_code=2, stderr="lint"), "completed", "feedback", "lint"),
        ("PostToolUse", HookEnd(exit_code=0, stdout='{"continue":false,"stopReason":"s"}'),
         "stopped", "", "s"),
        ("PostToolUseFailure", HookEnd(exit_code=2, stderr="see"), "completed", "feedback", "see"),
        ("UserPromptSubmit", HookEnd(exit_code=2, stderr="secret"), "blocked", "deny", "secret"),
        ("Stop", HookEnd(exit_code=2, stderr="go on"), "completed", "continue", "go on"),
        ("Stop", HookEnd(exit_code=0, stdout="text"), "failed", "", ""),
        ("PreCompact", HookEnd(exit_code=2, stderr="later"), "blocked", "deny", "later"),
        ("PreCompact", HookEnd(exit_code=0, stdout='{"continue":false,"stopReason":"s"}'),
         "stopped", "", "s"),
        ("PostCompact", said("PostCompact", additionalContext="c"), "completed", "context", ""),
        ("Notification", said("Notification", additionalContext="c"), "completed", "", ""),
        ("SessionEnd", HookEnd(exit_code=0, stdout="bye"), "completed", "", ""),
        ("Interrupt", HookEnd(exit_code=2, stderr="x"), "failed", "", ""),
        ("SessionStart", HookEnd(exit_code=2, stderr="x"), "failed", "", ""),
    ],
)  # fmt: skip
def test_each_end_has_one_meaning(event, end, status, decision, reason):
    opinion = read_opinion(event, end)
    assert (opinion.status, opinion.decision) == (status, decision)
    if status != "failed":
        assert opinion.reason == reason


def test_plain_text_is_context_at_a_start_and_for_a_prompt():
    for event in ("SessionStart", "SubagentStart", "UserPromptSubmit"):
        assert read_opinion(event, HookEnd(exit_code=0, stdout=" on main\n")).context == "on main"


def test_an_unknown_key_is_a_failure_in_codexs_form_alone():
    end = HookEnd(exit_code=0, stdout='{"future": 1}')
    assert read_opinion("PreToolUse", end).status == "failed"
    assert read_opinion("PreToolUse", end, "claude") == HookOpinion()


def test_a_long_text_keeps_its_head_and_tail():
    text = "a" * 20_000 + "z"
    opinion = read_opinion("SessionStart", HookEnd(exit_code=0, stdout=text))
    assert len(opinion.context) < 10_100
    assert opinion.context.endswith("z")


@given(st.sampled_from(EVENTS), st.text(), st.text(), st.none() | st.integers(0, 255))
def test_any_output_is_an_opinion(event, stdout, stderr, code):
    read_opinion(event, HookEnd(exit_code=code, stdout=stdout, stderr=stderr))


KEYS = st.sampled_from(["continue", "decision", "reason", "hookSpecificOutput"])
INNER_KEYS = st.sampled_from(["hookEventName", "permissionDecision", "updatedInput", "decision"])
INNER = st.dictionaries(INNER_KEYS, st.text())


@given(st.dictionaries(KEYS, st.none() | st.booleans() | st.text() | INNER))
def test_only_a_clear_permission_allows(value):
    opinion = read_opinion("PreToolUse", HookEnd(exit_code=0, stdout=json.dumps(value)))
    if opinion.decision == "allow":
        inner = value.get("hookSpecificOutput") or {}
        assert "allow" in inner.values() or value.get("decision") == "approve"


ALLOW = HookOpinion(decision="allow")
ASK = HookOpinion(decision="ask", reason="sure?")
DENY = HookOpinion(status="blocked", decision="deny", reason="no")
BROKEN = HookOpinion(status="failed", message="it broke")


@pytest.mark.parametrize(
    ("opinions", "verdict"),
    [
        ([], HookVerdict()),
        ([(HOOK, ALLOW)], HookVerdict(allowed_by="h1")),
        ([(HOOK, ALLOW), (CLOSED, ASK)], HookVerdict(asks="sure?")),
        ([(HOOK, ALLOW), (CLOSED, ASK), (HOOK, DENY)], HookVerdict(denied="no")),
        ([(HOOK, BROKEN)], HookVerdict()),
        ([(HOOK, BROKEN), (CLOSED, ALLOW)], HookVerdict(allowed_by="h2")),
        ([(CLOSED, BROKEN), (HOOK, ALLOW)],
         HookVerdict(denied='a hook failed, and its table says on_failure = "deny": it broke')),
    ],
)  # fmt: skip
def test_the_strictest_opinion_wins(opinions, verdict):
    assert combine(opinions) == verdict
