"""What a hook's end means: its exit code and output become one opinion, by event. Pure.

A clear no is a no, in whatever form it comes (`hook_objection`); a yes counts only in the exact
form. A hook that ran and failed leaves the action open, unless it says `on_failure = "deny"`. A
hook that could not be asked at all (`unasked`) never leaves a gate open: `hook_combination` decides
what is asked or refused then.

Source: Codex and Claude Code; where both differ, either form is understood.
"""

from typing import TypeGuard

from swarm.mailbox.protocol.hooks import HookDecision, HookEvent, HookForm, HookStatus
from swarm.mailbox.protocol.values.base import Value

from .hook_objection import (
    FoundObjection,
    begins_with_no,
    find_objection,
    is_json_like,
    read_json,
)

SHOWN_OUTPUT = 200  # characters of output that cannot be read
MAX_CONTEXT = 10_000  # characters of one hook's text for a model
_TEXT_IS_CONTEXT = frozenset({"SessionStart", "SubagentStart", "UserPromptSubmit"})
_CAN_STOP = frozenset(
    {
        "SessionStart", "SubagentStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest",
        "PostToolUse", "PostToolUseFailure", "Stop", "SubagentStop", "PreCompact",
    }
)  # fmt: skip
# Events that only tell something: a hook may show people a message, and decides nothing.
ANNOUNCED = frozenset(
    {"Notification", "ApprovalRequested", "Interrupt", "SessionEnd", "MergeConflict"}
)
_STOPS = frozenset({"Stop", "SubagentStop"})
CALL_GATES = frozenset({"PreToolUse", "PermissionRequest"})
# What a hook of these guards stays closed while it cannot be asked.
GATES = CALL_GATES | {"UserPromptSubmit", "PreCompact"}
_EXIT_2: dict[str, HookDecision] = {
    "PreToolUse": "deny", "PermissionRequest": "deny", "PostToolUse": "feedback",
    "PostToolUseFailure": "feedback",
    "UserPromptSubmit": "deny", "Stop": "continue", "SubagentStop": "continue",
    "PreCompact": "deny",
}  # fmt: skip
_NO_REASON: dict[HookDecision, str] = {
    "deny": "a hook denied it", "feedback": "a hook objects to it",
    "continue": "a hook wants the turn to go on",
}  # fmt: skip
_NOT_FOUND = frozenset({126, 127})  # a shell's codes for what cannot be run, or is not there
_SIGNALS = range(129, 193)  # a shell's codes for what a signal ended
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
    unasked: bool = False  # it failed before it could say anything, or its words cannot be read
    updated_input: dict[str, object] | None = None


def read_opinion(event: HookEvent, end: HookEnd, form: HookForm = "codex") -> HookOpinion:
    """The opinion of a hook that ended like this; Claude's form allows unknown keys."""
    if end.changed and event in GATES:
        return HookOpinion(status="blocked", decision="deny", reason=end.fault)
    found = _found(end) if event in _EXIT_2 else None
    if found is not None and found.kind != "ask":
        return _objection(event, found, end)
    opinion = _read_end(event, end, form)
    if found is not None and event in CALL_GATES and opinion.decision != "ask":
        return HookOpinion(decision="ask", reason=_cut(found.reason), message=opinion.message)
    return opinion


def _found(end: HookEnd) -> FoundObjection | None:
    """A no or a question in whatever form it came; also of a hook that failed afterwards."""
    found = find_objection(end.stdout)
    if end.exit_code != 2 or end.fault:  # in both products exit code 2 is a no
        return found
    said = found.reason if found is not None else end.stdout.strip()
    is_stop = found is not None and found.kind == "stop"
    return FoundObjection(kind="stop" if is_stop else "deny", reason=end.stderr.strip() or said)


def _objection(event: HookEvent, found: FoundObjection, end: HookEnd) -> HookOpinion:
    """A no, with what the hook says beside it."""
    try:
        value = read_json(end.stdout)
    except ValueError:
        value = None
    inner = value.get("hookSpecificOutput") if _is_object(value) else None
    context = inner.get("additionalContext") if _is_object(inner) else None
    message = value.get("systemMessage") if _is_object(value) else None
    stops = found.kind == "stop"
    decision = _EXIT_2[event]
    if stops and event not in CALL_GATES:
        decision = ""
    return HookOpinion(
        status="stopped" if stops else "blocked" if decision == "deny" else "completed",
        decision=decision,
        reason=_cut(
            found.reason or (end.stderr.strip() or _NO_REASON[decision] if decision else "")
        ),
        context=_cut(context) if isinstance(context, str) else "",
        message=_cut(message) if isinstance(message, str) else "",
        stops=stops,
    )


