"""Test a model with a few requests, and measure its speed and its server's memory.

A probe uses the same choice of provider, the same wire and the same keys as an agent. What it asks
is in `worker/probe/probe_tasks.py`. Its result is the lines for `models.toml`.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple, Protocol, cast

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.protocol.items import (
    AnyItem,
    Reasoning,
    encode_item,
    text_message,
)
from swarm.mailbox.protocol.sampling import ModelInfo, SampleRequest, ToolSpec
from swarm.mailbox.protocol.spec import GatewaySettings, GatewaySpec, ProbeOrder
from swarm.mailbox.protocol.values.base import Value

from .app import GatewayApp, GatewayDependencies, open_gateway_app
from .backend import (
    Failure,
    RenderedRequest,
    RequestWaiting,
    ResponseFinished,
    ResponseItemDone,
    SampleError,
)
from .conversations import Conversation, ConversationOwner
from .failures import refuses_schema
from .fit.dialect import LearnedDialects, told_apart
from .model_catalogue import GUESSED_WINDOWS
from .server_memory import child_memory_bytes, server_memory_bytes

_NO_BLOBS = Path("/nonexistent")  # a probe shows no images
_INSTRUCTIONS = "This is a short test. Do exactly what you are asked, and nothing else."
WAYS = "ways"  # the test that teaches what the server takes
CALLS = ("tool", "tool_quotes", "tool_choice", "tool_nested", "tool_follow_up")
_FEW_CALLS = 3  # of five: below it calls should be constrained, where the server can
_SMALL_WINDOW = 16_384
_MIN_TIMED_S = 0.02


class ProbeTask(NamedTuple):
    """One request. `fault` says what is wrong with an answer, None if it is as asked."""

    test: str
    prompt: str
    tools: tuple[ToolSpec, ...]
    fault: Callable[[Sequence[AnyItem]], str | None]
    before: tuple[AnyItem, ...] = ()  # calls and outputs that follow the prompt
    output_schema: bytes | None = None


class ProbeResult(Value):
    """The result of one request. `works`: the model did what was asked.

    `answered`: the server accepted the request, or refused only the feature under test.
    """

    test: str
    works: bool = False
    answered: bool = False
    slow: bool = False  # no answer within the limit of time
    detail: str = ""
    seconds: float = 0.0
    first_byte_s: float | None = None
    input_tokens: int = 0
    cached_tokens: int = 0  # of the input
    output_tokens: int = 0
    reasoned: bool = False


class ProbedModel(Value):
    """The provider and model that are probed."""

    provider: str
    model: ModelInfo
    why: str


class ProbeSummary(Value):
    """What all results say together. None: not known."""

    calls_worked: int
    calls: int
    context_window: int
    window_known: bool  # False: a guess, as neither the catalogue nor the server says it
    input_tokens_per_s: float | None = None
    output_tokens_per_s: float | None = None
    memory_bytes: int | None = None
    dialect: dict[str, object] = {}  # what the server takes, where no table said so before


async def run_probe(
    order: ProbeOrder, tasks: Sequence[ProbeTask]
) -> AsyncGenerator[ProbedModel | ProbeResult | ProbeSummary, None]:
    """Yield the chosen model, one result per request, and what they say together.

    It ends without the latter where the server gives no answer: to the first request, to two in a
    row within the limit of time, or at all. A single slow answer is a result like any other.

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
        results: list[ProbeResult] = []
        probe = _Probe(app, LearnedDialects(app.configured_dialect))
        known = probe.dialects.of(choice.model)
        for task in tasks:
            if task.test == WAYS and choice.model.wire == "local":
                continue
            outcome = await _ask(probe, task, limit_s=order.limit_s, redactor=dependencies.redactor)
            results.append(outcome)
            yield outcome
            if not outcome.answered and not is_single_slow(results):
                return
        is_own = choice.model.wire == "local"
        url = choice.provider.base_url
        memory = child_memory_bytes() if is_own else server_memory_bytes(url)
        summary = summarize(choice.model, results, memory_bytes=memory)
        learned = probe.dialects.of(choice.model)
        ways = {} if learned == known else told_apart(learned)
        yield msgspec.structs.replace(summary, dialect=ways)


def is_single_slow(results: Sequence[ProbeResult]) -> bool:
    """True if the last request alone took too long: the server has answered the one before."""
    return len(results) > 1 and results[-1].slow and results[-2].answered


class _Probe(NamedTuple):
    """What is asked, and what it has taught."""

    app: GatewayApp
    dialects: LearnedDialects


