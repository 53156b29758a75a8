"""Test a model with three small requests: plain text, a tool call, a JSON schema; with timings.

A probe uses the same choice of provider, the same wire and the same keys as an agent. Its result is
the lines for `models.toml`.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Literal, Protocol

import msgspec
import trio

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.items import (
    AnyItem,
    FunctionCall,
    Message,
    Reasoning,
    encode_item,
    text_message,
    text_of,
)
from swarm.mailbox.protocol.sampling import ModelInfo, SampleRequest, ToolSpec
from swarm.mailbox.protocol.spec import GatewaySpec, ProbeOrder
from swarm.mailbox.redact import Redactor

from .app import GatewayApp, GatewayDependencies, open_gateway_app
from .backend import (
    RenderedRequest,
    RequestWaiting,
    ResponseFinished,
    ResponseItemDone,
    SampleError,
)
from .conversations import Conversation, ConversationOwner

ProbeTest = Literal["text", "tool", "schema"]

_NO_BLOBS = Path("/nonexistent")  # a probe shows no images
_INSTRUCTIONS = "This is a short test. Do exactly what you are asked, and nothing else."
_ASKED: dict[ProbeTest, str] = {
    "text": "Answer with the one word: ready",
    "tool": "Call the tool `report` with the argument `word` set to: ready",
    "schema": 'Answer with a JSON object whose key `word` holds the text "ready".',
}
_SCHEMA = (
    b'{"type":"object","properties":{"word":{"type":"string"}},"required":["word"],'
    b'"additionalProperties":false}'
)
_TOOL = ToolSpec(name="report", description="Reports one word.", parameters=_SCHEMA)


class ProbeWord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The expected arguments of the tool, and the expected JSON answer."""

    word: str


_decode_word = msgspec.json.Decoder(ProbeWord).decode


class ProbeResult(Value):
    """The result of one request. `works`: the model did what was asked.

    `answered`: the server accepted the request, or refused only the feature under test.
    """

    test: ProbeTest
    works: bool = False
    answered: bool = False
    detail: str = ""
    seconds: float = 0.0
    first_byte_s: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    reasoned: bool = False


class ProbedModel(Value):
    """The provider and model that are probed."""

    provider: str
    model: ModelInfo
    why: str


async def run_probe(order: ProbeOrder) -> AsyncGenerator[ProbedModel | ProbeResult, None]:
    """Yield the chosen model, then one result per request; stop after an unanswered one.

    Raises SwarmError if no provider can be used.
    """

    async def on_secret(_: str) -> None:
        """A probe writes nothing that would need redaction."""

    dependencies = GatewayDependencies(
        order.keys, on_secret=on_secret, announce=lambda _: None, warn=lambda _: None
    )
    async with open_gateway_app(_spec(order), dependencies) as app:
        choice = app.choice
        yield ProbedModel(provider=choice.provider.id, model=choice.model, why=choice.why)
        for test in _ASKED:
            outcome = await _ask(app, test, limit_s=order.limit_s, redactor=dependencies.redactor)
            yield outcome
            if not outcome.answered:
                return


async def _ask(
    app: GatewayApp, test: ProbeTest, *, limit_s: float, redactor: Redactor
) -> ProbeResult:
    begun = trio.current_time()
    items: list[AnyItem] = []
    finished: ResponseFinished | None = None
    waits, is_refused = "", False
    detail = f"no answer within {limit_s:g} s"
    with trio.move_on_after(limit_s):
        try:
            async with aclosing(app.backend.sample(_request(app, test))) as events:
                async for event in events:
                    match event:
                        case ResponseItemDone(item=item):
                            items.append(item)
                        case RequestWaiting(reason=reason):
                            waits = reason
                        case ResponseFinished():
                            finished = event
                        case _:
                            pass
        except SampleError as error:
            detail = error.failure.message
            is_refused = error.failure.kind == "bad_request" and test != "text"
    if finished is None:
        words = f"{detail} ({waits})" if waits and waits not in detail else detail
        seconds = trio.current_time() - begun
        clean = redactor.redact_error(words)
        return ProbeResult(test=test, answered=is_refused, detail=clean, seconds=seconds)
    fault = find_answer_fault(test, items)
    usage = finished.usage
    return ProbeResult(
        test=test,
        works=fault is None,
        answered=True,
        detail=redactor.redact_error(fault or ""),
        seconds=trio.current_time() - begun,
        first_byte_s=finished.first_byte_s,
        input_tokens=usage.input_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
        reasoned=any(isinstance(item, Reasoning) for item in items)
        or bool(usage and usage.reasoning_output_tokens),
    )


