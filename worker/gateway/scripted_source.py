"""Provider `scripted:FILE`: a fake model whose answers come from a file.

It uses the same retries, the same rate limiter and the same mailboxes as an HTTP provider, so a
fault in the script behaves like the fault of a server.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import cast

import msgspec
import trio

from swarm.mailbox.protocol.items import (
    AnyItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    Reasoning,
    TokenUsage,
    text_of,
)
from swarm.mailbox.protocol.sampling import ModelInfo

from .answer_script import (
    Script,
    ScriptedAnswer,
    ScriptedCall,
    ScriptedFault,
    ScriptedItem,
    choose_answer,
)
from .backend import (
    AnyResponseEvent,
    AttemptEvents,
    Failure,
    RenderedRequest,
    ResponseEvents,
    ResponseFinished,
    ResponseItemDone,
    ResponseItemStarted,
    ResponseReasoningDelta,
    ResponseTextDelta,
    SampleError,
)
from .failures import FailureOrigin, classify_status

_compact = msgspec.json.Encoder().encode
_NAMED = re.compile(r"\{(?:agent|turn|last_output|last_user)\}")


def scripted_model(script: Script, provider: str, slug: str) -> ModelInfo:
    """The properties of the scripted model that the agent's loop receives."""
    model = script.model
    return ModelInfo(
        slug=slug,
        provider=provider,
        wire="scripted",
        context_window=model.context_window,
        auto_compact_tokens=model.auto_compact_tokens,
        freeform_tools=model.freeform_tools,
        parallel_tool_calls=model.parallel_tool_calls,
        can_call_tools=model.can_call_tools,
        input_usd_per_million=model.input_usd_per_million,
        output_usd_per_million=model.output_usd_per_million,
    )


