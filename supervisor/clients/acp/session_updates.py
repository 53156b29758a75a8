"""A run's events as `session/update`s. No I/O.

The root agent speaks; every other agent is one tool call, whose content tells what it does.
"""

from collections import deque
from typing import TypeAlias

from acp.helpers import (
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_user_message_text,
)
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    ContentToolCallContent,
    Cost,
    FileEditToolCallContent,
    PlanEntry,
    TerminalToolCallContent,
    ToolCallProgress,
    ToolCallStart,
    UsageUpdate,
    UserMessageChunk,
)

from swarm.mailbox.base.ids import ROOT_PATH, is_reviewer
from swarm.mailbox.protocol.control import AnyFeed, Recorded, TransientEvent
from swarm.mailbox.protocol.events import (
    AnyCallDetail,
    CallBegan,
    CallEnded,
    OutputArrived,
    PatchCall,
    PlanCall,
    ReasoningArrived,
    TextArrived,
    TokenCount,
    Warned,
)
from swarm.mailbox.protocol.gateway import ResponseBilled
from swarm.mailbox.protocol.items import Message, Reasoning, text_of
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    InputPosted,
    ItemRecorded,
    Record,
)

from .call_description import (
    call_input,
    call_kind,
    call_locations,
    call_title,
    change_diffs,
    fenced_text,
    one_line,
)

Update: TypeAlias = (
    AgentMessageChunk
    | AgentPlanUpdate
    | AgentThoughtChunk
    | ToolCallProgress
    | ToolCallStart
    | UsageUpdate
    | UserMessageChunk
)
ToolContent: TypeAlias = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent
_OUTPUT_CHARS = 8_000
_ACTIVITIES = 8  # of a sub-agent, shown at once


class SessionUpdates:
    """The updates of one session, in the order of its events.

    Args:
        cwd: Where the agents work, for paths that a command names.
    """

    def __init__(self, cwd: str) -> None:
        self._cwd = cwd
        self._hidden: set[str] = set()  # ids of inputs that the editor sent
        self._streamed = self._thought = ""  # of the message and the reasoning that arrive
        self._output: dict[str, str] = {}  # by call: what arrived of its output
        self._agents: dict[str, _SubAgent] = {}  # by path
        self._usd: float | None = None
        self._skips_first = False

    def hide_input(self, input_id: str = "") -> None:
        """The editor sent this input (""; the run's own first one) and shows it itself."""
        self._hidden |= {input_id} if input_id else set()
        self._skips_first = self._skips_first or not input_id

    def apply(self, event: AnyFeed) -> list[Update]:
        """The updates of the next event."""
        match event:
            case TransientEvent(agent=agent):
                return self._arrived(event) if agent == ROOT_PATH else []
            case Recorded(record=record) if is_reviewer(record.agent):
                return []
            case Recorded(record=record):
                return self._recorded(record)

    def _arrived(self, event: TransientEvent) -> list[Update]:
        match event.event:
            case TextArrived(delta=delta):
                self._streamed += delta
                return [update_agent_message_text(delta)]
            case ReasoningArrived(delta=delta):
                self._thought += delta
                return [update_agent_thought_text(delta)]
            case OutputArrived(call_id=call_id, delta=delta) if call_id in self._output:
                self._output[call_id] = (self._output[call_id] + delta)[-_OUTPUT_CHARS:]
                content = _texts(fenced_text(self._output[call_id]))
                return [_progress(call_id, status="in_progress", content=content)]
            case _:
                return []

    def _recorded(self, record: Record) -> list[Update]:
        match record.body:
            case AgentSpawned(path=path) as body if path != ROOT_PATH:
                return self._spawned(body)
            case AgentEnded() as body:
                return self._ended(body)
            case ResponseBilled(usd=float() as usd):
                self._usd = (self._usd or 0.0) + usd
                return []
            case _ if record.agent == ROOT_PATH:
                return self._root(record)
            case _ if (found := self._agents.get(record.agent)) is not None:
                return found.apply(record)
            case _:
                return []

    def _spawned(self, body: AgentSpawned) -> list[Update]:
        """A new agent, or one that works again after it had ended; a restart shows nothing."""
        if body.path in self._agents:
            return []
        agent = self._agents[body.path] = _SubAgent(body)
        return [agent.start() if body.epoch == 1 else agent.go_on()]

    def _ended(self, body: AgentEnded) -> list[Update]:
        for path, agent in self._agents.items():
            if agent.agent_id == body.agent_id:
                del self._agents[path]
                return [agent.end(body)]
        return []

    def _root(self, record: Record) -> list[Update]:
        match record.body:
            case InputPosted() as body:
                return self._posted(body)
            case ItemRecorded(source="model", item=Message(content=content)):
                rest, self._streamed = _rest(text_of(content), self._streamed), ""
                return [update_agent_message_text(rest)] if rest else []
            case ItemRecorded(source="model", item=Reasoning() as item):
                text = "\n".join(item.summary or item.content)
                rest, self._thought = _rest(text, self._thought), ""
                return [update_agent_thought_text(rest)] if rest else []
            case CallBegan() as body:
                return self._began(body)
            case CallEnded() as body:
                return self._call_ended(body)
            case TokenCount(context_tokens=used, context_window=size) if size:
                cost = None if self._usd is None else Cost(amount=self._usd, currency="USD")
                return [UsageUpdate(session_update="usage_update", used=used, size=size, cost=cost)]
            case Warned(message=message):
                return [update_agent_thought_text(f"Warning: {message}\n")]
            case _:
                return []

    def _posted(self, body: InputPosted) -> list[Update]:
        is_own = body.input_id in self._hidden or self._skips_first
        self._hidden.discard(body.input_id)
        self._skips_first = False
        texts = [part.text for part in body.parts if isinstance(part, TextInput) and part.text]
        return [] if is_own or not texts else [update_user_message_text("\n".join(texts))]

    def _began(self, body: CallBegan) -> list[Update]:
        if isinstance(body.detail, PlanCall):
            entries = [
                PlanEntry(content=step.step, priority="medium", status=step.status)
                for step in body.detail.plan
            ]
            return [update_plan(entries)]
        self._output[body.call_id] = ""
        start = ToolCallStart(
            session_update="tool_call",
            tool_call_id=body.call_id,
            title=call_title(body.tool, body.detail),
            kind=call_kind(body.detail),
            status="in_progress",
            locations=call_locations(body.detail, self._cwd),
            content=_patch_diffs(body.detail),
            raw_input=call_input(body),
        )
        return [start]

    def _call_ended(self, body: CallEnded) -> list[Update]:
        if self._output.pop(body.call_id, None) is None:
            return []
        content: list[ToolContent] = [*change_diffs(body.changes)]
        if body.output and not body.changes:
            content = _texts(fenced_text(body.output[-_OUTPUT_CHARS:]))
        is_good = body.status == "completed" and not body.exit_code
        status = "completed" if is_good else "failed"
        return [_progress(body.call_id, status=status, content=content or None)]