def summarize(
    model: ModelInfo, results: Sequence[ProbeResult], *, memory_bytes: int | None
) -> ProbeSummary:
    """The figures of a finished probe.

    The speed of input is that of the longest request, without what the server had cached. The speed
    of output is that of all answers after their first byte.
    """
    calls = [one for one in results if one.test in CALLS]
    timed = [one for one in results if one.first_byte_s is not None]
    longest = max(timed, key=lambda one: one.input_tokens - one.cached_tokens, default=None)
    fresh = 0 if longest is None else longest.input_tokens - longest.cached_tokens
    out_s = sum(one.seconds - (one.first_byte_s or 0.0) for one in timed)
    out = sum(one.output_tokens for one in timed)
    return ProbeSummary(
        calls_worked=sum(one.works for one in calls),
        calls=len(calls),
        context_window=model.context_window,
        window_known=model.known or model.context_window not in GUESSED_WINDOWS,
        input_tokens_per_s=_speed(fresh, longest.first_byte_s if longest else None),
        output_tokens_per_s=_speed(out, out_s),
        memory_bytes=memory_bytes,
    )


def _speed(tokens: int, seconds: float | None) -> float | None:
    if seconds is None or seconds < _MIN_TIMED_S or not tokens:
        return None
    return round(tokens / seconds, 1)


async def _ask(
    probe: _Probe, task: ProbeTask, *, limit_s: float, redactor: Redactor
) -> ProbeResult:
    begun = trio.current_time()
    items: list[AnyItem] = []
    finished: ResponseFinished | None = None
    waits, is_refused = "", False
    detail = f"no answer within {limit_s:g} s"
    with trio.move_on_after(limit_s) as limit:
        try:
            async with aclosing(probe.app.backend.sample(_request(probe, task))) as events:
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
            is_refused = error.failure.kind == "bad_request" and task.test != "text"
    seconds = trio.current_time() - begun
    if finished is None:
        words = f"{detail} ({waits})" if waits and waits not in detail else detail
        clean = redactor.redact_error(words)
        return ProbeResult(
            test=task.test,
            answered=is_refused,
            slow=limit.cancelled_caught,
            detail=clean,
            seconds=seconds,
        )
    fault = task.fault(items)
    result = _result_of(task.test, items, finished, seconds)
    clean = redactor.redact_error(fault or "")
    return msgspec.structs.replace(result, works=fault is None, detail=clean)


def _result_of(
    test: str, items: Sequence[AnyItem], finished: ResponseFinished, seconds: float
) -> ProbeResult:
    """What a whole answer says of the model; whether it is the right one is not looked at."""
    usage = finished.usage
    return ProbeResult(
        test=test,
        answered=True,
        seconds=seconds,
        first_byte_s=finished.first_byte_s,
        input_tokens=usage.input_tokens if usage else 0,
        cached_tokens=usage.cached_input_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
        reasoned=any(isinstance(item, Reasoning) for item in items)
        or bool(usage and usage.reasoning_output_tokens),
    )


def _request(probe: _Probe, task: ProbeTask) -> RenderedRequest:
    """A conversation of its own. Features that the catalogue denies are tested nevertheless."""
    app = probe.app
    model = app.choice.model
    if model.wire != "local":
        model = msgspec.structs.replace(model, can_call_tools=True, structured_output=True)
    owner = ConversationOwner(f"probe-{task.test}", f"/probe/{task.test}", model)
    store = app.new_store(app.own, model, _NO_BLOBS)
    conversation = Conversation(owner, store, dialects=probe.dialects)
    items = (text_message("user", task.prompt), *task.before)
    request = SampleRequest(
        request_id=1,
        turn_id="probe",
        instructions=_INSTRUCTIONS,
        tools=task.tools,
        items=tuple(msgspec.Raw(encode_item(item)) for item in items),
        effort="low" if model.reasoning else None,
        output_schema=task.output_schema,
    )
    conversation.accept(request)
    rendered = conversation.render(request, ordinal=1)
    if task.output_schema is None:
        return rendered

    def refit(failure: Failure, sent: bytes) -> tuple[bytes, ...]:
        """A server that takes no schema is not asked without it: that is the answer."""
        return () if refuses_schema(failure) else rendered.refit(failure, sent)

    return msgspec.structs.replace(rendered, refit=refit)