def _read_end(event: HookEvent, end: HookEnd, form: HookForm) -> HookOpinion:
    """The opinion of a hook that says no no."""
    if fault := end.fault or _why_unasked(end.exit_code):
        return _failed(_with_words(fault, end), unasked=True)
    if end.exit_code != 0:
        return _failed(_with_words(f"hook exited with code {end.exit_code}", end))
    text = end.stdout.strip()
    return _read_text(event, text, form) if text else HookOpinion()


def _why_unasked(exit_code: int | None) -> str:
    """Why a hook with this exit code has not run to an answer; "" if it has."""
    if exit_code is None or exit_code < 0:
        return "hook exited without a status code"
    if exit_code in _NOT_FOUND:
        why = "cannot be run" if exit_code == 126 else "was not found"
        return f"hook exited with code {exit_code}: its program {why}"
    if exit_code in _SIGNALS:
        return f"hook exited with code {exit_code}: signal {exit_code - 128} ended it"
    return ""


def _with_words(fault: str, end: HookEnd) -> str:
    said = _cut(end.stderr.strip(), SHOWN_OUTPUT)
    return f"{fault}: {said}" if said else fault


def _read_text(event: HookEvent, text: str, form: HookForm) -> HookOpinion:
    """What a hook that succeeded printed."""
    if not is_json_like(text):
        if event in _STOPS:
            return _failed(f"hook returned invalid stop hook JSON output: {text[:SHOWN_OUTPUT]}")
        if event in _TEXT_IS_CONTEXT:
            return HookOpinion(decision="context", context=_cut(text))
        if event in CALL_GATES and begins_with_no(text):
            return HookOpinion(decision="ask", reason=_cut(f"a hook says: {text}"))
        return HookOpinion()
    try:
        value = read_json(text)
    except ValueError:
        fault = f"hook printed JSON that cannot be read: {text[:SHOWN_OUTPUT]}"
        return _failed(fault, unasked=True)
    if not _is_object(value):
        return _failed(f"hook printed JSON that is not an object: {text[:SHOWN_OUTPUT]}")
    if form == "codex" and (unknown := value.keys() - _TOP_KEYS):
        return _failed(f"hook printed the unknown key {sorted(unknown)[0]!r}")
    return _read_object(event, value)


def _read_object(event: HookEvent, value: dict[str, object]) -> HookOpinion:
    inner = value.get("hookSpecificOutput", {})
    if not _is_object(inner):
        return _failed("hookSpecificOutput is not an object")
    if inner and inner.get("hookEventName") != event:
        return _failed(f"hookSpecificOutput.hookEventName is not {event!r}")
    try:
        opinion = _decision(event, value, inner)
        goes_on = _flag(value, "continue", default=True)
        context = "" if event in ANNOUNCED else _cut(_text(inner, "additionalContext"))
        message = _cut(_text(value, "systemMessage"))
        stop_reason = _cut(_text(value, "stopReason"))
    except ValueError as error:
        fault = f"hook printed output that cannot be used: {error}"
        return _failed(fault, unasked=event in GATES)
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
            if legacy not in ("", "approve"):  # a no is read before
                raise ValueError(f"decision is {legacy!r}")
            return HookOpinion()


def _tool_decision(value: dict[str, object], inner: dict[str, object]) -> HookOpinion:
    legacy = _text(value, "decision")
    said = _text(inner, "permissionDecision") or {"approve": "allow"}.get(legacy, legacy)
    updated = inner.get("updatedInput")
    if updated is not None and not _is_object(updated):
        raise ValueError("updatedInput is not an object")
    reason = _cut(_text(inner, "permissionDecisionReason") or _text(value, "reason"))
    match said:
        case "":
            decision: HookDecision = "rewrite" if updated is not None else ""
            return HookOpinion(decision=decision, updated_input=updated)
        case "allow":
            return HookOpinion(decision="allow", reason=reason, updated_input=updated)
        case _ if said.strip().lower() == "ask":
            return HookOpinion(decision="ask", reason=reason, updated_input=updated)
        case _:
            raise ValueError(f"permissionDecision is {said!r}")


def _permission_decision(inner: dict[str, object]) -> HookOpinion:
    given = inner.get("decision")
    if given is None:
        return HookOpinion()
    if not _is_object(given):
        raise ValueError("hookSpecificOutput.decision is not an object")
    for key in ("updatedInput", "updatedPermissions", "interrupt"):
        if given.get(key):
            raise ValueError(f"decision.{key} is not supported")
    message = _cut(_text(given, "message"))
    match given.get("behavior"):
        case "allow":
            return HookOpinion(decision="allow", reason=message)
        case other:
            raise ValueError(f"decision.behavior is {other!r}")


def _failed(fault: str, *, unasked: bool = False) -> HookOpinion:
    return HookOpinion(status="failed", message=_cut(fault, 2_000), unasked=unasked)


def _text(value: dict[str, object], key: str) -> str:
    given = value.get(key)
    if given is None:
        return ""
    if not isinstance(given, str):
        raise ValueError(f"{key} is not text")
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
