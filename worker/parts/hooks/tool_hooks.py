"""Hooks around a call: before it, when it needs approval, and after it.

What hooks are told comes from the prepared call, so it is what would really run. A rewritten call
is prepared and judged again, and the other hooks are asked about it; none may rewrite it once more.
"""

from collections.abc import Sequence
from typing import cast

import msgspec

from swarm.mailbox.protocol.events import AnyCallDetail, CommandCall, McpCall, PatchCall, StdinCall
from swarm.mailbox.protocol.hooks import Hook, HookEvent, HookForm
from swarm.mailbox.protocol.items import AnyCall, CustomToolCall, FunctionCall
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.parts.hooks.hook_combination import HookVerdict
from swarm.roles.parts.hooks.hook_condition import condition_holds
from swarm.roles.parts.hooks.hook_input import (
    MAX_FILES,
    PATCH,
    PERMISSION_NOTIFICATION,
    SHELL,
    ToolUse,
    mcp_use,
    other_use,
    patch_uses,
    shell_use,
)

from ...policy.script_commands import find_commands
from .hook_dispatch import NO_VERDICT, HookDispatcher

_RESPONSE_CHARS = 100_000  # of a result, for PostToolUse hooks
Fields = dict[str, object]


class RewriteRefused(Exception):
    """A hook's new input cannot be used; the text is for the model."""


class HookedCall(Value):
    """A prepared call, for hooks."""

    item: AnyCall
    detail: AnyCallDetail
    turn_id: str


class ToolHooks:
    """The hooks of one agent that concern calls."""

    def __init__(self, dispatcher: HookDispatcher) -> None:
        self._dispatcher = dispatcher

    async def before(self, call: HookedCall, *, without: str = "") -> HookVerdict:
        """Ask the PreToolUse hooks, but the one with the id `without`."""
        return await self._ask("PreToolUse", call, {}, without=without)

    async def on_permission(self, call: HookedCall, reason: str) -> HookVerdict:
        """Ask the PermissionRequest hooks about a call that needs approval."""
        return await self._ask("PermissionRequest", call, {}, description=reason)

    async def after(self, call: HookedCall, response: str) -> HookVerdict:
        """Tell the PostToolUse hooks how a call succeeded."""
        return await self._ask("PostToolUse", call, {"tool_response": response[:_RESPONSE_CHARS]})

    async def after_failure(self, call: HookedCall, error: str) -> HookVerdict:
        """Tell the PostToolUseFailure hooks how a call failed."""
        fields: Fields = {"error": error[:_RESPONSE_CHARS], "is_interrupt": False}
        return await self._ask("PostToolUseFailure", call, fields)

    def on_request(self, call: HookedCall, reason: str) -> None:
        """Tell hooks that a call's approval is requested. Never waits."""
        self._announce("ApprovalRequested", call, reason, _names(call))

    def on_waiting(self, call: HookedCall, reason: str) -> None:
        """Tell hooks that a person's approval is waited for. Never waits."""
        self._announce("Notification", call, reason, (PERMISSION_NOTIFICATION,))

    def _announce(
        self, event: HookEvent, call: HookedCall, reason: str, names: Sequence[str]
    ) -> None:
        if not self._dispatcher.concerned(event, names):
            return
        (use, *_) = (*_uses(call, "codex"), other_use(call.item.name, {}))
        fields: Fields = {"message": f"The agent needs your permission to use {use.tool_name}"}
        if event == "Notification":
            fields["notification_type"] = PERMISSION_NOTIFICATION
        else:
            fields |= {
                "tool_name": use.tool_name,
                "tool_input": _described(use, reason),
                "tool_use_id": call.item.call_id,
                "reason": reason,
            }
        self._dispatcher.announce(event, names, fields, turn_id=call.turn_id)

    def _fits(self, hook: Hook, call: HookedCall, names: Sequence[str]) -> bool:
        if not hook.condition:
            return True
        return condition_holds(hook.condition, names, _subjects(call), cwd=self._dispatcher.cwd)

    async def _ask(
        self,
        event: HookEvent,
        call: HookedCall,
        extra: Fields,
        *,
        without: str = "",
        description: str = "",
    ) -> HookVerdict:
        names = _names(call)
        hooks = self._dispatcher.concerned(event, names, without=without)
        hooks = tuple(hook for hook in hooks if self._fits(hook, call, names))
        if not hooks:
            return NO_VERDICT
        if len(_changed_files(call)) > MAX_FILES and event == "PreToolUse":
            return HookVerdict(denied=f"hooks are asked about at most {MAX_FILES} files of a call")

        def inputs(hook: Hook) -> Sequence[Fields]:
            return [
                {
                    "tool_name": use.tool_name,
                    "tool_input": _described(use, description),
                    "tool_use_id": call.item.call_id,
                    **extra,
                }
                for use in _uses(call, hook.form)
            ]

        return await self._dispatcher.ask(
            hooks, inputs, turn_id=call.turn_id, call_id=call.item.call_id
        )


