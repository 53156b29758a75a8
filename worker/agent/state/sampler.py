"""Client of the gateway: one conversation, one sample at a time.

A sample always ends: by the gateway's final event, by the deadline on its silence, or because the
gateway was restarted. The caller keeps the events received until then.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import assert_never

import msgspec
import trio

from swarm.mailbox.base.errors import MailboxError, MessageTooLarge, SwarmError
from swarm.mailbox.delivery.interfaces import Mailbox
from swarm.mailbox.parts.tool_names import TOOLS_WITHOUT_COMMANDS
from swarm.mailbox.protocol.sampling import (
    AnySampleEvent,
    CancelSample,
    ConversationOpened,
    ConversationRefused,
    ModelInfo,
    NeedHistory,
    OpenConversation,
    ReasoningDelta,
    SampleAlive,
    SampleCompleted,
    SampleErrorKind,
    SampleFailed,
    SampleItemDone,
    SampleItemStarted,
    SampleRequest,
    SampleWaiting,
    TextDelta,
    ToolSpec,
    decode_sample_event,
    encode_sample_op,
)
from swarm.mailbox.protocol.settings import SamplingSettings, Summary, Verbosity
from swarm.mailbox.protocol.values.base import Value

from ...base.current_spec import CurrentSpec
from ..context.conversation_history import ConversationHistory, UnsentItems

SILENCE_MARGIN_S = 30.0  # on top of the provider's idle timeout: the gateway gives up first
ALIVE_LIMIT_S = 7200.0  # for a gateway that sends nothing but SampleAlive
OPEN_LIMIT_S = 1800.0  # for ConversationOpened; the gateway may have to fetch the model
_CANCEL_LIMIT_S = 0.05
_RETRY_DELAY_S = 0.2  # doubled with each retry

OpenMailbox = Callable[[str], AbstractAsyncContextManager[Mailbox]]
SampleStreamEvent = SampleItemStarted | TextDelta | ReasoningDelta | SampleItemDone | SampleWaiting
OnSampleEvent = Callable[[SampleStreamEvent], bool]


class SamplingError(SwarmError):
    """A sample or the conversation failed. Carries the gateway's SampleFailed or a local one."""

    def __init__(self, failed: SampleFailed) -> None:
        super().__init__(failed.message)
        self.failed = failed


class SampleParameters(Value):
    """Parameters that stay the same over the requests of one turn."""

    turn_id: str
    instructions: str
    tools: tuple[ToolSpec, ...] = ()
    effort: str | None = None
    output_schema: bytes | None = None
    # Only for a request outside of the conversation:
    extra: tuple[msgspec.Raw, ...] = ()  # items that follow the history in this request only
    instead: tuple[msgspec.Raw, ...] | None = None  # items in place of the history
    compacts: bool = False  # the provider compacts the history instead of answering
    summary: Summary = "auto"
    verbosity: Verbosity | None = None
    sampling: SamplingSettings = SamplingSettings()


