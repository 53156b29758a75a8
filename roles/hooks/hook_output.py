"""What a hook's end means: its exit code and output become one opinion, by event. Pure.

An end that cannot be understood is a failure. A failure leaves the action open, unless the hook
says `on_failure = "deny"`.

Source: Codex and Claude Code; where both differ, either form is understood.
"""

from typing import TypeGuard

import msgspec

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.hooks import HookDecision, HookEvent, HookForm, HookStatus

SHOWN_OUTPUT = 200  # characters of output that cannot be read
MAX_CONTEXT = 10_000  # characters of one hook's text for a model
_TEXT_IS_CONTEXT = frozenset({"SessionStart", "SubagentStart", "UserPromptSubmit"})
_CAN_STOP = frozenset(
    {"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SubagentStop", "PreCompact"}
)
# Events that only tell something: a hook may show people a message, and decides nothing.
ANNOUNCED = frozenset(
    {"Notification", "ApprovalRequested", "Interrupt", "SessionEnd", "MergeConflict"}
)
_STOPS = frozenset({"Stop", "SubagentStop"})
_GATES = frozenset({"PreToolUse", "PermissionRequest"})  # a hook that was replaced closes them
_EXIT_2: dict[str, HookDecision] = {
    "PreToolUse": "deny", "PermissionRequest": "deny", "PostToolUse": "feedback",
    "PostToolUseFailure": "feedback",
    "UserPromptSubmit": "deny", "Stop": "continue", "SubagentStop": "continue",
    "PreCompact": "deny",
}  # fmt: skip
_TOP_KEYS = frozenset(
    "continue stopReason suppressOutput systemMessage decision reason hookSpecificOutput".split()  # noqa: SIM905
)


class HookEnd(Value):
    """How a hook's process ended. `fault` says why it has no usable end."""

    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    fault: str = ""
    changed: bool = False  # its script is not what was trusted


class HookOpinion(Value):
    """What one hook wants. `reason` belongs to `decision`; the other texts stand on their own."""

    status: HookStatus = "completed"
    decision: HookDecision = ""
    reason: str = ""
    context: str = ""
    message: str = ""  # for people
    stops: bool = False  # `continue: false`
    updated_input: dict[str, object] | None = None


def read_opinion(event: HookEvent, end: HookEnd, form: HookForm = "codex") -> HookOpinion:
    """The opinion of a hook that ended like this; Claude's form allows unknown keys."""
    if end.changed and event in _GATES:
        return HookOpinion(status="blocked", decision="deny", reason=end.fault)
    if end.fault:
        return _failed(end.fault)
    text = end.stdout.strip()
    if end.exit_code == 2 and event in _EXIT_2:
        reason = end.stderr.strip()
        if not reason:
            return _failed("hook exited with code 2 and wrote no reason to stderr")
        return _block(event, _cut(reason))
    if end.exit_code is None:
        return _failed("hook exited without a status code")
    if end.exit_code != 0:
        said = f": {_cut(end.stderr.strip(), SHOWN_OUTPUT)}" if end.stderr.strip() else ""
        return _failed(f"hook exited with code {end.exit_code}{said}")
    if not text:
        return HookOpinion()
    if text[0] not in "{[":
        if event in _STOPS:
            return _failed(f"hook returned invalid stop hook JSON output: {text[:SHOWN_OUTPUT]}")
        if event in _TEXT_IS_CONTEXT:
            return HookOpinion(decision="context", context=_cut(text))
        return HookOpinion()
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _failed(f"hook printed JSON that cannot be read: {text[:SHOWN_OUTPUT]}")
    if not _is_object(value):
        return _failed(f"hook printed JSON that is no object: {text[:SHOWN_OUTPUT]}")
    if form == "codex" and (unknown := value.keys() - _TOP_KEYS):
        return _failed(f"hook printed the unknown key {sorted(unknown)[0]!r}")
    return _read_object(event, value)


