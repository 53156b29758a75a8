"""The doorway between the gateway's service and whatever answers: HTTP, a script, a tape, a llama.

A backend turns one rendered request into response events, in order, and ends with
`ResponseFinished` or
raises `SampleError`. It knows nothing of mailboxes; closing its generator ends its work at once.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal, Protocol

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.base import Tagged, Value
from swarm.mailbox.protocol.gateway import Fetching, LimitWindow
from swarm.mailbox.protocol.items import AnyItem, TokenUsage
from swarm.mailbox.protocol.sampling import ModelInfo, SampleErrorKind, ToolSpec

NewId = Callable[[], str]  # short unique ids; comes in as an argument, so that a replay can repeat

# Who must wait after a failure: nobody (it is final), this request alone, or every request to the
# same server, because it said so or cannot be reached.
FailureScope = Literal["final", "request", "everyone"]


class ResponseItemStarted(Tagged, tag="item_started"):
    item_id: str
    kind: str


class ResponseTextDelta(Tagged, tag="text_piece"):
    item_id: str
    text: str


class ResponseReasoningDelta(Tagged, tag="reasoning_piece"):
    item_id: str
    text: str


class ResponseItemDone(Tagged, tag="item_done"):
    """A whole item. Its `id` is the `item_id` of its pieces, where there were any."""

    item: AnyItem


class RequestWaiting(Tagged, tag="held"):
    """The request waits; for people. Not part of the answer, and not recorded."""

    reason: str
    delay_s: float
    attempt: int = 0
    max_attempts: int = 0


class ResponseFinished(Tagged, tag="finished"):
    """The last event. `truncated`: the model stopped at an output limit, not at an end."""

    response_id: str = ""
    usage: TokenUsage | None = None
    end_turn: bool | None = None
    truncated: bool = False
    first_byte_s: float | None = None


class RequestAccepted(Tagged, tag="accepted"):
    """First event of an attempt: the server took the request. Told to the gate, not to the agent.

    `pause_s`: its headers say that the allowance is spent for so long; `limits`: what they say of
    allowances at all.
    """

    pause_s: float | None = None
    limits: tuple[LimitWindow, ...] = ()


AnyResponseEvent = (
    ResponseItemStarted
    | ResponseTextDelta
    | ResponseReasoningDelta
    | ResponseItemDone
    | RequestWaiting
    | ResponseFinished
)
ResponseEvents = AsyncGenerator[AnyResponseEvent, None]
AttemptEvents = AsyncGenerator[AnyResponseEvent | RequestAccepted, None]


class Failure(Value):
    """Why an attempt came to nothing: what the agent hears, and who has to wait."""

    kind: SampleErrorKind
    message: str
    retryable: bool = False
    retry_after_s: float | None = None
    http_status: int | None = None
    scope: FailureScope = "final"


class SampleError(SwarmError):
    """The response failed; `failure` says how. Becomes a `SampleFailed`, never ends the gateway."""

    exit_code = 5

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class RenderedRequest(Value):
    """One request, ready to be answered.

    HTTP backends use `body` alone (joined, it is the whole JSON body); the local model and scripts
    use `items` and the rest. `ordinal` counts the requests of this agent: 1, 2, …
    """

    agent_id: str
    agent_path: str
    ordinal: int
    model: ModelInfo
    instructions: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output_schema: bytes | None = None
    items: Sequence[AnyItem] = ()  # empty for the HTTP wires
    body: tuple[bytes, ...] = ()  # empty for the others
    compacts: bool = False  # the provider shall shorten the conversation, not answer
    shape: bytes = b""  # digest of the kinds of items; the cassette compares it
    # The body once more, with this at its end as what the model has said already; () if the wire
    # has no way to say so.
    with_partial: Callable[[str], tuple[bytes, ...]] = lambda text: ()
    # The body once more, without thinking of earlier responses; () if there is none to leave out.
    without_thinking: Callable[[], tuple[bytes, ...]] = tuple


class Backend(Protocol):
    """Something that answers."""

    def sample(self, request: RenderedRequest) -> ResponseEvents:
        """Answer once. Raises SampleError. The caller closes the generator (`aclosing`)."""
        ...


class ResponseSource(Protocol):
    """Something that may be tried more than once; `RetryingBackend` makes a backend of it."""

    def attempt(self, request: RenderedRequest) -> AttemptEvents:
        """Try once. Raises SampleError, whose scope says what may be done about it."""
        ...


class LocalModule(Protocol):
    """What `local.py` offers; it is imported only when the local model is chosen."""

    async def prepare_local(
        self, models_dir: Path, slug: str, tell: Callable[[Fetching], None]
    ) -> str | None:
        """Make sure the model can be loaded, fetching it if that is possible.

        `tell` hears of the progress. Returns None when it can be loaded, else one sentence that
        says why not and what to do.
        """
        ...

    def open_local(
        self, models_dir: Path, model: ModelInfo, *, bind: str
    ) -> AbstractContextManager[Backend]:
        """The backend of that model; it loads the weights at its first request or before.

        `bind`: the gateway's own endpoint, beside which its socket lies; "" where it has none.
        """
        ...
