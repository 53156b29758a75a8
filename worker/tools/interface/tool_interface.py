"""Interfaces of tools: description for the model, preparation of a call, its result.

A tool reports its own failure as an output: it returns a `ToolResult` or raises ToolFailed, whose
text the model reads. Any other exception is a bug.
"""

from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

from msgspec.structs import replace

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.approvals import AnyAction
from swarm.mailbox.protocol.events import AnyCallDetail, FileChange
from swarm.mailbox.protocol.items import AnyCall, text_of
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.mailbox.protocol.values.base import Value

from ...base.truncate import CommandText, OutputContent
from ...policy.command_decision import Ask, PolicyDecision, Run
from ...policy.shell_parser import Words

OnOutput = Callable[[str], None]  # receives output as it arrives, as text

# What the model reads for an aborted call; `{seconds}` has one decimal.
ABORTED_COMMAND = "Wall time: {seconds} seconds\naborted by user"
ABORTED_CALL = "aborted by user after {seconds}s"


class ToolFailed(SwarmError):
    """A call could not run or failed. The text is for the model."""


class ToolResult(Value):
    """How a call ended. `content` is for the model, the rest for people and the journal."""

    content: OutputContent  # not yet cut
    status: Literal["completed", "failed", "declined"] = "completed"
    exit_code: int | None = None
    session_id: int | None = None
    changes: tuple[FileChange, ...] = ()
    shown: str = ""  # the output as people see it; "" = the content's text
    denied: bool = False  # it looks as if the sandbox stopped it
    ends_turn: bool = False  # the approver refused and ended the turn
    untrusted: bool = False  # strangers may have written what it holds

    @property
    def text(self) -> str:
        """The content's whole text."""
        content = self.content
        return content.whole if isinstance(content, CommandText) else text_of(content)

    def framed(self, *, head: str = "", tail: str = "") -> "ToolResult":
        """Return the result with text before and after it, for the model and for people."""
        content, shown = self.content, f"{head}{self.shown or self.text}{tail}"
        if isinstance(content, CommandText):
            content = replace(content, head=head + content.head, tail=content.tail + tail)
        else:
            content = f"{head}{text_of(content)}{tail}"
        return replace(self, content=content, shown=shown)


class Proposal(Value):
    """What an approver is shown, in addition to the decision's `Ask`.

    `keys` name what an approval for longer than once would cover, as canonical JSON texts; without
    keys an approval holds only once. `prefix` is the rule that could be remembered, `exact` for
    these words alone.
    """

    action: AnyAction
    keys: tuple[str, ...] = ()
    prefix: Words = ()
    exact: bool = False


class Invocation(Protocol):
    """A prepared call that may run."""

    @property
    def detail(self) -> AnyCallDetail:
        """What people see when the call begins; read after `judge`."""
        ...

    def judge(self) -> PolicyDecision:
        """Decide whether it may run, from facts and policy only; changes nothing."""
        ...

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        """Run the call. Raises ToolFailed; cancellation does not undo what was done."""
        ...


@runtime_checkable
class ApprovableInvocation(Protocol):
    """A prepared call that can be approved; any other call that needs approval is refused."""

    def propose(self, ask: Ask) -> Proposal:
        """Return what to show the approver; `ask` comes from `judge` or `reconsider`."""
        ...


@runtime_checkable
class RetriableInvocation(Protocol):
    """A prepared call that may be run again when its result says `denied`."""

    def reconsider(self, ran: Run) -> Run | Ask | None:
        """Return how it may be run again after the run `ran`; None: not at all."""
        ...


@runtime_checkable
class FileChangingInvocation(Protocol):
    """A prepared call that may change files, so that the supervisor records them first."""

    def files_to_watch(self, run: Run) -> tuple[str, ...] | None:
        """Return the absolute paths that this run is known to change; None: it changes none."""
        ...


@runtime_checkable
class TurnTakingInvocation(Protocol):
    """A prepared call that may be heavy for the machine, and then waits for its turn."""

    @property
    def takes_turns(self) -> bool:
        """True if it is heavy."""
        ...

    async def wait_turn(self) -> None:
        """Return when the next run may begin; that run ends the turn. The wait is bounded."""
        ...

    def drop_turn(self) -> None:
        """End a turn that no run has used."""
        ...


class SupervisorRequestOnly:
    """A prepared call that only sends a request to the supervisor, which reads messages in order.

    The supervisor receives the call's begin before the request, so the call need not wait until its
    begin is journaled.
    """


class Tool(Protocol):
    """One tool. It lives as long as its agent."""

    name: str
    parallel: bool  # may run beside other parallel-safe calls
    aborted_text: str

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        """Return the description for this model; None: the tool is not offered."""
        ...

    def accepts(self, call: AnyCall) -> bool:
        """True if the call is of a kind (function, freeform) that this tool can read."""
        ...

    async def prepare(self, call: AnyCall) -> Invocation:
        """Decode the call and collect facts. Changes nothing.

        Raises ToolFailed if the call is invalid.
        """
        ...