def learned_entry(
    chosen: ProbedModel, outcomes: Mapping[str, ProbeResult], summary: ProbeSummary | None
) -> dict[str, object]:
    """The keys of the model's entry in models.toml; {} if an entry already says so.

    Too few calls that worked make a small model's calls constrained, where its server takes a
    schema; a small window gets the short prompt.
    """
    model = chosen.model
    if model.wire in {"local", "scripted"}:
        return {}
    worked = 0 if summary is None else summary.calls_worked
    can_be_held = model.wire == "chat" and _works(outcomes, "schema")
    constrained = model.constrained_calls or (can_be_held and worked < _FEW_CALLS)
    learned: dict[str, object] = {"can_call_tools": constrained or worked > 0}
    if constrained:
        learned["constrained_calls"] = True
    if model.wire == "messages":
        learned["structured_output"] = _works(outcomes, "schema")
    if any(outcome.reasoned for outcome in outcomes.values()):
        learned["reasoning"] = True
    if model.context_window <= _SMALL_WINDOW:
        learned["short_prompt"] = True
    ways: dict[str, object] = {} if summary is None else summary.dialect
    is_said = all(getattr(model, key) == value for key, value in learned.items())
    if model.known and is_said and not ways:
        return {}
    entry: dict[str, object] = {"provider": chosen.provider, **learned}
    if ways:
        entry["dialect"] = ways
    if not model.known:
        entry["context_window"] = model.context_window
        if model.wire == "messages":
            entry["max_output_tokens"] = 8192
    return entry


def advise(chosen: ProbedModel, entry: Mapping[str, object], summary: ProbeSummary | None) -> str:
    """The lines for models.toml; "" if there is nothing to write."""
    if not entry:
        return ""
    is_guess = summary is None or not summary.window_known
    notes = {"max_output_tokens": "  # a guess: look it up"}
    if is_guess:
        notes["context_window"] = "  # a guess: look it up"
    lines = [f"[models.{msgspec.json.encode(chosen.model.slug).decode()}]"]
    lines += [f"{key} = {_as_toml(value)}{notes.get(key, '')}" for key, value in entry.items()]
    return "\n".join(lines) + "\n"


def _as_toml(value: object) -> str:
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        return "{ " + ", ".join(f"{key} = {_as_toml(one)}" for key, one in table.items()) + " }"
    return msgspec.json.encode(value).decode()


def _works(outcomes: Mapping[str, ProbeResult], test: str) -> bool:
    return test in outcomes and outcomes[test].works


class PrintFields(Protocol):
    """Prints one line with these fields."""

    def __call__(self, **fields: object) -> None: ...


def probe_lines(order: ProbeOrder, tasks: Sequence[ProbeTask], say: PrintFields) -> int:
    """Run the probe, one line at a time through `say`. Exit code: 0, or 5 if it came to no end."""
    outcomes: dict[str, ProbeResult] = {}
    summaries: list[ProbeSummary] = []

    async def run() -> ProbedModel | None:
        chosen: ProbedModel | None = None
        async with aclosing(run_probe(order, tasks)) as found:
            async for one in found:
                match one:
                    case ProbedModel():
                        chosen = one
                        model = {"model": one.model.slug, "known": one.model.known}
                        say(type="chosen", provider=one.provider, why=one.why, **model)
                    case ProbeResult():
                        outcomes[one.test] = one
                        say(type="probe", **{name: getattr(one, name) for name in _SHOWN})
                    case ProbeSummary():
                        summaries.append(one)
                        say(type="summary", **msgspec.structs.asdict(one))
        return chosen

    try:
        chosen = trio.run(run)
    except BaseExceptionGroup as group:
        if (known := group.subgroup(SwarmError)) is None or group.split(SwarmError)[1] is not None:
            raise
        raise _first(known) from None
    if chosen is not None and summaries:
        entry = learned_entry(chosen, outcomes, summaries[0])
        say(type="advice", models_toml=advise(chosen, entry, summaries[0]), entry=entry)
        return 0
    lost = [outcome.test for outcome in outcomes.values() if not outcome.answered]
    if lost:
        say(type="error", message=f"the test `{lost[-1]}` got no answer; the others were not tried")
    return 5 if lost else 0


def _first(group: BaseExceptionGroup[SwarmError]) -> SwarmError:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


_SHOWN = ("test", "works", "answered", "detail", "seconds", "first_byte_s", "input_tokens",
          "cached_tokens", "output_tokens", "reasoned")  # fmt: skip


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
        settings=GatewaySettings(providers=order.providers, catalogue=order.catalogue),
        provider=order.provider,
        model=order.model,
    )
