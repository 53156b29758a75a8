"""begin_task: a small model says what its task asks for; only then may it change files.

Each turn of a small model starts read-only: its commands run in the read-only sandbox, and every
call that could change something is refused, until it has said with words of the task that the task
asks for a change. Nobody else decides that: an instruction in a file or an output is no task.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated

import msgspec

from swarm.mailbox.base.path_rules import is_writable, without_writing
from swarm.mailbox.contents.context_markers import task_in
from swarm.mailbox.parts.tool_names import BEGIN_TASK, READING_TOOLS
from swarm.mailbox.protocol.events import OtherCall
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.values.limits import Limits

from ...policy.change_claim import TaskClaim, TaskKind, find_claim_fault
from .function_tool import DirectInvocation, FunctionTool, decode_arguments, described
from .tool_interface import Invocation, ToolFailed, ToolResult

_MOST_TASK_CHARS = 64_000  # that are kept of the words of one turn
NOT_BEGUN = (
    "nothing was changed: this turn only reads until the task is known to ask for a change. If it "
    f"asks for one, call {BEGIN_TASK} with `change` and the words of the task that ask for it. If "
    "it asks for none, give your answer"
)
ONLY_MERGES = (
    "the agent that joins what others did in copies writes by `merge_changes` alone; what it runs "
    "only reads. Give such work to an agent, or say in your answer what is left to do"
)
_ANSWERS: dict[TaskKind, str] = {
    "question": "Read what you need: files and commands that change nothing. Then give the answer.",
    "change": "The task asks for a change: files may be changed now. Change only what it asks for.",
    "greeting": "Answer in one or two sentences. Nothing is to be looked up or changed.",
}


class ChangeGate:
    """Whether the model of the running turn may change something. Starts each turn closed."""

    def __init__(self, given: Callable[[], Limits]) -> None:
        """`given` returns the limits that the agent has."""
        self._given = given
        self._is_merging = False
        self._turn = ("", "")  # id and model
        self._task = ""  # the words of this turn, or of the last one that had any
        self._is_new, self._is_held, self._is_claimed = True, False, False

    def begin_turn(self, turn_id: str, model: ModelInfo) -> None:
        """A turn is about to ask this model; the same turn and model change nothing."""
        if self._turn == (turn_id, model.slug):
            return
        is_other_turn = self._turn[0] != turn_id
        self._turn, self._is_claimed = (turn_id, model.slug), False
        self._is_held = model.is_small and model.can_call_tools
        self._is_new = self._is_new or is_other_turn

    def note_task(self, text: str) -> None:
        """Add words of the person, or of who gave the task."""
        before = "" if self._is_new else self._task
        text = task_in(text)
        self._task, self._is_new = f"{before}\n{text}".strip()[-_MOST_TASK_CHARS:], False

    @property
    def is_closed(self) -> bool:
        """True while nothing may be changed, although the limits would allow it."""
        return self._is_held and not self._is_claimed and self.is_writable

    @property
    def is_writable(self) -> bool:
        """True if the limits let the agent write something."""
        return is_writable(self._given().sandbox)

    @property
    def only_reads(self) -> bool:
        """True while commands and patches change nothing."""
        return self.is_closed or (self._given().only_merges and not self._is_merging)

    @contextmanager
    def merging(self) -> Iterator[None]:
        """What is judged inside is a merge: the agent's own limits hold for it."""
        self._is_merging = True
        try:
            yield
        finally:
            self._is_merging = False

    @property
    def reason(self) -> str:
        """Why nothing of it gets more than its sandbox gives; "" if something may."""
        return NOT_BEGUN if self.is_closed else ONLY_MERGES if self._given().only_merges else ""

    @property
    def limits(self) -> Limits:
        """The limits that hold now: read-only ones while the agent only reads."""
        limits = self._given()
        if not self.only_reads:
            return limits
        return msgspec.structs.replace(limits, sandbox=without_writing(limits.sandbox))

    def claim(self, claim: TaskClaim) -> str:
        """Take what the model says; return why a change is not accepted, else ""."""
        self._is_claimed = False
        fault = find_claim_fault(claim, self._task) if claim.asks_for == "change" else ""
        self._is_claimed = claim.asks_for == "change" and not fault
        return fault

    def refusal(self, name: str) -> str:
        """Why this tool cannot be called now; "" if it can."""
        return NOT_BEGUN if name not in READING_TOOLS and self.is_closed else ""


class BeginTaskArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of begin_task."""

    SORTED = False
    asks_for: Annotated[TaskKind, described("What the task asks for.")]
    words: Annotated[str, described("The words of the task that show it, copied.")]


class BeginTaskTool(FunctionTool):
    """The begin_task tool; offered to small models that may write."""

    name = BEGIN_TASK
    arguments = BeginTaskArguments

    def __init__(self, gate: ChangeGate) -> None:
        self._gate = gate

    def is_offered(self, model: ModelInfo) -> bool:
        return model.is_small and self._gate.is_writable

    async def prepare(self, call: AnyCall) -> Invocation:
        given = decode_arguments(call, BeginTaskArguments)
        claim = TaskClaim(asks_for=given.asks_for, words=given.words)
        return DirectInvocation(OtherCall(argument=given.asks_for), partial(self._claim, claim))

    async def _claim(self, claim: TaskClaim) -> ToolResult:
        if fault := self._gate.claim(claim):
            raise ToolFailed(fault)
        return ToolResult(content=_ANSWERS[claim.asks_for])
