"""An agent's view of its team, and the base class of the tools that send team requests.

Every request ends by its reply, its deadline or an interrupt. The model reads a refusal as an
output. A long request is shown as a wait and counts as progress.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec
import trio

from swarm.mailbox.base.ids import ROOT_PATH, AgentPath, resolve_path
from swarm.mailbox.protocol.events import OtherCall
from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.requests import AnyReply, AnyRequest, RequestRefused
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import AgentSpec

from ...base.current_spec import CurrentSpec
from ...base.inbox import Inbox
from ...base.reporter import Reporter
from .function_tool import DirectInvocation, FunctionTool
from .tool_interface import (
    SupervisorRequestOnly,
    ToolFailed,
    ToolResult,
)

SHORT_LIMIT_S = 30.0  # for requests that the supervisor answers at once or bounds itself
SHOW_AFTER_S = 0.5  # a request that takes longer is shown as a wait
DEPTH_REACHED = "Agent depth limit reached. Solve the task yourself."
NO_ROOM = "No other agent can run beside you here (max_agents is 1). Solve the task yourself."
EMPTY_MESSAGE = "message must not be empty: write into it what the agent is to read"
_DETAIL_CHARS = 300
Reply = TypeVar("Reply", bound=AnyReply)


class TeamClient:
    """One agent's view of its team; it lives as long as the agent."""

    def __init__(self, current: CurrentSpec, reporter: Reporter, inbox: Inbox) -> None:
        self._current = current
        self._reporter = reporter
        self.inbox = inbox
        spec = current.spec
        self.path = AgentPath(spec.path)
        # Children not closed, path → nickname; a finished child can get another task.
        self.children = {child.path: child.nickname for child in spec.resumed.children}
        # Path → hash of the result that a wait has returned.
        self._shown_results: dict[str, int] = {}

    @property
    def spec(self) -> AgentSpec:
        """The agent's spec with the settings that hold now."""
        return self._current.spec

    @property
    def may_spawn(self) -> bool:
        """True if this agent may ever start another; otherwise it is offered no team tools."""
        return self.spec.may_spawn

    def check_may_spawn(self) -> None:
        """Raise ToolFailed if this agent may not start another."""
        if self.spec.depth >= self.spec.limits.max_depth:
            raise ToolFailed(DEPTH_REACHED)
        if not self.spec.team.can_spawn:
            raise ToolFailed(NO_ROOM)

    def list_children(self, *, newest: int = 0) -> tuple[tuple[str, str], ...]:
        """Return (name, nickname) of each child, sorted; of the newest only, or of all (0)."""
        children = sorted(tuple(self.children.items())[-newest:])
        return tuple((path.rpartition("/")[2], nickname) for path, nickname in children)

    def note_result_shown(self, path: str, result: str) -> None:
        """Note that the model has this result whole: the final answer need not repeat it."""
        self._shown_results[path] = hash(result.strip())

    def forget_result_shown(self, path: str) -> None:
        """Note that this agent works on another task: its next answer is a new one."""
        self._shown_results.pop(path, None)

    def was_result_shown(self, mail: Mail) -> bool:
        """True, once, for a final answer with the content that a wait has already returned."""
        if mail.kind != "final_answer" or mail.author not in self._shown_results:
            return False
        return self._shown_results.pop(mail.author) == hash(mail.content.strip())

    def resolve(self, reference: str, *, argument: str = "target") -> AgentPath:
        """Return the path that the model means. Raises ToolFailed with the violated rule.

        `argument` is the name of the tool's argument, for the rule's text.
        """
        try:
            return resolve_path(reference.strip(), base=self.path, argument=argument)
        except ValueError as error:
            raise ToolFailed(str(error)) from error

    def resolve_other(self, reference: str, *, root: str, myself: str) -> AgentPath:
        """Like `resolve`; raises ToolFailed with `root` for the root and `myself` for this agent.

        An empty text means that this target is allowed.
        """
        path = self.resolve(reference)
        if path == self.path and myself:
            raise ToolFailed(myself)
        if path == ROOT_PATH and root:
            raise ToolFailed(root)
        return path

    async def request(
        self,
        request: AnyRequest,
        kind: type[Reply],
        *,
        limit_s: float = SHORT_LIMIT_S,
        waiting: str = "waits for the supervisor",
    ) -> Reply:
        """Send a request to the supervisor; returns its reply, which must be of this kind.

        Raises ToolFailed: refused, another kind of reply, or none within `limit_s`.
        """
        try:
            with trio.fail_after(limit_s):
                async with self._reporter.shown_wait(waiting, after_s=SHOW_AFTER_S) as show:
                    reply = await self._reporter.request(
                        request,
                        on_queued=lambda slot: show(f" (number {slot.place} in line for a slot)"),
                    )
        except trio.TooSlowError as error:
            raise ToolFailed(f"collab tool failed: no answer within {limit_s:.0f} s") from error
        if isinstance(reply, RequestRefused):
            raise ToolFailed(reply.message)
        if not isinstance(reply, kind):
            raise ToolFailed("collab tool failed: the supervisor gave an answer of another kind")
        return reply


class TeamInvocation(DirectInvocation, SupervisorRequestOnly):
    """A prepared team call: the supervisor knows the limits and decides."""

    def __init__(self, argument: str, act: Callable[[], Awaitable[ToolResult]]) -> None:
        text = " ".join(argument[: 4 * _DETAIL_CHARS].split())
        super().__init__(OtherCall(argument=text[:_DETAIL_CHARS]), act)


class TeamTool(FunctionTool):
    """A team tool; by default it is offered only to agents that may start others."""

    def __init__(self, team: TeamClient) -> None:
        self._team = team

    def is_offered(self, model: ModelInfo) -> bool:
        return self._team.may_spawn


def require_text(message: str) -> str:
    """Return the message unchanged. Raises ToolFailed if it is blank."""
    if not message.strip():
        raise ToolFailed(EMPTY_MESSAGE)
    return message


def list_found(name: str, rows: list[dict[str, object]], *, note: str, more: int) -> ToolResult:
    """Return what a search found; `note` is said of it, and `more` were left out."""
    answer: dict[str, object] = {name: rows}
    if rows:
        answer["note"] = note
    if more:
        answer["not_listed"] = more
    return ToolResult(content=as_json(answer), shown=f"found: {len(rows)}")


def as_json(value: Mapping[str, object]) -> str:
    """Return an output as a JSON object."""
    return msgspec.json.encode(value).decode()
