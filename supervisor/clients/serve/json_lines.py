"""The structs of `--json` lines: Codex's `exec --json` forms and our additions.

Those of parts are in their own folders. `supervisor/base/json_line.py` says what holds for all.
"""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from swarm.mailbox.protocol.approvals import AnyAction, LossPreview
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.parsed_command import ParsedCommand
from swarm.mailbox.protocol.values.base import SCHEMA_VERSION

from ...base.json_line import JsonLine as JsonLine
from ...base.json_line import JsonPart


class JsonUsage(JsonPart):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class ErrorText(JsonPart):
    message: str


class JsonFileChange(JsonPart):
    path: str
    kind: str
    move_path: str | UnsetType = UNSET


class JsonRateLimit(JsonPart):
    """One rate-limit window of the account at the provider."""

    name: str
    used_percent: float
    window_minutes: float | None
    resets_at_unix_s: float | None


class Todo(JsonPart):
    text: str
    completed: bool


# --- items -----------------------------------------------------------------------------------

ItemStatus = Literal["in_progress", "completed", "failed", "declined"]


class JsonItem(JsonPart, tag_field="type"):
    id: str  # unique in the run; the same in started, updated and completed


class AgentMessage(JsonItem, tag="agent_message"):
    text: str


class ReasoningItem(JsonItem, tag="reasoning"):
    text: str


class CommandExecution(JsonItem, tag="command_execution"):
    command: str  # the complete argv, quoted for a shell
    parsed_cmd: tuple[ParsedCommand, ...]
    aggregated_output: str = ""
    exit_code: int | None = None
    status: ItemStatus = "in_progress"


class FileChangeItem(JsonItem, tag="file_change"):
    changes: tuple[JsonFileChange, ...]
    status: ItemStatus = "in_progress"


class TodoList(JsonItem, tag="todo_list"):
    items: tuple[Todo, ...]


class ToolCall(JsonItem, tag="tool_call"):
    """Our addition: any other tool, with its most telling argument."""

    tool: str
    argument: str
    output: str = ""
    status: ItemStatus = "in_progress"


class McpError(JsonPart):
    message: str


class McpResult(JsonPart):
    """Its text as the model reads it, cut."""

    content: tuple[dict[str, str], ...] = ()


class McpToolCallItem(JsonItem, tag="mcp_tool_call"):
    """A call of a tool of an MCP server."""

    server: str
    tool: str
    arguments: object = None
    result: McpResult | None = None
    error: McpError | None = None
    status: ItemStatus = "in_progress"


AnyJsonItem = (
    AgentMessage
    | ReasoningItem
    | CommandExecution
    | FileChangeItem
    | TodoList
    | McpToolCallItem
    | ToolCall
)

# --- lines -----------------------------------------------------------------------------------


class ThreadStartedLine(JsonLine, tag="thread.started"):
    thread_id: str  # the root agent's id
    run: str


class ProviderLine(JsonLine, tag="provider.chosen"):
    provider: str
    model: str
    why: str


class TurnStartedLine(JsonLine, tag="turn.started"):
    pass


class ItemStartedLine(JsonLine, tag="item.started"):
    item: AnyJsonItem


class ItemUpdatedLine(JsonLine, tag="item.updated"):
    item: AnyJsonItem


class ItemCompletedLine(JsonLine, tag="item.completed"):
    item: AnyJsonItem


class TurnCompletedLine(JsonLine, tag="turn.completed"):
    usage: JsonUsage  # of this turn
    total_usage: JsonUsage  # of this agent since its start
    context_tokens: int = 0
    context_window: int = 0
    context_left_percent: int | None = None  # None: the window is unknown


class TurnFailedLine(JsonLine, tag="turn.failed"):
    error: ErrorText
    reason: str  # "interrupted", "budget", … or the kind of the failure
    usage: JsonUsage
    total_usage: JsonUsage


class ErrorLine(JsonLine, tag="error"):
    message: str


class WarningLine(JsonLine, tag="warning"):
    message: str


class ProviderFallbackLine(JsonLine, tag="provider.fallback"):
    """A provider failed for good; the agent's requests go to another one from now on."""

    failed_provider: str
    failed_model: str
    reason: str  # the kind of the failure
    message: str
    provider: str
    model: str | None  # None: the provider's default


class HookCompletedLine(JsonLine, tag="hook.completed"):
    """A hook has ended; Codex's event of this name, flat."""

    id: str
    event: str
    command: str
    source: str
    status: str  # completed, failed, blocked, stopped
    decision: str
    text: str
    call_id: str
    duration_ms: int


class RateLimitsLine(JsonLine, tag="rate_limits"):
    windows: tuple[JsonRateLimit, ...]


