"""Codex's tools `codex` and `codex-reply`: a session is a run, and the run's id is its threadId.

Source: `codex mcp-server`. There `config` and `profile` may name any right; here a caller's are
taken only as far as they give none.
"""

import json
import shlex
from typing import Literal, cast

import anyio
import mcp_types as types
import msgspec
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from msgspec import UNSET
from pydantic import ConfigDict, ValidationError

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.approvals import CommandAction, PatchAction, PendingApproval
from swarm.mailbox.protocol.control import ResolveApproval

from ...base.safe_text import exact_head, exact_line
from ..client import Event, LiveRun
from .approval_forms import approval_form, decided, form_answer
from .calling_client import CallContext, CallingClient
from .codex_events import CodexEvents
from .run_ceiling import CallerOptions
from .served_runs import ServedRuns, stop_turn
from .swarm_tools import result_of
from .tool_arguments import CodexAnswer, CodexReplyArguments, CodexToolArguments, read_arguments
from .turn_progress import AwaitedTurn
from .turn_wait import TurnWait

CODEX_NAMES = ("codex", "codex-reply")
_STOP_LIMIT_S = 10.0
_CONFIG_KEYS = ("model", "model_reasoning_effort", "model_reasoning_summary", "model_verbosity")
_DECISIONS = {
    "approved": "approve", "approved_for_session": "approve_session", "denied": "deny",
    "abort": "abort",
}  # fmt: skip


# The ignores: pydantic's own models have fields of any type.
class CodexEventParams(types.NotificationParams):  # type: ignore[explicit-any]
    id: str
    msg: dict[str, object]


class CodexEvent(types.Notification[CodexEventParams, Literal["codex/event"]]):  # type: ignore[explicit-any]
    method: Literal["codex/event"] = "codex/event"
    params: CodexEventParams


class CodexElicitParams(types.ElicitRequestFormParams):  # type: ignore[explicit-any]
    model_config = ConfigDict(extra="allow")


class CodexElicitRequest(types.Request[CodexElicitParams, Literal["elicitation/create"]]):  # type: ignore[explicit-any]
    method: Literal["elicitation/create"] = "elicitation/create"
    params: CodexElicitParams


class CodexTools:
    """The two tools of one server."""

    def __init__(self, runs: ServedRuns) -> None:
        self._runs = runs

    async def call(
        self, params: types.CallToolRequestParams, ctx: CallContext
    ) -> types.CallToolResult:
        """Raises SwarmError."""
        if params.name == "codex":
            given = read_arguments(params.arguments, CodexToolArguments)
            run = await self._runs.start(
                given.prompt, codex_options(given), cwd=given.cwd, background=False
            )
            return await self._turn(run, AwaitedTurn(), ctx)
        reply = read_arguments(params.arguments, CodexReplyArguments)
        run = self._runs.find(reply.thread_id or reply.conversation_id or "?")
        awaited = await self._runs.send(run, reply.prompt, ROOT_PATH)
        self._runs.attend(run)
        return await self._turn(run, awaited, ctx)

    async def _turn(
        self, run: LiveRun, awaited: AwaitedTurn, ctx: CallContext
    ) -> types.CallToolResult:
        wait = TurnWait(run, awaited, CodexClient(ctx, run.run_id))
        try:
            report = await wait.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), anyio.move_on_after(_STOP_LIMIT_S):
                await stop_turn(run)
            raise
        text = report.text
        if report.status == "approval_needed":
            text = "an approval waits that this client cannot be asked about; see swarm_approve"
        answer = CodexAnswer(thread_id=run.run_id, content=text)
        return result_of(answer, text, is_error=report.status != "completed")


def codex_options(given: CodexToolArguments) -> CallerOptions:
    """What the arguments ask for. Raises UsageError for a key that could give rights."""
    if given.profile:
        raise UsageError(
            "a caller cannot choose a profile; start `swarm mcp-server --profile NAME` instead"
        )
    config = [(key, json.dumps(_plain(key, value))) for key, value in given.config.items()]
    texts = {
        "developer_instructions": "\n\n".join(
            filter(None, (given.base_instructions, given.developer_instructions))
        ),
        "compact_prompt": given.compact_prompt,
    }
    config += [(key, json.dumps(text)) for key, text in texts.items() if text]
    return CallerOptions(
        model=given.model,
        sandbox=None if given.sandbox is UNSET else given.sandbox,
        approval=None if given.approval_policy is UNSET else given.approval_policy,
        config=tuple(config),
    )