def rewritten_call(call: HookedCall, updated: Fields) -> AnyCall:
    """The call with a hook's input in place of the model's. Raises RewriteRefused."""
    item, command = call.item, updated.get("command")
    match call.detail:
        case CommandCall() if isinstance(item, FunctionCall):
            return _with_arguments(item, {"cmd": _text(command)})
        case StdinCall() if isinstance(item, FunctionCall):
            return _with_arguments(item, {"chars": _text(command)})
        case PatchCall():
            if isinstance(item, CustomToolCall):
                return msgspec.structs.replace(item, input=_text(command))
            if item.name == PATCH:
                return _with_arguments(item, {"input": _text(command)})
            raise RewriteRefused(f"a hook wants to change a call of {item.name}; it cannot")
        case _ if isinstance(item, FunctionCall):
            return msgspec.structs.replace(item, arguments=msgspec.json.encode(updated).decode())
        case _:
            raise RewriteRefused(f"a hook wants to change a call of {item.name}; it cannot")


def _with_arguments(item: FunctionCall, changed: Fields) -> FunctionCall:
    arguments = {**_arguments(item), **changed}
    return msgspec.structs.replace(item, arguments=msgspec.json.encode(arguments).decode())


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RewriteRefused("a hook's `updatedInput` for this call must have a text `command`")
    return value


def _names(call: HookedCall) -> tuple[str, ...]:
    uses = _uses(call, "codex")
    return tuple(dict.fromkeys(name for use in uses for name in use.names))


def _subjects(call: HookedCall) -> tuple[str, ...] | None:
    """What a condition looks at: commands, paths, or texts; None: they are not known."""
    match call.detail:
        case CommandCall(script=script):
            return _commands_in(script)
        case StdinCall():
            return None
        case PatchCall(changes=changes):
            moved = tuple(change.move_path for change in changes if change.move_path)
            return (*(change.path for change in changes), *moved)
        case _:
            return tuple(one for one in _arguments(call.item).values() if isinstance(one, str))


def _commands_in(script: str) -> tuple[str, ...] | None:
    """A script and each command in it; None if one is known only when it runs."""
    found = find_commands(("sh", "-c", script))
    if any(word.kind in ("script", "unknown") for words in found for word in words[:1]):
        return None
    return (script.strip(), *(" ".join(word.text for word in words) for words in found))


def _changed_files(call: HookedCall) -> tuple[str, ...]:
    return tuple(c.path for c in call.detail.changes) if isinstance(call.detail, PatchCall) else ()


def _uses(call: HookedCall, form: HookForm) -> tuple[ToolUse, ...]:
    tool = call.item.name
    match call.detail:
        case CommandCall(script=script):
            return (shell_use(script, tool=tool),)
        case StdinCall(chars=chars):
            # Text for a running shell is a command; waiting for output is not.
            return (shell_use(chars, tool=tool),) if chars else (other_use(tool, {}),)
        case PatchCall(changes=changes):
            return patch_uses(changes, _patch_text(call.item), tool=tool, form=form)
        case McpCall(server=server, tool=name):
            return (mcp_use(server, name, _arguments(call.item)),)
        case _:
            return (other_use(tool, _arguments(call.item)),)


def _patch_text(item: AnyCall) -> str:
    if isinstance(item, CustomToolCall):
        return item.input
    given = _arguments(item).get("input")
    return given if isinstance(given, str) else item.arguments


def _arguments(item: AnyCall) -> Fields:
    """The arguments as the model wrote them; as one text if they are no JSON object."""
    text = item.input if isinstance(item, CustomToolCall) else item.arguments
    try:
        value: object = msgspec.json.decode(text.strip() or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {"arguments": text}
    if value is None:
        return {}
    return cast("Fields", value) if isinstance(value, dict) else {"arguments": text}


def _described(use: ToolUse, description: str) -> Fields:
    if use.tool_name == SHELL and description:
        return {**use.tool_input, "description": description}
    return use.tool_input
