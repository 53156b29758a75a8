"""What the end of a hook means, and what several of them mean together."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.hooks import Hook
from swarm.roles.parts.hooks.hook_combination import HookVerdict, combine
from swarm.roles.parts.hooks.hook_file import EVENTS
from swarm.roles.parts.hooks.hook_output import HookEnd, HookOpinion, read_opinion

HOOK = Hook(hook_id="h1", event="PreToolUse", command="true")
CLOSED = Hook(hook_id="h2", event="PreToolUse", command="true", fails_closed=True)

ALLOW = HookOpinion(decision="allow")
ASK = HookOpinion(decision="ask", reason="sure?")
DENY = HookOpinion(status="blocked", decision="deny", reason="no")
BROKEN = HookOpinion(status="failed", message="it broke")


def said(event: str, **inner: object) -> HookEnd:
    value = {"hookSpecificOutput": {"hookEventName": event, **inner}}
    return HookEnd(exit_code=0, stdout=json.dumps(value))


@pytest.mark.parametrize(
    ("event", "end", "status", "decision", "reason"),
    [
        ("PreToolUse", HookEnd(exit_code=0), "completed", "", ""),
        ("PreToolUse", HookEnd(exit_code=0, stdout="fine\n"), "completed", "", ""),
        ("PreToolUse", HookEnd(exit_code=2, stderr=" no \n"), "blocked", "deny", "no"),
        ("PreToolUse", HookEnd(exit_code=2), "blocked", "deny", "a hook denied it"),
        ("PreToolUse", HookEnd(exit_code=1), "failed", "", ""),
        ("PreToolUse", HookEnd(), "failed", "", ""),
        ("PreToolUse", HookEnd(fault="hook timed out after 1s"), "failed", "", ""),
        ("PreToolUse", HookEnd(fault="x", changed=True), "blocked", "deny", "x"),
        ("Stop", HookEnd(fault="x", changed=True), "failed", "", ""),
        ("PreToolUse", HookEnd(exit_code=0, stdout="{nonsense"), "failed", "", ""),
        ("PreToolUse", HookEnd(exit_code=0, stdout="[1]"), "failed", "", ""),
        ("PreToolUse", HookEnd(exit_code=0, stdout='{"decision":"block","reason":"r"}'),
         "blocked", "deny", "r"),
        ("PreToolUse", HookEnd(exit_code=0, stdout='{"decision":"block"}'), "blocked", "deny",
         "a hook denied it"),
        ("PreToolUse", HookEnd(exit_code=0, stdout='{"continue":false}'), "stopped", "deny",
         "a hook denied it"),
        ("PreToolUse", said("PreToolUse", permissionDecision="deny"), "blocked", "deny",
         "a hook denied it"),
        ("PreToolUse", said("PreToolUse", permissionDecision="deny",
                            permissionDecisionReason="r"), "blocked", "deny", "r"),
        ("PreToolUse", said("PreToolUse", permissionDecision="ask"), "completed", "ask", ""),
        ("PreToolUse", said("PreToolUse", permissionDecision="allow"), "completed", "allow", ""),
        ("PreToolUse", said("Stop", permissionDecision="allow"), "failed", "", ""),
        ("PreToolUse", said("PreToolUse", updatedInput=1), "failed", "", ""),
        ("PermissionRequest", said("PermissionRequest", decision={"behavior": "allow"}),
         "completed", "allow", ""),
        ("PermissionRequest", said("PermissionRequest", decision={"behavior": "deny"}),
         "blocked", "deny", "a hook denied it"),
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


DENIALS = [
    '{"decision": "deny"}', '{"decision": "Block", "reason": 5}', '{"decision": " DENY "}',
    '{"permissionDecision": "deny", "future": 1}', '{"permission_decision": "denied"}',
    '{"hookSpecificOutput": {"permissionDecision": "deny"}}',
    '{"hookSpecificOutput": {"hookEventName": "Stop", "permissionDecision": "deny"}}',
    '{"hookSpecificOutput": {"decision": {"behavior": "deny"}}}',
    '{"hookSpecificOutput": {"decision": "block"}}', '{"permission": "deny"}', '{"ok": false}',
    '{"allow": false}', '{"approved": "false"}', '{"blocked": true}', '[{"decision": "block"}]',
    '\ufeff{"decision": "block"}', 'looking …\n{"decision": "block"}\n',
    'looking …\n{\n "decision": "block"\n}\n', '```json\n{"decision": "block"}\n```',
    '{"systemMessage": "a"}\n{"decision": "block"}',
    '{"decision": "block"}\n{"decision": "approve"}',
    '{"decision": "block", "decision": "approve"}', '{"decision": "block", "reason": "a "b" c"}',
    '{"decision": "block", "reason": "two\nlines"}', 'guard: {"decision": "block"}',
    '{"decision": "block", "reason": "' + "x" * 2_000,
]  # fmt: skip


@pytest.mark.parametrize("form", ["codex", "claude"])
@pytest.mark.parametrize("code", [0, 1, 2, None])
@pytest.mark.parametrize("stdout", DENIALS)
def test_a_clear_no_is_a_no_in_any_form_and_after_any_end(stdout, code, form):
    end = HookEnd(exit_code=code, stdout=stdout, fault="" if code is not None else "timed out")
    for event in ("PreToolUse", "PermissionRequest", "UserPromptSubmit", "PreCompact"):
        opinion = read_opinion(event, end, form)
        assert (opinion.status, opinion.decision) == ("blocked", "deny")
        assert opinion.reason
    assert read_opinion("Stop", end, form).decision == "continue"
    assert read_opinion("PostToolUse", end, form).decision == "feedback"


@pytest.mark.parametrize(
    "stdout",
    ['{"decision": "ask"}', '{"permission": "Ask"}', '{"status": "blocked"}', "deny: not here",
     "BLOCKED", 'looking\n{"decision": "ask"}',
     '{"hookSpecificOutput": {"decision": {"behavior": "ask"}}}'],
)  # fmt: skip
def test_what_may_be_meant_as_a_no_asks(stdout):
    for event in ("PreToolUse", "PermissionRequest"):
        for form in ("codex", "claude"):
            end = HookEnd(exit_code=0, stdout=stdout)
            assert read_opinion(event, end, form).decision == "ask"


@pytest.mark.parametrize(
    "stdout",
    ['{"tool_input": {"decision": "deny"}, "session_id": "1"}', "nothing is denied", "fine", "{}",
     '{"systemMessage": "deny it? no"}', json.dumps({"reason": '{"decision": "deny"}'})],
)  # fmt: skip
def test_a_no_that_is_only_quoted_is_none(stdout):
    end = HookEnd(exit_code=0, stdout=stdout)
    assert read_opinion("PreToolUse", end, "claude").decision == ""


def test_the_reason_of_a_no_is_what_the_hook_wrote():
    words = [
        (HookEnd(exit_code=2, stderr="a", stdout='{"reason": "b"}'), "a"),
        (HookEnd(exit_code=2, stdout='{"decision": "block", "reason": "b"}'), "b"),
        (HookEnd(exit_code=2, stdout=" no \n"), "no"),
        (HookEnd(exit_code=0, stderr="c", stdout='{"decision": "block"}'), "c"),
        (said("PreToolUse", permissionDecision="deny", permissionDecisionReason="d"), "d"),
    ]
    for end, reason in words:
        assert read_opinion("PreToolUse", end, "claude").reason == reason


def test_what_stands_beside_a_no_is_kept():
    inner = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "additionalContext": "c"}
    value = {"systemMessage": "m", "hookSpecificOutput": inner}
    opinion = read_opinion("PreToolUse", HookEnd(exit_code=0, stdout=json.dumps(value)))
    assert (opinion.decision, opinion.message, opinion.context) == ("deny", "m", "c")


@pytest.mark.parametrize(
    "end",
    [HookEnd(exit_code=126), HookEnd(exit_code=127), HookEnd(exit_code=137), HookEnd(exit_code=-9),
     HookEnd(), HookEnd(fault="hook timed out after 1s"), HookEnd(exit_code=0, stdout="{nonsense"),
     HookEnd(exit_code=0, stdout='{"hookSpecificOutput": {"hookEventName": "PreToolUse",'
                                 ' "permissionDecision": "perhaps"}}')],
)  # fmt: skip
@pytest.mark.parametrize("hook", [HOOK, CLOSED])
def test_a_gate_that_could_not_be_asked_is_never_open(end, hook):
    opinion = read_opinion("PreToolUse", end)
    assert (opinion.status, opinion.unasked) == ("failed", True)
    verdict = combine([(hook, opinion), (HOOK, ALLOW)])
    assert verdict.allowed_by == ""
    assert (verdict.denied is not None) if hook.fails_closed else (verdict.asks is not None)


@pytest.mark.parametrize("event", ["UserPromptSubmit", "PreCompact"])
def test_where_nobody_can_be_asked_instead_an_unasked_gate_denies(event):
    hook = msgspec.structs.replace(HOOK, event=event)
    verdict = combine([(hook, read_opinion(event, HookEnd(exit_code=127)))])
    assert verdict.denied is not None


def test_a_stop_hook_that_could_not_be_asked_is_told_of_and_holds_nothing_back():
    hook = msgspec.structs.replace(HOOK, event="Stop")
    verdict = combine([(hook, read_opinion("Stop", HookEnd(exit_code=127)))])
    assert (verdict.denied, verdict.continuations) == (None, ())
    assert verdict.unasked[0][0] == "h1"


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
