"""What a tool is: how a model is told of it, how a call is prepared, what running it yields.

Rule guarded: what a tool cannot do is an output. It returns an `Outcome` or raises ToolFailed,
whose text the model reads; any other exception is a bug.
"""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

import msgspec

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.events import AnyCallDetail, FileChange
from swarm.mailbox.protocol.items import AnyCall, ContentPart
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..policy.decide import Run, Verdict

Schema = Mapping[str, object]
Listen = Callable[[str], None]  # gets output as it arrives, as text

# What the model reads of an aborted call; `{seconds}` has one decimal.
ABORTED_COMMAND = "Wall time: {seconds} seconds\naborted by user"
ABORTED_CALL = "aborted by user after {seconds}s"


class Outcome(Value):
    """How a call ended. `content` is for the model, the rest for people and the journal."""

    content: str | tuple[ContentPart, ...]
    status: Literal["completed", "failed", "declined"] = "completed"
    exit_code: int | None = None
    session_id: int | None = None
    changes: tuple[FileChange, ...] = ()
    shown: str = ""  # the output as people see it; "" = the content's text


class Prepared(Protocol):
    """A call that was understood and may run."""

    @property
    def detail(self) -> AnyCallDetail:
        """What people are told when it begins; asked after `judge`."""
        ...

    def judge(self) -> Verdict:
        """May it run? Facts and policy only; changes nothing."""
        ...

    async def run(self, verdict: Run, listen: Listen) -> Outcome:
        """Do it. Raises ToolFailed; a cancelled call leaves done what was done."""
        ...


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

    async def prepare(self, call: AnyCall) -> Prepared:
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
