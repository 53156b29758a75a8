"""Questions of hooks to a model: only a clear no blocks, and nothing permits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.roles.parts.hooks.hook_output import read_opinion
from swarm.worker.parts.hooks.hook_questions import (
    MAX_QUESTION_CHARS,
    HookQuestions,
    ModelAnswer,
    end_of,
    question_text,
)


@pytest.mark.parametrize(
    ("text", "status", "decision", "reason"),
    [
        ('{"ok": true}', "completed", "", ""),
        ('{"ok": true, "reason": "fine"}', "completed", "", ""),
        ('```json\n{"ok": false, "reason": "no"}\n```', "blocked", "deny", "no"),
        ('{"ok": false}', "blocked", "deny", "the condition does not hold"),
        ('{"ok": "true"}', "failed", "", ""),
        ('{"ok": true, "permissionDecision": "allow"}', "failed", "", ""),
        ("yes", "failed", "", ""),
        ("", "failed", "", ""),
    ],
)
def test_only_one_json_object_is_an_answer(text, status, decision, reason):
    opinion = read_opinion("PreToolUse", end_of(ModelAnswer(text=text)), "claude")
    assert (opinion.status, opinion.decision) == (status, decision)
    assert status == "failed" or opinion.reason == reason


@given(st.text())
def test_no_answer_permits_anything(text):
    assert read_opinion("PreToolUse", end_of(ModelAnswer(text=text))).decision in ("", "deny")


def test_a_question_holds_the_event_and_is_bounded():
    assert question_text("is $ARGUMENTS ok?", b'{"a":1}\n') == 'is {"a":1} ok?'
    assert question_text("ok?", b'{"a":1}\n').endswith('The event:\n{"a":1}')
    assert len(question_text("ok?", b"x" * 10**6)) < MAX_QUESTION_CHARS + 200


async def test_a_question_that_nobody_answers_is_a_failure_in_time(autojump_clock):
    questions = HookQuestions()
    end = await questions.ask("ok?", b"{}", limit_s=30)
    assert "timed out after 30s" in end.fault
