"""The interface between the gateway and what answers: HTTP, script, recording, embedded model.

A backend turns one rendered request into response events, in order. It ends with `ResponseFinished`
or raises `SampleError`. It does not know the mailbox; closing its generator ends its work at once.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, Protocol

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.mailbox.protocol.gateway import Fetching, LimitWindow
from swarm.mailbox.protocol.items import AnyItem, TokenUsage
from swarm.mailbox.protocol.sampling import ModelInfo, SampleErrorKind, ToolSpec
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.mailbox.protocol.values.base import Tagged, Value

NewId = Callable[[], str]  # makes short unique ids; an argument, so that a replay can repeat them

# Who must wait after a failure: nobody (it is final), this request alone, or every request to the
# same server, because the server said so or cannot be reached.
FailureScope = Literal["final", "request", "everyone"]


class ResponseItemStarted(Tagged, tag="item_started"):
    item_id: str
    kind: str
    tool: str = ""  # the name that a call has, if it is known already


class ResponseTextDelta(Tagged, tag="text_piece"):
    item_id: str
    text: str


class ResponseReasoningDelta(Tagged, tag="reasoning_piece"):
    item_id: str
    text: str


class ResponseItemDone(Tagged, tag="item_done"):
    """A complete item. Its `id` is the `item_id` of its deltas, if there were any."""

    item: AnyItem


class RequestWaiting(Tagged, tag="held"):
    """The request waits: a notice for people. Not part of the response, and not recorded."""

    reason: str
    delay_s: float
    attempt: int = 0
    max_attempts: int = 0


class ResponseFinished(Tagged, tag="finished"):
    """The last event. `truncated`: the model stopped at an output limit and did not end by
    itself.
    """

    response_id: str = ""
    usage: TokenUsage | None = None
    end_turn: bool | None = None
    truncated: bool = False
    first_byte_s: float | None = None


class RequestAccepted(Tagged, tag="accepted"):
    """First event of an attempt: the server accepted the request. For the rate limiter only.

    `pause_s`: the headers say that the allowance is used up for so long. `limits`: all allowances
    that the headers report.
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
    """Why an attempt failed: what the agent receives, and who must wait."""

    kind: SampleErrorKind
    message: str
    retryable: bool = False
    retry_after_s: float | None = None
    resets_at_unix_s: float | None = None  # when the limit that was reached resets
    http_status: int | None = None
    window_tokens: int | None = None  # the window that the server named when it was exceeded
    scope: FailureScope = "final"
    may_be_too_long: bool = False  # in unknown words; a shorter conversation is tried once
    said: str = ""  # the texts of the error's body: what a refusal is read from


class SampleError(SwarmError):
    """The response failed; `failure` says how. Becomes `SampleFailed`; never ends the gateway."""

    exit_code = 5

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class RenderedRequest(Value):
    """One request, ready for a backend.

    HTTP backends use only `body` (its parts joined are the whole JSON body). The embedded model and
    scripts use `items` and the other fields. `ordinal` counts the requests of this agent: 1, 2, …
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
    compacts: bool = False  # the provider shortens the conversation and does not answer
    shape: bytes = b""  # digest of the kinds of items; a recording compares it
    # The body with this text at its end as the model's partial answer; () if the wire cannot
    # express that.
    with_partial: Callable[[str], tuple[bytes, ...]] = lambda text: ()
    # The body without the thinking of earlier responses; () if there is none to leave out.
    without_thinking: Callable[[], tuple[bytes, ...]] = tuple
    # The body without the schema that holds calls to their form, from now on; () if there is none.
    without_schema: Callable[[], tuple[bytes, ...]] = tuple
    # The body without what this failure says that the server does not take, after the body that
    # was sent; () if it says nothing that could be sent otherwise.
    refit: Callable[[Failure, bytes], tuple[bytes, ...]] = lambda failure, sent: ()
    note_accepted: Callable[[], None] = lambda: None  # the server took the body
    # What to say of what is left out or sent otherwise; each is said once.
    take_notices: Callable[[], tuple[str, ...]] = tuple


class Backend(Protocol):
    """Something that answers."""

    def sample(self, request: RenderedRequest) -> ResponseEvents:
        """Answer once. Raises SampleError. The caller closes the generator (`aclosing`)."""
        ...


class ResponseSource(Protocol):
    """A source that can be tried more than once; `RetryingBackend` makes a backend of it."""

    def attempt(self, request: RenderedRequest) -> AttemptEvents:
        """Try once. Raises SampleError, whose scope says who must wait."""
        ...


class LocalModule(Protocol):
    """The interface of `local_backend.py`, which is imported only for the embedded model."""

    def find_capable_model(
        self, models_dir: Path, additions: Sequence[str]
    ) -> tuple[str, int] | None:
        """Name a model that can call tools, whose file is here, and for which there is memory.

        Returns its name and the bytes of memory that are free, or None.
        """
        ...

    async def prepare_local(
        self,
        models_dir: Path,
        slug: str,
        additions: Sequence[str],
        report: Callable[[Fetching], None],
        places: WritablePlaces,
    ) -> str | None:
        """Make sure that the model can be loaded; fetch its file if that is possible.

        `report` receives the progress; agents may write in `places`. Returns None if the model can
        be loaded, else one sentence that says why not and what to do.
        """
        ...

    def open_local(
        self,
        models_dir: Path,
        model: ModelInfo,
        provider: ProviderSpec,
        additions: Sequence[str],
        *,
        bind: str,
        new_id: NewId,
    ) -> AbstractAsyncContextManager[Backend]:
        """The backend of that model. It loads the weights at its first request or earlier.

        `bind`: the gateway's own endpoint; the library's socket lies beside it. "" if there is
        none.
        """
        ...