class Sampler:
    """Sends requests to the gateway, one at a time. `stay_connected` runs beside it."""

    def __init__(
        self,
        current: CurrentSpec,
        history: ConversationHistory,
        dial: OpenMailbox,
        *,
        before_sample: Callable[[], Awaitable[None]],
    ) -> None:
        self._current, self._history, self._open_mailbox = current, history, dial
        spec = current.spec
        self._endpoint = spec.gateway.endpoint
        self._token = spec.gateway.token
        self._mailbox: Mailbox | None = None
        self._connected = trio.Event()
        self._moved = trio.Event()
        self._attempt: trio.CancelScope | None = None
        self._model: ModelInfo | None = None
        self._refusal: SamplingError | None = None
        self._requests = 0
        self._opens_unanswered = 0  # sent on this mailbox and not yet answered
        self._must_reopen = False
        self._before_sample, self._sampling = before_sample, trio.Lock()
        self._command_expected = trio.Event()  # the model has begun to write such a call

    async def stay_connected(self) -> None:
        """Hold a mailbox to the gateway; open a new one whenever it has moved. Loops for ever."""
        while True:
            moved = self._moved
            opening = encode_sample_op(self._opening())
            async with self._open_mailbox(self._endpoint) as mailbox:
                await mailbox.post(opening)
                if not moved.is_set():
                    self._mailbox, self._opens_unanswered = mailbox, 1
                    self._connected.set()
                await moved.wait()

    async def wait_command_expected(self) -> None:
        """Return when the model has begun to write a call that may start a command, since the last
        return. For one task.
        """
        await self._command_expected.wait()
        self._command_expected = trio.Event()

    def _opening(self) -> OpenConversation:
        spec = self._current.spec
        return OpenConversation(
            token=self._token,
            agent_id=spec.agent_id,
            agent_path=spec.path,
            model=spec.model_settings.model,
            provider=spec.model_settings.provider,
        )

    @property
    def model(self) -> ModelInfo | None:
        """The model of the open conversation; None while there is none."""
        return self._model

    def reopen_conversation(self) -> None:
        """Open the conversation again before the next sample, because the model has changed."""
        self._must_reopen = True
        self._history.forget_sent()
        self._model, self._refusal = None, None

    def move(self, endpoint: str, token: bytes) -> None:
        """The gateway restarted: a running sample fails as retryable, the next uses `endpoint`."""
        self._endpoint, self._token = endpoint, token
        self._history.forget_sent()
        self._mailbox, self._connected, self._refusal = None, trio.Event(), None
        moved, self._moved = self._moved, trio.Event()
        moved.set()
        if self._attempt is not None:
            self._attempt.cancel()

    async def wait_model(self) -> ModelInfo:
        """Return the model of this conversation; the first call waits for the gateway.

        Raises SamplingError if the gateway refuses the conversation or stays silent.
        """
        while self._model is None:
            if self._refusal is not None:
                raise self._refusal
            try:
                await self._receive_model()
            except SamplingError as trouble:
                if trouble.failed.kind != "connection_failed":
                    raise  # otherwise the gateway was restarted before it answered: ask the new one
        return self._model

    async def _receive_model(self) -> None:
        async with self._attempting(OPEN_LIMIT_S) as mailbox:
            if self._must_reopen:
                self._must_reopen = False
                self._opens_unanswered += 1
                await mailbox.post(encode_sample_op(self._opening()))
            event = await self._next_event(mailbox)
            if not isinstance(event, ConversationOpened | ConversationRefused):
                return
            self._opens_unanswered -= 1
            if self._opens_unanswered > 0:
                return  # the answer for a model that was replaced meanwhile
            if isinstance(event, ConversationOpened):
                self._model = event.model
            else:
                self._refusal = _sampling_error("no_provider", event.message)

    async def sample(
        self, question: SampleParameters, on_event: OnSampleEvent
    ) -> SampleCompleted | None:
        """Sample once; `on_event` receives each event in order and may return True to end early.

        A second task waits until the first one's sample has ended. Returns None if `on_event` ended
        it. The request is sent after `before_sample` has returned.

        Raises:
            SamplingError: The attempt failed; the events that `on_event` received stay valid.
        """
        await self._before_sample()
        async with self._sampling, self._attempting(self._silence_s()) as mailbox:
            self._requests += 1
            number = self._requests
            ended = False
            try:
                await self._send(mailbox, question, number)
                completed = await self._listen(mailbox, question, number, on_event)
                ended = completed is not None
                return completed
            except SamplingError:
                ended = True
                raise
            finally:
                if not ended and mailbox is self._mailbox:
                    await _cancel(mailbox, number)

    def _silence_s(self) -> float:
        idle_s = self._model.stream_idle_s if self._model is not None else 300.0
        return idle_s + SILENCE_MARGIN_S

    async def _listen(
        self, mailbox: Mailbox, question: SampleParameters, number: int, on_event: OnSampleEvent
    ) -> SampleCompleted | None:
        silence_s = self._silence_s()
        give_up_at = trio.current_time() + ALIVE_LIMIT_S
        while True:
            if self._attempt is not None:
                self._attempt.deadline = min(trio.current_time() + silence_s, give_up_at)
            silence_s = self._silence_s()
            event = await self._next_event(mailbox)
            if not isinstance(event, SampleAlive):
                give_up_at = trio.current_time() + ALIVE_LIMIT_S
            match event:
                case ConversationOpened(model=model):
                    self._model = model
                    continue
                case ConversationRefused(message=message):
                    raise _sampling_error("no_provider", message)
                case _ if event.request_id != number:
                    continue  # the rest of a sample that was given up
                case NeedHistory():
                    self._history.forget_sent()
                    await self._send(mailbox, question, number)
                case SampleCompleted():
                    return event
                case SampleFailed():
                    raise SamplingError(event)
                case SampleItemStarted() | TextDelta() | ReasoningDelta() | SampleItemDone():
                    if isinstance(event, SampleItemStarted) and self._may_start_command(event):
                        self._command_expected.set()
                    if on_event(event):
                        return None
                case SampleAlive():
                    continue  # it only moves the deadline
                case SampleWaiting(delay_s=delay_s):
                    silence_s += delay_s
                    on_event(event)
                case _:
                    assert_never(event)

    def _may_start_command(self, begun: SampleItemStarted) -> bool:
        """True for a call of a tool that may run one, or of any tool if hooks may."""
        is_call = begun.kind.endswith("_call")
        return is_call and (
            bool(self._current.spec.inherited.hooks) or begun.tool not in TOOLS_WITHOUT_COMMANDS
        )

    async def _send(self, mailbox: Mailbox, question: SampleParameters, number: int) -> None:
        unsent = self._history.unsent()
        if question.instead is not None:
            unsent = UnsentItems(0, b"", question.instead)
        request = SampleRequest(
            request_id=number,
            turn_id=question.turn_id,
            instructions=question.instructions,
            tools=question.tools,
            base_count=unsent.base_count,
            base_digest=unsent.base_digest,
            items=(*unsent.items, *question.extra),
            effort=question.effort,
            output_schema=question.output_schema,
            compacts=question.compacts,
            summary=question.summary,
            verbosity=question.verbosity,
            sampling=question.sampling,
        )
        if question.instead is None:
            self._history.mark_sent()
        else:
            self._history.forget_sent()
        try:
            await mailbox.post(encode_sample_op(request))
        except MessageTooLarge as error:  # a shorter history may fit
            self._history.forget_sent()
            raise _sampling_error("context_window_exceeded", str(error)) from error
        except MailboxError as error:
            self._history.forget_sent()
            raise _sampling_error(
                "bad_request", f"the request could not be sent: {error}"
            ) from error

    async def _next_event(self, mailbox: Mailbox) -> AnySampleEvent:
        message = await mailbox.receive()
        try:
            event: AnySampleEvent = decode_sample_event(message.body)
            return event
        except ValueError as error:
            raise _sampling_error(
                "bad_response", f"the gateway sent what is not an event: {error}"
            ) from error
        finally:
            mailbox.acknowledge(message, soon=False)

    @asynccontextmanager
    async def _attempting(self, limit_s: float) -> AsyncIterator[Mailbox]:
        """Yield a mailbox; silence or a moved gateway ends the scope with SamplingError."""
        moved = self._moved
        scope = trio.CancelScope(deadline=trio.current_time() + limit_s)
        self._attempt = scope
        with scope:
            try:
                while self._mailbox is None:
                    await self._connected.wait()
                yield self._mailbox
            finally:
                self._attempt = None
        if scope.cancelled_caught:
            if moved.is_set():
                text = "the gateway was started again while it answered"
                raise _sampling_error("connection_failed", text, retryable=True)
            text = f"the gateway said nothing for {limit_s:.0f} s"
            raise _sampling_error("idle_timeout", text, retryable=True)