def _read_object(event: HookEvent, value: dict[str, object]) -> HookOpinion:
    inner = value.get("hookSpecificOutput", {})
    if not _is_object(inner):
        return _failed("hookSpecificOutput is no object")
    if inner and inner.get("hookEventName") != event:
        return _failed(f"hookSpecificOutput.hookEventName is not {event!r}")
    try:
        opinion = _decision(event, value, inner)
        goes_on = _flag(value, "continue", default=True)
        context = "" if event in ANNOUNCED else _cut(_text(inner, "additionalContext"))
        message = _cut(_text(value, "systemMessage"))
        stop_reason = _cut(_text(value, "stopReason"))
    except ValueError as error:
        return _failed(f"hook printed output that cannot be used: {error}")
    stops = not goes_on
    if stops and event not in _CAN_STOP:
        return _failed(f"`continue: false` means nothing for {event}")
    decision = opinion.decision or ("context" if context else "")
    return HookOpinion(
        status="stopped" if stops else opinion.status,
        decision=decision,
        reason=opinion.reason or stop_reason,
        context=context,
        message=message,
        stops=stops,
        updated_input=opinion.updated_input,
    )


def _decision(event: HookEvent, value: dict[str, object], inner: dict[str, object]) -> HookOpinion:
    """The decision in either form. Raises ValueError."""
    match event:
        case "PreToolUse":
            return _tool_decision(value, inner)
        case "PermissionRequest":
            return _permission_decision(inner)
        case "SessionStart" | "SubagentStart" | "PostCompact":
            return HookOpinion()
        case "Notification" | "ApprovalRequested" | "Interrupt" | "SessionEnd":
            return HookOpinion()
        case _:
            legacy = _text(value, "decision")
            if legacy in ("", "approve"):
                return HookOpinion()
            if legacy != "block":
                raise ValueError(f"decision is {legacy!r}")
            return _block(event, _reason(value, "reason"))


def _tool_decision(value: dict[str, object], inner: dict[str, object]) -> HookOpinion:
    legacy = _text(value, "decision")
    said = _text(inner, "permissionDecision") or {"block": "deny", "approve": "allow"}.get(
        legacy, legacy
    )
    updated = inner.get("updatedInput")
    if updated is not None and not _is_object(updated):
        raise ValueError("updatedInput is no object")
    reason = _cut(_text(inner, "permissionDecisionReason") or _text(value, "reason"))
    match said:
        case "":
            decision: HookDecision = "rewrite" if updated is not None else ""
            return HookOpinion(decision=decision, updated_input=updated)
        case "deny":
            if not reason.strip():
                raise ValueError("a denial needs a reason")
            return HookOpinion(status="blocked", decision="deny", reason=reason)
        case "allow":
            return HookOpinion(decision="allow", reason=reason, updated_input=updated)
        case "ask":
            return HookOpinion(decision="ask", reason=reason, updated_input=updated)
        case _:
            raise ValueError(f"permissionDecision is {said!r}")


def _permission_decision(inner: dict[str, object]) -> HookOpinion:
    given = inner.get("decision")
    if given is None:
        return HookOpinion()
    if not _is_object(given):
        raise ValueError("hookSpecificOutput.decision is no object")
    for key in ("updatedInput", "updatedPermissions", "interrupt"):
        if given.get(key):
            raise ValueError(f"decision.{key} is not supported")
    message = _cut(_text(given, "message"))
    match given.get("behavior"):
        case "allow":
            return HookOpinion(decision="allow", reason=message)
        case "deny":
            text = message or "a hook denied the permission"
            return HookOpinion(status="blocked", decision="deny", reason=text)
        case other:
            raise ValueError(f"decision.behavior is {other!r}")


def _block(event: HookEvent, reason: str) -> HookOpinion:
    decision = _EXIT_2[event]
    status: HookStatus = "blocked" if decision == "deny" else "completed"
    return HookOpinion(status=status, decision=decision, reason=reason)


def _failed(fault: str) -> HookOpinion:
    return HookOpinion(status="failed", message=_cut(fault, 2_000))


def _reason(value: dict[str, object], key: str) -> str:
    text = _cut(_text(value, key))
    if not text.strip():
        raise ValueError("a block needs a reason")
    return text


def _text(value: dict[str, object], key: str) -> str:
    given = value.get(key)
    if given is None:
        return ""
    if not isinstance(given, str):
        raise ValueError(f"{key} is no text")
    return given


def _flag(value: dict[str, object], key: str, *, default: bool) -> bool:
    given = value.get(key, default)
    if not isinstance(given, bool):
        raise ValueError(f"{key} is neither true nor false")
    return given


def _cut(text: str, limit: int = MAX_CONTEXT) -> str:
    """The head and the tail of a long text."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)
