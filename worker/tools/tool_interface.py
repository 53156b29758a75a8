"""What a tool is: how a model is told of it, how a call is prepared, what running it yields.

Rule guarded: what a tool cannot do is an output. It returns an `Outcome` or raises ToolFailed,
whose text the model reads; any other exception is a bug.
"""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol, runtime_checkable

import msgspec

from swarm.mailbox.protocol.approvals import AnyAction
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.events import AnyCallDetail, FileChange
from swarm.mailbox.protocol.items import AnyCall, ContentPart
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..policy.command_decision import Ask, PolicyDecision, Run
from ..policy.shell_parser import Words

Schema = Mapping[str, object]
OnOutput = Callable[[str], None]  # gets output as it arrives, as text

# What the model reads of an aborted call; `{seconds}` has one decimal.
ABORTED_COMMAND = "Wall time: {seconds} seconds\naborted by user"
ABORTED_CALL = "aborted by user after {seconds}s"


class ToolResult(Value):
    """How a call ended. `content` is for the model, the rest for people and the journal."""

    content: str | tuple[ContentPart, ...]
    status: Literal["completed", "failed", "declined"] = "completed"
    exit_code: int | None = None
    session_id: int | None = None
    changes: tuple[FileChange, ...] = ()
    shown: str = ""  # the output as people see it; "" = the content's text
    denied: bool = False  # it looks as if the sandbox stopped it
    ends_turn: bool = False  # who was asked has said no and ended the turn


class Proposal(Value):
    """What somebody is asked to allow, beside the `AskTrust` that the decision made.

    `keys` name what a yes for longer than once would cover, as canonical JSON texts; none: it can
    only be for once. `prefix` is the rule that could be remembered.
    """

    action: AnyAction
    keys: tuple[str, ...] = ()
    prefix: Words = ()


class Invocation(Protocol):
    """A call that was understood and may run."""

    @property
    def detail(self) -> AnyCallDetail:
        """What people are told when it begins; asked after `judge`."""
        ...

    def judge(self) -> PolicyDecision:
        """May it run? Facts and policy only; changes nothing."""
        ...

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        """Do it. Raises ToolFailed; a cancelled call leaves done what was done."""
        ...


@runtime_checkable
class ApprovableInvocation(Protocol):
    """A prepared call that somebody can be asked about; any other that asks is refused."""

    def propose(self, ask: Ask) -> Proposal:
        """What to show to who decides; `ask` is what `judge` or `reconsider` gave."""
        ...


@runtime_checkable
class RetriableInvocation(Protocol):
    """A prepared call that may be run again when its outcome says `denied`."""

    def reconsider(self, ran: Run) -> Run | Ask | None:
        """How it may be run again, after it was run like this; None: not at all."""
        ...


class SupervisorRequestOnly:
    """A prepared call that does nothing but ask the supervisor, which takes words in their order.

    What was said before is in its hands before whatever comes of the request, so the call need not
    wait until its own beginning is written.
    """


class Tool(Protocol):
    """One tool. It lives as long as its agent."""

    name: str
    parallel: bool  # may run beside other parallel-safe calls
    aborted_text: str

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        """How this model is told of it; None = it is not."""
        ...

    def accepts(self, call: AnyCall) -> bool:
        """True if the call is of a kind (function, freeform) that this tool can read."""
        ...

    async def prepare(self, call: AnyCall) -> Invocation:
        """Understand the call: arguments and facts. Changes nothing.

        Raises ToolFailed if it cannot be understood.
        """
        ...


def function_spec(
    name: str, description: str, properties: Mapping[str, Schema], *, required: tuple[str, ...]
) -> ToolSpec:
    """A function tool; its properties are sorted, so that the bytes never vary."""
    parameters = {
        "type": "object",
        "properties": {key: properties[key] for key in sorted(properties)},
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description=description, parameters=msgspec.json.encode(parameters))