class TemplateFiller:
    """Replaces the known names in braces, once; all other braces stay as they are."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def text(self, text: str) -> str:
        return _NAMED.sub(lambda found: self._names.get(found[0], found[0]), text)

    def json_text(self, value: object) -> str:
        """`value` as JSON with its strings filled in; a string is itself the text."""
        if isinstance(value, str):
            return self.text(value)
        return _compact(self._walk(value)).decode()

    def _walk(self, value: object) -> object:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._walk(part) for part in cast("list[object]", value)]
        if isinstance(value, dict):
            pairs = cast("dict[str, object]", value).items()
            return {key: self._walk(part) for key, part in pairs}
        return value


class ScriptedSource:
    """Each attempt takes one entry; a cancelled attempt gives its entry back.

    Entries are counted per agent path in this process. An agent that starts with a history (a
    resumed run) continues after as many entries as its history has responses.
    """

    def __init__(self, script: Script, *, provider: str, idle_timeout_s: float = 300.0) -> None:
        self._script, self._provider, self._idle_s = script, provider, idle_timeout_s
        self._taken: dict[str, int] = {}  # agent path → number of entries used
        self._calls: dict[str, int] = {}  # agent path → number of call ids assigned

    async def attempt(self, request: RenderedRequest) -> AttemptEvents:
        path = request.agent_path
        if path not in self._taken:
            self._taken[path] = count_responses(request.items)
        ordinal = self._taken[path] + 1
        answer = choose_answer(self._script, path, ordinal)
        self._taken[path] = ordinal
        try:
            if answer is None:
                raise SampleError(_no_entry(path, ordinal))
            if answer.delay_s:
                await trio.sleep(answer.delay_s)
            if answer.fault is not None and answer.fault.disconnect_after is None:
                await self._fail(answer.fault)
            filler = TemplateFiller(_names(request, ordinal))
            async with aclosing(self._emit_answer(answer, path, ordinal, filler)) as events:
                async for event in events:
                    yield event
        except (trio.Cancelled, GeneratorExit):
            self._taken[path] = min(self._taken[path], ordinal - 1)
            raise

    async def _fail(self, fault: ScriptedFault) -> None:
        where = f"{self._provider} (scripted)"
        if fault.hang:
            await trio.sleep_forever()
        if fault.idle:
            await trio.sleep(self._idle_s)
            text = f"{where}: no data for {self._idle_s:g} s; the stream was cut"
            raise SampleError(
                Failure(kind="idle_timeout", message=text, retryable=True, scope="final")
            )
        if fault.garbage:
            text = f"{where}: the answer cannot be read"
            raise SampleError(Failure(kind="bad_response", message=text, retryable=True))
        body = _compact({"error": {"code": fault.code, "message": fault.message}})
        failure = classify_status(fault.status or 500, {}, body, origin=FailureOrigin(where))
        raise SampleError(msgspec.structs.replace(failure, retry_after_s=fault.retry_after))

    async def _emit_answer(
        self, answer: ScriptedAnswer, path: str, ordinal: int, filler: TemplateFiller
    ) -> ResponseEvents:
        cut = None if answer.fault is None else answer.fault.disconnect_after
        for number, item in enumerate(answer.all_items()):
            if number == cut:
                break
            for event in self._render(item, answer, f"{path}#{ordinal}.{number}", filler):
                if answer.chunk_delay_s and isinstance(
                    event, ResponseTextDelta | ResponseReasoningDelta
                ):
                    await trio.sleep(answer.chunk_delay_s)
                yield event
        if cut is not None:
            text = f"{self._provider} (scripted): the connection ended before the response did"
            raise SampleError(Failure(kind="stream_disconnected", message=text, retryable=True))
        usage = TokenUsage() if answer.usage is None else answer.usage.as_usage()
        yield ResponseFinished(
            response_id=f"scripted:{path}:{ordinal}", usage=usage, end_turn=answer.end_turn
        )

    def _render(
        self, item: ScriptedItem, answer: ScriptedAnswer, item_id: str, filler: TemplateFiller
    ) -> Iterator[AnyResponseEvent]:
        if item.call is not None:
            call = self._call(item.call, item_id, filler)
            name = getattr(call, "name", "")
            yield ResponseItemStarted(item_id=item_id, kind=_kind(item.call), tool=name)
            yield ResponseItemDone(item=call)
        elif item.reasoning is not None:
            text = filler.text(item.reasoning)
            yield ResponseItemStarted(item_id=item_id, kind="reasoning")
            for piece in _pieces(text, answer.chunk_chars):
                yield ResponseReasoningDelta(item_id=item_id, text=piece)
            yield ResponseItemDone(item=Reasoning(id=item_id, summary=(text,)))
        else:
            text = filler.text(item.text or "")
            yield ResponseItemStarted(item_id=item_id, kind="message")
            for piece in _pieces(text, answer.chunk_chars):
                yield ResponseTextDelta(item_id=item_id, text=piece)
            part = OutputText(text=text)
            yield ResponseItemDone(
                item=Message(role="assistant", content=(part,), phase=item.phase, id=item_id)
            )

    def _call(
        self, call: ScriptedCall, item_id: str, filler: TemplateFiller
    ) -> FunctionCall | CustomToolCall:
        path = item_id.partition("#")[0]
        number = self._calls[path] = self._calls.get(path, 0) + 1
        call_id = call.id or f"call_{path.strip('/').replace('/', '_')}_{number}"
        text = filler.json_text(call.arguments)
        if call.custom:
            return CustomToolCall(call_id=call_id, name=call.name, input=text, id=item_id)
        return FunctionCall(call_id=call_id, name=call.name, arguments=text, id=item_id)


def _kind(call: ScriptedCall) -> str:
    return "custom_tool_call" if call.custom else "function_call"


def _pieces(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _no_entry(path: str, ordinal: int) -> Failure:
    text = (
        f"the script has no answer to request {ordinal} of {path}: add an entry for it, or a "
        "`default` answer"
    )
    return Failure(kind="bad_request", message=text)


def _names(request: RenderedRequest, ordinal: int) -> dict[str, str]:
    """The values of the names in braces."""
    return {
        "{agent}": request.agent_path,
        "{turn}": str(ordinal),
        "{last_output}": _last_output(request.items),
        "{last_user}": _last_user(request.items),
    }


def _last_output(items: Sequence[AnyItem]) -> str:
    for item in reversed(items):
        if isinstance(item, FunctionCallOutput | CustomToolCallOutput):
            return text_of(item.output)
    return ""


def _last_user(items: Sequence[AnyItem]) -> str:
    for item in reversed(items):
        if isinstance(item, Message) and item.role == "user":
            return text_of(item.content)
    return ""


def count_responses(items: Sequence[AnyItem]) -> int:
    """Count the responses in a history: runs of model items, separated by other items.

    Mail appears as an assistant's message with an author; it does not count as the model's.
    """
    count, inside = 0, False
    for item in items:
        made = isinstance(item, Reasoning | FunctionCall | CustomToolCall) or (
            isinstance(item, Message) and item.role == "assistant" and item.author is None
        )
        count += made and not inside
        inside = made
    return count