class _SubAgent:
    """An agent below the root, as one tool call."""

    def __init__(self, spawned: AgentSpawned) -> None:
        self.agent_id = spawned.agent_id
        self._title = f"Agent {spawned.path.removeprefix('/root/')} ({spawned.role})"
        self._activities = deque[str](maxlen=_ACTIVITIES)

    @property
    def _id(self) -> str:
        return f"agent-{self.agent_id}"

    def start(self) -> ToolCallStart:
        return ToolCallStart(
            session_update="tool_call", tool_call_id=self._id, title=self._title, kind="think",
            status="in_progress",
        )  # fmt: skip

    def go_on(self) -> ToolCallProgress:
        return _progress(self._id, status="in_progress", content=None)

    def apply(self, record: Record) -> list[Update]:
        """Its progress: its task, what it says, and the calls that it begins."""
        match record.body:
            case InputPosted(parts=parts):
                texts = (part.text for part in parts if isinstance(part, TextInput))
                self._activities.append(f"Task: {one_line(' '.join(texts))}")
            case CallBegan(tool=tool, detail=detail):
                self._activities.append(call_title(tool, detail))
            case ItemRecorded(source="model", item=Message(content=content)):
                self._activities.append(one_line(text_of(content)))
            case _:
                return []
        progress = _texts("\n".join(f"- {one}" for one in self._activities))
        return [_progress(self._id, status="in_progress", content=progress)]

    def end(self, body: AgentEnded) -> ToolCallProgress:
        is_good = body.state in {"completed", "truncated"}
        text = body.message if is_good else f"{body.state}: {body.message}"
        status = "completed" if is_good else "failed"
        return _progress(self._id, status=status, content=_texts(text[-_OUTPUT_CHARS:]))


def _patch_diffs(detail: AnyCallDetail) -> list[ToolContent] | None:
    return (list(change_diffs(detail.changes)) or None) if isinstance(detail, PatchCall) else None


def _rest(text: str, streamed: str) -> str:
    """What of a text has not been streamed yet; all of it if another text was streamed."""
    return text.removeprefix(streamed) if text.startswith(streamed) else text


def _texts(text: str) -> list[ToolContent]:
    return [tool_content(text_block(text))] if text else []


def _progress(call_id: str, *, status: str, content: list[ToolContent] | None) -> ToolCallProgress:
    made = {"tool_call_id": call_id, "status": status, "content": content}
    return ToolCallProgress.model_validate({"session_update": "tool_call_update", **made})