class ReviewEnteredLine(JsonLine, tag="review.entered"):
    target: str
    hint: str
    reviewer: str | UnsetType = UNSET  # the reviewer's path, if it is another agent


class ReviewExitedLine(JsonLine, tag="review.exited"):
    output: dict[str, object] | None  # findings and verdict, as docs/review.md says
    reviewer: str | UnsetType = UNSET


class AgentSpawnedLine(JsonLine, tag="agent.spawned"):
    role: str
    nickname: str
    parent: str | None
    depth: int
    epoch: int  # above 1: a later process, in a resumed run
    model: str | None
    agent_id: str
    pid: int
    sandbox: str
    node: str | UnsetType = UNSET  # the machine, if it is another one


class AgentStatusLine(JsonLine, tag="agent.status"):
    state: str
    end_state: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    usage: JsonUsage | UnsetType = UNSET
    usd: float | UnsetType | None = UNSET


class ApprovalRequestedLine(JsonLine, tag="approval.requested"):
    """Names its agent even if that is the root: a person who answers must know for whom."""

    id: str
    kind: str  # command, patch, network, permissions, questions
    action: AnyAction
    cause: str
    reason: str
    reviewer: str
    preview: LossPreview | None = None


class ApprovalResolvedLine(JsonLine, tag="approval.resolved"):
    """Likewise names its agent."""

    id: str
    outcome: str
    by: str
    scope: str
    reason: str


class FanOutPlannedLine(JsonLine, tag="fan_out.planned"):
    total: int
    role: str
    concurrency: int


class FanOutItemLine(JsonLine, tag="fan_out.item"):
    index: int
    item: str
    state: str
    attempt: int
    done: int
    failed: int
    total: int


class TurnDiffLine(JsonLine, tag="turn.diff"):
    """The file changes of a turn's patches and commands; comes after its `turn.completed`."""

    turn_id: str
    unified_diff: str  # with `file`: only its head
    files: int
    added: int
    removed: int
    hidden: int  # files that are left out because the diff would be too long
    no_copy: int  # files that no undo can bring back
    shared_with: tuple[str, ...]  # agents that may have made some of these changes
    uncovered: tuple[str, ...]  # the first folders where a command's changes are unknown
    uncovered_count: int
    file: str | UnsetType = UNSET  # in the run's folder: the complete diff


class ContextCompactedLine(JsonLine, tag="context.compacted"):
    """An agent's history was compacted; see docs/context.md."""

    id: str
    trigger: str
    means: str
    before_tokens: int
    after_tokens: int
    before_items: int
    after_items: int


class ContextRestoredLine(JsonLine, tag="context.restored"):
    """A person undid the compaction with this id."""

    id: str
    items: int


class BudgetUse(JsonPart):
    """The limits of the run (null: none) and what counts against them."""

    tokens: int | None = None
    usd: float | None = None
    requests: int | None = None
    used_tokens: int = 0
    used_usd: float = 0.0
    used_requests: int = 0

    def plus(self, tokens: int, usd: float | None, requests: int) -> "BudgetUse":
        """The same limits, with more used."""
        return msgspec.structs.replace(
            self,
            used_tokens=self.used_tokens + tokens,
            used_usd=self.used_usd + (usd or 0.0),
            used_requests=self.used_requests + requests,
        )

    def rounded(self) -> "BudgetUse":
        """The same, with the sum of prices cut to what is exact."""
        return msgspec.structs.replace(self, used_usd=round(self.used_usd, 9))


class RunIdleLine(JsonLine, tag="run.idle"):
    """The run waits for input; `status` and `result` are as in `run.completed`."""

    status: str
    result: str | None
    message: str | UnsetType = UNSET


class RunCompletedLine(JsonLine, tag="run.completed"):
    status: str
    result: str | None
    usage: JsonUsage
    agents: int
    run: str
    schema_version: int = SCHEMA_VERSION
    message: str | UnsetType = UNSET
    usd: float | None = None
    duration_s: float = 0.0
    budget: BudgetUse | UnsetType = UNSET  # only if a limit holds
    review_usage: JsonUsage | UnsetType = UNSET  # only if a reviewer was asked; not in `usage`
    review_usd: float | UnsetType | None = UNSET  # its part of `usd`
    redacted: dict[str, int] | UnsetType = UNSET  # only if a secret was hidden: count by rule
    caution: str | UnsetType = UNSET  # only of a model whose answers are not to be trusted


def json_usage(usage: TokenUsage) -> JsonUsage:
    return msgspec.convert(usage, JsonUsage, from_attributes=True)


encode_line = msgspec.json.Encoder().encode