def _request(app: GatewayApp, test: ProbeTest) -> RenderedRequest:
    """A conversation of one message. Features that the catalogue denies are tested nevertheless."""
    model = app.choice.model
    if model.wire != "local":
        model = msgspec.structs.replace(model, can_call_tools=True, structured_output=True)
    owner = ConversationOwner(f"probe-{test}", f"/probe/{test}", model)
    conversation = Conversation(owner, app.new_store(app.own, model, _NO_BLOBS))
    message = encode_item(text_message("user", _ASKED[test]))
    request = SampleRequest(
        request_id=1,
        turn_id="probe",
        instructions=_INSTRUCTIONS,
        tools=(_TOOL,) if test == "tool" else (),
        items=(msgspec.Raw(message),),
        effort="low" if model.reasoning else None,
        output_schema=_SCHEMA if test == "schema" else None,
    )
    conversation.accept(request)
    return conversation.render(request, ordinal=1)


def find_answer_fault(test: ProbeTest, items: list[AnyItem]) -> str | None:
    """Why the answer is not what was asked; None if it is."""
    said = " ".join(text_of(item.content) for item in items if isinstance(item, Message)).strip()
    shown = f"it said {said[:80]!r}" if said else "it said nothing"
    match test:
        case "text":
            return None if said else shown
        case "tool":
            calls = [item for item in items if isinstance(item, FunctionCall)]
            if not calls:
                return f"no call came; {shown}"
            (first, *_) = calls
            if first.name != _TOOL.name:
                return f"it called {first.name[:40]!r}, which was not offered"
            return None if _is_word(first.arguments) else "the arguments do not fit their schema"
        case "schema":
            return None if _is_word(said) else f"the answer does not fit the schema; {shown}"


def _is_word(text: str) -> bool:
    try:
        _decode_word(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
    return True


def advise(chosen: ProbedModel, outcomes: Mapping[ProbeTest, ProbeResult]) -> str:
    """The lines for models.toml; "" if an entry already says so, or none is needed."""
    model = chosen.model
    if model.wire in {"local", "scripted"}:
        return ""
    learned = {"can_call_tools": _works(outcomes, "tool")}
    if model.wire == "messages":
        learned["structured_output"] = _works(outcomes, "schema")
    if any(outcome.reasoned for outcome in outcomes.values()):
        learned["reasoning"] = True
    if model.known and all(getattr(model, key) == value for key, value in learned.items()):
        return ""
    slug = msgspec.json.encode(model.slug).decode()
    lines = [f"[models.{slug}]", f"provider = {msgspec.json.encode(chosen.provider).decode()}"]
    lines += [f"{key} = {'true' if value else 'false'}" for key, value in learned.items()]
    if not model.known:
        lines.append(f"context_window = {model.context_window}  # a guess: look it up")
        if model.wire == "messages":
            lines.append("max_output_tokens = 8192  # a guess: look it up")
    return "\n".join(lines) + "\n"


def _works(outcomes: Mapping[ProbeTest, ProbeResult], test: ProbeTest) -> bool:
    return test in outcomes and outcomes[test].works


class PrintFields(Protocol):
    """Prints one line with these fields."""

    def __call__(self, **fields: object) -> None: ...


def probe_lines(order: ProbeOrder, say: PrintFields) -> int:
    """Run the probe, one line at a time through `say`. Exit code: 0, or 5 if one had no answer."""
    outcomes: dict[ProbeTest, ProbeResult] = {}

    async def run() -> ProbedModel | None:
        chosen: ProbedModel | None = None
        async with aclosing(run_probe(order)) as found:
            async for one in found:
                if isinstance(one, ProbedModel):
                    chosen = one
                    model = {"model": one.model.slug, "known": one.model.known}
                    say(type="chosen", provider=one.provider, why=one.why, **model)
                else:
                    outcomes[one.test] = one
                    say(type="probe", **{name: getattr(one, name) for name in _SHOWN})
        return chosen

    try:
        chosen = trio.run(run)
    except BaseExceptionGroup as group:
        if (known := group.subgroup(SwarmError)) is None or group.split(SwarmError)[1] is not None:
            raise
        raise _first(known) from None
    lost = [outcome.test for outcome in outcomes.values() if not outcome.answered]
    if chosen is not None and not lost:
        say(type="advice", models_toml=advise(chosen, outcomes))
    elif lost:
        say(type="error", message=f"the test `{lost[0]}` got no answer; the others were not tried")
    return 5 if lost else 0


def _first(group: BaseExceptionGroup[SwarmError]) -> SwarmError:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


_SHOWN = ("test", "works", "answered", "detail", "seconds", "first_byte_s", "input_tokens",
          "output_tokens", "reasoned")  # fmt: skip


def _spec(order: ProbeOrder) -> GatewaySpec:
    """The fields of a gateway spec that the choice of the provider depends on."""
    return GatewaySpec(
        run_id="",
        epoch=1,
        endpoint="",
        identity=b"",
        secret=b"",
        bind="",
        run_key=b"",
        blobs_dir="",
        models_dir=order.models_dir,
        providers=order.providers,
        provider=order.provider,
        model=order.model,
        catalogue=order.catalogue,
    )
