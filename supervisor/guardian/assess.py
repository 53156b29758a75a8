"""A reviewer's last message → an assessment, and what the asking agent is then told. Pure.

Rules guarded: what cannot be read is no yes; *denied* and *the review failed* are different
outcomes with different texts; the reviewer's outcome decides, whatever risk it names beside it.
"""

from typing import Literal

import msgspec

from swarm.mailbox.protocol.base import Value

from .transcript import cut_middle

Risk = Literal["low", "medium", "high", "critical"]
Authorization = Literal["unknown", "low", "medium", "high"]

NOT_JSON = "guardian assessment was not valid JSON"
SCHEMA = msgspec.json.encode(
    {
        "type": "object",
        "properties": {
            "risk_level": {"type": "string", "enum": ["low", "medium", "high", "critical"]},
            "user_authorization": {
                "type": "string",
                "enum": ["unknown", "low", "medium", "high"],
            },
            "outcome": {"type": "string", "enum": ["allow", "deny"]},
            "rationale": {"type": "string"},
        },
        "required": ["outcome"],
        "additionalProperties": False,
    }
)
_ALLOWED = "The reviewer allowed the action as low in risk and gave no further reason."
_DENIED = "The reviewer denied the action and gave no further reason."
_NO_RATIONALE = "Auto-reviewer denied the action without a specific rationale."
_RATIONALE_TOKENS = 500
_MOST_CHARS = 200_000


class Assessment(Value):
    """What a reviewer came to, with the gaps filled."""

    outcome: Literal["allow", "deny"]
    risk: Risk
    authorization: Authorization
    rationale: str


class Unreadable(Exception):
    """The message holds no assessment; the text says why."""


class _Said(msgspec.Struct):
    outcome: Literal["allow", "deny"]
    risk_level: Risk | None = None
    user_authorization: Authorization | None = None
    rationale: str | None = None


def assess(message: str) -> Assessment:
    """Read a reviewer's last message. Raises Unreadable, and nothing else, for any text.

    The whole text is tried, then what lies between its first and its last brace.
    """
    said = _read(message[:_MOST_CHARS])
    allows = said.outcome == "allow"
    rationale = cut_middle((said.rationale or "").strip(), limit_tokens=_RATIONALE_TOKENS)
    return Assessment(
        outcome=said.outcome,
        risk=said.risk_level or ("low" if allows else "high"),
        authorization=said.user_authorization or "unknown",
        rationale=rationale or (_ALLOWED if allows else _DENIED),
    )


def _read(message: str) -> _Said:
    start, end = message.find("{"), message.rfind("}")
    candidates = (message, message[start : end + 1] if 0 <= start < end else "")
    for text in candidates:
        if not text.strip():
            continue
        try:
            return msgspec.json.decode(text.encode("utf-8", "replace"), type=_Said)
        except (msgspec.DecodeError, RecursionError):
            continue
    raise Unreadable(NOT_JSON)


def rejection_text(assessment: Assessment) -> str:
    """What an agent reads whose action was denied."""
    reason = assessment.rationale
    if not reason or reason == _DENIED:
        reason = _NO_RATIONALE
    return (
        "This action was rejected due to unacceptable risk.\n"
        f"Reason: {reason}\n"
        "Do not try to reach the same result another way: no workaround, no indirect execution, no "
        "way around the policy. Go on only with something that is clearly safer, or once the user "
        "has been told of this risk and has approved the action in so many words. Otherwise stop "
        "and ask the user."
    )


def failure_text(why: str) -> str:
    """What an agent reads when the review itself failed: nobody has judged its action."""
    return (
        "This action was not run, because its automatic review failed. Nobody judged the action "
        "itself, so this is no denial.\n"
        f"Reason: Automatic approval review failed: {why}\n"
        "You may ask for it once more. If the review fails again, go on without this action or ask "
        "the user to approve it; do not try to reach the same result around the review."
    )


def timeout_text(deadline_s: float) -> str:
    """What an agent reads when no verdict came in time."""
    return (
        f"This action was not run: its automatic review was not finished within {deadline_s:g} "
        "seconds. That says nothing about the action; do not take it for unsafe because of this. "
        "You may try once more, or ask the user for guidance or an explicit approval."
    )


def again_text(why: str) -> str:
    """What a reviewer reads whose answer could not be used."""
    return (
        f"Your last message could not be used: {why}. Answer for the same requested action again, "
        'now with the JSON object alone: {"outcome": "allow"}, or an object with risk_level, '
        "user_authorization, outcome and rationale. Nothing before it and nothing after it."
    )