def _plain(key: str, value: object) -> str:
    if key not in _CONFIG_KEYS:
        raise UsageError(
            f"a caller cannot set the key {key[:100]!r}; it can set {', '.join(_CONFIG_KEYS)}. "
            "Others belong on the command line of `swarm mcp-server` (-c KEY=VALUE)"
        )
    if not isinstance(value, str) or not value.isprintable():
        raise UsageError(f"config {key!r} must be a text")
    return value


class CodexClient:
    """The client of a call, which is told and asked in Codex's forms."""

    def __init__(self, ctx: CallContext, run_id: str) -> None:
        self._ctx, self._run_id = ctx, run_id
        self._base = CallingClient(ctx)
        self._events = CodexEvents()
        self._count = 0
        self.can_ask = self._base.can_ask

    async def show(self, tree: str) -> None:
        await self._base.show(tree)

    async def follow(self, event: Event) -> None:
        message = self._events.convert(event)
        if message is None:
            return
        self._count += 1
        ids = {"requestId": self._ctx.request_id, "threadId": self._run_id}
        params = CodexEventParams.model_validate(
            {"_meta": ids, "id": f"{self._count}", "msg": message}
        )
        notification = cast("types.ServerNotification", CodexEvent(params=params))
        await self._ctx.session.send_notification(notification, self._ctx.request_id)

    async def ask(self, pending: PendingApproval) -> ResolveApproval:
        """Codex's own fields beside the form; both Codex's answer and the protocol's are read."""
        form = approval_form(pending)
        params = {
            "message": _question(pending) or form.message,
            "requestedSchema": form.schema,
            **_codex_fields(pending),
            "threadId": self._run_id,
            "codex_mcp_tool_call_id": f"{self._ctx.request_id}",
            "codex_event_id": pending.approval_id,
        }
        request = CodexElicitRequest(params=CodexElicitParams.model_validate(params))
        try:
            answer = await self._ctx.session.send_request(
                cast("types.ServerRequest", request), types.ElicitResult,
                metadata=ServerMessageMetadata(related_request_id=self._ctx.request_id),
            )  # fmt: skip
        except MCPError as error:
            raise SwarmError(f"the client did not answer: {error}") from error
        except ValidationError as error:
            return decided(pending, _codex_decision(error))
        content: dict[str, object] = dict(answer.content or {})
        return form_answer(pending, accepted=answer.action == "accept", content=content)


def _codex_decision(error: ValidationError) -> str:
    """The decision in an answer of Codex's form, which the protocol's own form does not have."""
    for fault in error.errors(include_url=False):
        given: object = fault["input"]
        if isinstance(given, dict):
            decision = cast("dict[str, object]", given).get("decision")
            return _DECISIONS.get(decision, "deny") if isinstance(decision, str) else "deny"
    return "deny"


def _question(pending: PendingApproval) -> str:
    action = pending.request.action
    if isinstance(action, CommandAction):
        words, whole = exact_head(command := action.script or shlex.join(action.argv)), ""
        is_all = words == exact_line(command) and "\n" not in command
        if not is_all or action.extra or action.commits_in or action.resolved_cwd:
            whole = f"\n{approval_form(pending).message}"
        return f"Allow Codex to run `{words}` in `{exact_line(action.cwd)}`?{whole}"
    return ""


def _codex_fields(pending: PendingApproval) -> dict[str, object]:
    action = pending.request.action
    call: dict[str, object] = {"codex_call_id": pending.request.call_id}
    match action:
        case CommandAction():
            parsed: object = msgspec.to_builtins(action.parsed_cmd)
            return call | {
                "codex_elicitation": "exec-approval", "codex_command": list(action.argv),
                "codex_cwd": action.cwd, "codex_parsed_cmd": parsed,
            }  # fmt: skip
        case PatchAction():
            changes: object = msgspec.to_builtins(action.changes)
            return call | {
                "codex_elicitation": "patch-approval", "codex_reason": pending.request.reason,
                "codex_changes": changes,
            }  # fmt: skip
        case _:
            return call
