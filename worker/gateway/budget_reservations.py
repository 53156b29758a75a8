"""Budget reservations: where a limit holds, the supervisor grants each request before it is sent.

Every reservation ends with exactly one event to the supervisor, however its request ends: a bill
(`ResponseBilled`) or `ReservationReleased`. Where no limit holds, nothing is asked and nothing is
counted. Events to the supervisor are queued in order and posted by `run`, so a cancelled request
loses none.
"""

from collections import deque
from collections.abc import Callable

import trio

from swarm.mailbox.delivery.interfaces import Mailbox
from swarm.mailbox.protocol.gateway import (
    Granted,
    NotGranted,
    ReservationReleased,
    Reserve,
    ResponseBilled,
    encode_gateway_event,
)
from swarm.mailbox.protocol.items import (
    AnyItem,
    CustomToolCall,
    FunctionCall,
    Message,
    ProviderItem,
    Reasoning,
    TokenUsage,
    decode_item,
)
from swarm.mailbox.protocol.sampling import ModelInfo, SampleRequest
from swarm.mailbox.protocol.values.base import Value

from ..base.token_meter import BYTES_PER_TOKEN, estimate_item, estimate_tokens
from .backend import (
    AnyResponseEvent,
    Failure,
    RequestWaiting,
    ResponseReasoningDelta,
    ResponseTextDelta,
    SampleError,
)
from .token_usage import price_usd

REPEAT_WAITING_S = 30.0  # how often a request reports that it waits for budget reserved by others


class OutputMargin(Value):
    """The expected output: `factor` times the longest of the last `remembered` outputs."""

    first_tokens: int = 1_000  # used while no output is known
    least_tokens: int = 200
    factor: float = 1.5
    remembered: int = 8


class TokenTally:
    """The tokens in the window of one agent process, and the length of its responses."""

    def __init__(self, margin: OutputMargin) -> None:
        self._margin = margin
        self._held_tokens = 0  # the window after the last response, as the server counted it
        self._outputs: deque[int] = deque(maxlen=margin.remembered)
        self.worked = False  # the model has answered before, perhaps through an earlier gateway

    def note_request(self, request: SampleRequest) -> int:
        """The estimated input tokens. Call it once per request that will be sent."""
        items = 0
        for raw in request.items:
            item = decode_item(bytes(raw))
            items += estimate_item(item, encoded_bytes=len(bytes(raw)))
            self.worked = self.worked or _is_model_output(item)
        if request.base_count:
            return self._held_tokens + items
        tools = sum(len(tool.description) + len(tool.parameters) for tool in request.tools)
        return items + estimate_tokens(len(request.instructions.encode()) + tools)

    def note_usage(self, usage: TokenUsage) -> None:
        """A response was billed."""
        self._held_tokens, self.worked = usage.total_tokens, True
        self._outputs.append(usage.output_tokens)

    @property
    def output_tokens(self) -> int:
        """The expected output tokens of the next response."""
        if not self._outputs:
            return self._margin.first_tokens
        return max(self._margin.least_tokens, int(max(self._outputs) * self._margin.factor))


def _is_model_output(item: AnyItem) -> bool:
    """True for output of the model. Mail from other agents is also a message of role assistant."""
    match item:
        case FunctionCall() | CustomToolCall() | Reasoning() | ProviderItem():
            return True
        case Message(role="assistant", author=None):
            return True
        case _:
            return False