async def _cancel(mailbox: Mailbox, number: int) -> None:
    """Cancel the sample at the gateway; time-limited, and shielded from our own cancellation."""
    with trio.move_on_after(_CANCEL_LIMIT_S, shield=True), suppress(MailboxError):
        await mailbox.post(encode_sample_op(CancelSample(request_id=number)))


def _sampling_error(
    kind: SampleErrorKind, message: str, *, retryable: bool = False
) -> SamplingError:
    failed = SampleFailed(request_id=0, kind=kind, message=message, retryable=retryable)
    return SamplingError(failed)


def plan_retry(failed: SampleFailed, *, attempt: int, most: int, noise: float) -> float | None:
    """Return the seconds to wait before retry number `attempt` (from 1); None: give up.

    The gateway retries requests; this is for streams that broke. A delay that the server names
    counts.

    Args:
        failed: Why the attempt ended.
        attempt: Number of the retry.
        most: How many retries the provider's settings allow.
        noise: Uniform in [0, 1): the delay varies by a tenth each way.
    """
    if not failed.retryable or attempt > most:
        return None
    if failed.retry_after_s is not None:
        return max(0.0, failed.retry_after_s)
    return _RETRY_DELAY_S * 2.0 ** (attempt - 1) * (0.9 + 0.2 * noise)
