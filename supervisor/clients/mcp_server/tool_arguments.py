"""The arguments of each tool, and the JSON schemas that clients see of them. Pure."""

from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from swarm.mailbox.base.call_arguments import decode_call_arguments
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.settings import SandboxMode
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import AskForApproval, Isolation

_T = TypeVar("_T")
_MOST_TEXT = 1 << 20
_RunName: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=80, description="A run's id, or the end of one.")
]
_AgentPath: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=1000, description="An agent's path; the root if left out.")
]
_Background: TypeAlias = Annotated[
    bool, Meta(description="Return at once; swarm_result has the answer later.")
]
ApprovalDecision: TypeAlias = Literal["approve", "approve_session", "deny", "abort"]


class RunBudget(Value, forbid_unknown_fields=True):
    """Limits of the whole run."""

    tokens: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    usd: Annotated[float, Meta(gt=0)] | UnsetType = UNSET


class RunToolArguments(Value, forbid_unknown_fields=True):
    task: Annotated[
        str, Meta(min_length=1, max_length=_MOST_TEXT, description="What the agent is to do.")
    ]
    cwd: Annotated[
        str, Meta(max_length=4096, description="Working folder; inside of the server's own.")
    ] = ""
    role: Annotated[str, Meta(max_length=200, description="Role of the root agent.")] = ""
    model: Annotated[str, Meta(max_length=200, description="The model.")] = ""
    sandbox: (
        Annotated[SandboxMode, Meta(description="At most what the server was started with.")]
        | UnsetType
    ) = UNSET
    approval: (
        Annotated[AskForApproval, Meta(description="When actions are asked about; only stricter.")]
        | UnsetType
    ) = UNSET
    isolation: (
        Annotated[
            Isolation,
            Meta(description="copy: agents that the root starts work in copies of the project."),
        ]
        | UnsetType
    ) = UNSET
    budget: RunBudget | UnsetType = UNSET
    background: _Background = False


class StatusToolArguments(Value, forbid_unknown_fields=True):
    run: (
        Annotated[str, Meta(min_length=1, max_length=80, description="A run; left out: list all.")]
        | UnsetType
    ) = UNSET


class SendToolArguments(Value, forbid_unknown_fields=True):
    run: _RunName
    text: Annotated[str, Meta(min_length=1, max_length=_MOST_TEXT // 2)]
    agent: _AgentPath = ROOT_PATH
    background: _Background = False


class ResultToolArguments(Value, forbid_unknown_fields=True):
    run: _RunName
    wait_s: Annotated[
        float, Meta(ge=0, le=3600, description="How long to wait for an answer that is not there.")
    ] = 30.0


class ApproveToolArguments(Value, forbid_unknown_fields=True):
    run: _RunName
    approval_id: Annotated[str, Meta(min_length=1, max_length=80)]
    decision: ApprovalDecision
    reason: Annotated[
        str, Meta(max_length=4000, description="With a denial: what the model reads.")
    ] = ""
    answers: Annotated[
        dict[str, str], Meta(max_length=20, description="To questions: by question id.")
    ] = {}


class StopToolArguments(Value, forbid_unknown_fields=True):
    run: _RunName
    interrupt_only: Annotated[
        bool, Meta(description="Only stop what runs now; the run goes on waiting for input.")
    ] = False


class CodexToolArguments(Value, forbid_unknown_fields=True, rename="kebab"):
    """Codex's tool `codex`."""

    prompt: Annotated[str, Meta(min_length=1, max_length=_MOST_TEXT)]
    model: Annotated[str, Meta(max_length=200)] = ""
    profile: Annotated[str, Meta(max_length=200)] = ""
    cwd: Annotated[str, Meta(max_length=4096)] = ""
    approval_policy: AskForApproval | UnsetType = UNSET
    sandbox: SandboxMode | UnsetType = UNSET
    config: dict[str, object] = {}
    base_instructions: Annotated[str, Meta(max_length=_MOST_TEXT)] = ""
    developer_instructions: Annotated[str, Meta(max_length=_MOST_TEXT)] = ""
    compact_prompt: Annotated[str, Meta(max_length=_MOST_TEXT)] = ""


class CodexReplyArguments(Value, forbid_unknown_fields=True, rename="camel"):
    """Codex's tool `codex-reply`; one of the two ids is needed."""

    prompt: Annotated[str, Meta(min_length=1, max_length=_MOST_TEXT // 2)]
    thread_id: Annotated[str, Meta(max_length=80)] = ""
    conversation_id: Annotated[str, Meta(max_length=80, description="Older name of threadId.")] = ""


class CodexAnswer(Value, rename="camel", omit_defaults=False):
    """What Codex's tools return."""

    thread_id: str
    content: str


def _schema_of_other(of: type) -> dict[str, object]:
    if of is object:
        return {"description": "any value"}
    raise NotImplementedError(of)


def json_schema(of: type[Value]) -> dict[str, object]:
    """The schema of a struct, its own object at the top; `$defs` for the others."""
    made: dict[str, object] = msgspec.json.schema(of, schema_hook=_schema_of_other)
    definitions = msgspec.convert(made.pop("$defs", {}), dict[str, dict[str, object]])
    top = {key: value for key, value in definitions.pop(of.__name__).items() if key != "title"}
    return top | ({"$defs": definitions} if definitions else {})


def read_arguments(given: object, shape: type[_T]) -> _T:
    """The checked arguments of a call; null is left out. Raises UsageError that names the place."""
    try:
        return decode_call_arguments(msgspec.json.encode(given).decode(), shape)
    except (msgspec.DecodeError, ValueError, OverflowError) as error:
        raise UsageError(f"the arguments do not fit: {error}") from error