class RequestReservation:
    """The reservation of one request, from the estimate to the bill. Always `close` it."""

    def __init__(self, name: str, agent_id: str, model: ModelInfo) -> None:
        self.name, self.agent_id, self._model = name, agent_id, model
        self.input_tokens = self._output_bytes = 0
        self.granted = self.failed = self.began = self.billed = False
        self.verdict: Granted | NotGranted | None = None
        self.decided = trio.Event()

    def estimate(self, request: SampleRequest, tally: TokenTally) -> Reserve:
        """The reservation to request from the supervisor."""
        self.input_tokens = input_tokens = tally.note_request(request)
        output_tokens = tally.output_tokens
        return Reserve(
            agent_id=self.agent_id,
            reservation=self.name,
            tokens=input_tokens + output_tokens,
            usd=self._price(input_tokens, output_tokens),
            worked=tally.worked,
        )

    def note_event(self, event: AnyResponseEvent) -> None:
        """Count the output so far, for a response that is never billed."""
        match event:
            case ResponseTextDelta(text=text) | ResponseReasoningDelta(text=text):
                self._output_bytes += len(text)
            case RequestWaiting():
                return
            case _:
                pass
        self.began = True

    def lapse(self) -> ReservationReleased:
        """What the request counts as without a bill.

        A server that refused charges nothing. A server that was cut off while it answered, or that
        reported no usage, charges at least the input and the output that arrived.
        """
        if not self.granted:
            return ReservationReleased(agent_id=self.agent_id, reservation=self.name)
        if self.failed and not self.began:
            return ReservationReleased(agent_id=self.agent_id, reservation=self.name, requests=1)
        output_tokens = -(-self._output_bytes // BYTES_PER_TOKEN)
        return ReservationReleased(
            agent_id=self.agent_id,
            reservation=self.name,
            tokens=self.input_tokens + output_tokens,
            usd=self._price(self.input_tokens, output_tokens) or 0.0,
            requests=1,
        )

    def _price(self, input_tokens: int, output_tokens: int) -> float | None:
        usage = TokenUsage(input_tokens=input_tokens, output_tokens=output_tokens)
        return price_usd(usage, self._model)


class BudgetReservations:
    """All reservations of one gateway process.

    Args:
        supervisor: Receives the events; the caller closes it.
        epoch: The gateway's epoch; makes the names of reservations unique in the run.
        asks: Whether a limit holds from the start; `ask_first` turns it on later.
    """

    def __init__(
        self, supervisor: Mailbox, *, epoch: int, asks: bool, margin: OutputMargin | None = None
    ) -> None:
        self._supervisor, self._epoch, self._requires_grants = supervisor, epoch, asks
        self._margin = margin or OutputMargin()
        self._count = 0
        self._tallies: dict[str, TokenTally] = {}  # by agent id; only agents that must ask
        self._exempt_agents: set[str] = set()  # agents that need not ask
        self._open: dict[str, RequestReservation] = {}
        self._outbox: deque[bytes] = deque()
        self._work = trio.Event()

    # --- decisions of the supervisor -----------------------------------------------------------

    def ask_first(self) -> None:
        """A budget limit holds somewhere from now on."""
        self._requires_grants = True
        self._exempt_agents.clear()

    def decide(self, verdict: Granted | NotGranted) -> None:
        """Apply the supervisor's decision; ignored if the reservation was closed."""
        reservation = self._open.get(verdict.reservation)
        if reservation is not None and reservation.verdict is None:
            reservation.verdict = verdict
            reservation.decided.set()

    def forget_agent(self, agent_id: str) -> None:
        """The agent's process has ended."""
        self._tallies.pop(agent_id, None)
        self._exempt_agents.discard(agent_id)

    # --- requests -----------------------------------------------------------------------------

    def open(
        self, agent_id: str, model: ModelInfo, request: SampleRequest
    ) -> RequestReservation | None:
        """Reserve budget for a request that will be sent; None if this agent need not ask."""
        if not self._requires_grants or agent_id in self._exempt_agents:
            return None
        tally = self._tallies.setdefault(agent_id, TokenTally(self._margin))
        self._count += 1
        reservation = RequestReservation(f"{self._epoch}-{self._count}", agent_id, model)
        self._open[reservation.name] = reservation
        self._queue_event(encode_gateway_event(reservation.estimate(request, tally)))
        return reservation

    async def wait_granted(
        self, reservation: RequestReservation, notify: Callable[[RequestWaiting], None]
    ) -> bool:
        """Wait until the request may be sent. Returns True if budget is reserved for it.

        Args:
            reservation: From `open`.
            on_wait: Called while the request waits for budget reserved by others.

        Raises:
            SampleError: The request was refused. Retryable: one last request would be granted.
        """
        while reservation.verdict is None:
            with trio.move_on_after(REPEAT_WAITING_S):
                await reservation.decided.wait()
            if reservation.verdict is None:
                why = "the rest of the budget is held by requests under way"
                notify(RequestWaiting(reason=why, delay_s=REPEAT_WAITING_S))
        match reservation.verdict:
            case Granted(bounded=bounded):
                reservation.granted, reservation.billed = bounded, not bounded
                if not bounded:
                    self._exempt_agents.add(reservation.agent_id)
                return bounded
            case NotGranted(reason=reason, ask_again=ask_again):
                reservation.billed = True  # nothing is reserved
                raise SampleError(
                    Failure(kind="refused_budget", message=reason, retryable=ask_again)
                )

    def bill(self, reservation: RequestReservation | None, billed: ResponseBilled) -> None:
        """Report the usage of a response, and mark its reservation as billed."""
        self._queue_event(encode_gateway_event(billed))
        if reservation is not None:
            reservation.billed = True
            if (tally := self._tallies.get(reservation.agent_id)) is not None:
                tally.note_usage(billed.usage)

    def close(self, reservation: RequestReservation) -> None:
        """The request has ended; without a bill its reservation lapses. Safe during
        cancellation.
        """
        self._open.pop(reservation.name, None)
        if not reservation.billed:
            reservation.billed = True
            self._queue_event(encode_gateway_event(reservation.lapse()))

    # --- outbox -------------------------------------------------------------------------------

    def _queue_event(self, body: bytes) -> None:
        self._outbox.append(body)
        self._work.set()

    async def run(self) -> None:
        """Post the queued events in order, until cancelled."""
        while True:
            await self.flush()
            self._work = trio.Event()
            if not self._outbox:
                await self._work.wait()

    async def flush(self) -> None:
        """Post all queued events. For one task at a time; no event is posted twice."""
        while self._outbox:
            body = self._outbox.popleft()
            posted = False
            try:
                await self._supervisor.post(body)
                posted = True
            finally:
                if not posted:  # cancelled before it got its sequence number
                    self._outbox.appendleft(body)
