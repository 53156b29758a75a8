"""Requests for what replaces a long history: the model's summary or the provider's compaction.

The number of requests is bounded. Failed streams are retried like any sample; a history that is too
long to summarize is sent as ever shorter copies; a response without text is requested once more.
The tools stay in the request so that the provider's prompt cache still applies; no call is run.
"""

from collections.abc import Iterator

import msgspec
import trio

from swarm.mailbox.protocol.events import Waiting
from swarm.mailbox.protocol.items import AnyItem, Message, encode_item, text_message, text_of
from swarm.mailbox.protocol.sampling import (
    ModelInfo,
    SampleFailed,
    SampleItemDone,
    SampleItemStarted,
    SampleWaiting,
)
from swarm.mailbox.protocol.values.base import Value

from ...base.token_meter import measure_item
from ..context.context_blocks import harness_text
from ..context.history_trimming import trim_history
from ..context.pinned_state import PinnedState
from ..context.prompt_context import instructions_for
from ..state.agent_state import AgentState
from ..state.sampler import SampleParameters, SampleStreamEvent, SamplingError, plan_retry
from ..state.side_responses import sample_beside

COPY_SHARES = (0.6, 0.35, 0.2)  # shares of a history that was too long to be summarized as a whole
# Errors of the provider, not of this request: the turn could not go on either.
PROVIDER_ERROR_KINDS = frozenset(
    {
        "unauthorized", "missing_key", "no_provider", "usage_limit_exceeded", "connection_failed",
        "overloaded", "stream_disconnected", "idle_timeout",
    }
)  # fmt: skip


def is_overflow(failed: SampleFailed) -> bool:
    """True if the conversation is too long for the model, or may be."""
    return failed.kind == "context_window_exceeded" or failed.may_be_too_long


class SummaryResult(Value):
    """The summary `text`, or why there is none."""

    text: str = ""
    failed: SampleFailed | None = None


class ResponseCollector:
    """Collects one response: its last text and its items."""

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self.text = ""
        self.items: list[AnyItem] = []

    def on_event(self, event: SampleStreamEvent) -> bool:
        """Apply one event; never ends the response early."""
        reporter = self._state.reporter
        match event:
            case SampleItemDone(item=item):
                self.items.append(item)
                if isinstance(item, Message) and text_of(item.content).strip():
                    self.text = text_of(item.content)
            case SampleWaiting():
                reporter.emit_transient(Waiting(reason=event.reason, delay_s=event.delay_s))
            case SampleItemStarted():
                reporter.progress += 1
            case _:
                reporter.progress += 1
        return False


async def request_summary(
    state: AgentState,
    turn_id: str,
    model: ModelInfo,
    items: tuple[AnyItem, ...],
    *,
    whole: bool,
) -> SummaryResult:
    """Request a summary of the conversation from the model.

    Args:
        turn_id: Of the running turn; "" between turns.
        items: The history.
        whole: False: it is known not to fit, so the first request uses a shorter copy.

    Raises:
        SamplingError: The provider fails; nothing was changed.
    """
    result = SummaryResult()
    for copy in _shorter_copies(items, whole=whole):
        result = await _request_summary_of(state, turn_id, model, copy)
        if result.failed is None or result.failed.kind != "context_window_exceeded":
            break
    return result


async def _request_summary_of(
    state: AgentState, turn_id: str, model: ModelInfo, copy: tuple[msgspec.Raw, ...] | None
) -> SummaryResult:
    """Request a summary of the history or of a copy, once more if the response has no text."""
    prompt = state.spec.inherited.context.compact_prompt.strip() or harness_text("compact_prompt")
    failed: SampleFailed | None = None
    for text in (prompt, f"{prompt}\n\n{harness_text('compact_again')}"):
        collector = ResponseCollector(state)
        extra = (msgspec.Raw(encode_item(text_message("user", text))),)
        parameters = _sample_parameters(state, turn_id, model, extra=extra, instead=copy)
        failed = await _sample(state, parameters, collector, model)
        if failed is not None and failed.kind in PROVIDER_ERROR_KINDS:
            raise SamplingError(failed)
        if failed is not None and failed.kind != "incomplete":
            break
        if collector.text.strip():
            return SummaryResult(text=collector.text)
    return SummaryResult(failed=failed)


async def request_provider_compaction(
    state: AgentState, turn_id: str, model: ModelInfo
) -> tuple[AnyItem, ...] | SampleFailed:
    """Have the provider's own endpoint compact the conversation. Raises SamplingError as above."""
    collector = ResponseCollector(state)
    parameters = _sample_parameters(state, turn_id, model, compacts=True)
    failed = await _sample(state, parameters, collector, model)
    if failed is None:
        return tuple(collector.items)
    if failed.kind in PROVIDER_ERROR_KINDS - {"overloaded", "idle_timeout", "stream_disconnected"}:
        raise SamplingError(failed)
    return failed


def _sample_parameters(
    state: AgentState,
    turn_id: str,
    model: ModelInfo,
    *,
    extra: tuple[msgspec.Raw, ...] = (),
    instead: tuple[msgspec.Raw, ...] | None = None,
    compacts: bool = False,
) -> SampleParameters:
    return SampleParameters(
        turn_id=turn_id,
        instructions=instructions_for(state.spec, model),
        tools=state.tool_specs(model),
        effort=state.spec.model_settings.effort,
        summary=state.spec.model_settings.summary,
        verbosity=state.spec.model_settings.verbosity,
        extra=extra,
        instead=instead,
        compacts=compacts,
    )


async def _sample(
    state: AgentState, parameters: SampleParameters, collector: ResponseCollector, model: ModelInfo
) -> SampleFailed | None:
    """Sample with the usual number of stream retries; adds the usage to the meter and the turn."""
    retries = 0
    while True:
        try:
            await sample_beside(state, parameters, collector.on_event)
        except SamplingError as trouble:
            failed = trouble.failed
        else:
            return None
        retries += 1
        delay_s = plan_retry(
            failed, attempt=retries, most=model.stream_max_retries, noise=state.noise()
        )
        if delay_s is None or failed.kind == "refused_budget":
            return failed
        collector.text = ""
        collector.items.clear()
        await trio.sleep(delay_s)


def _shorter_copies(
    items: tuple[AnyItem, ...], *, whole: bool
) -> Iterator[tuple[msgspec.Raw, ...] | None]:
    """Yield what to summarize, in order: None is the history itself, then shorter copies."""
    if whole:
        yield None
    size = sum(map(measure_item, items))
    for share in COPY_SHARES:
        shorter = trim_history(
            items,
            room_tokens=int(size * share),
            note=harness_text("cut_note"),
            state=PinnedState(),
            measure=measure_item,
        )
        if shorter is not None:
            yield tuple(msgspec.Raw(encode_item(item)) for item in shorter)
