"""Reduce one agent's view: (view, event, time) → view. No I/O; accepts every event.

Every text in a view is cleaned and limited here. One exception is `text`, the end of the text that
is arriving: it may stop inside an escape sequence, so it is cleaned when it is drawn.
"""

from sys import intern

from msgspec.structs import replace

from swarm.mailbox.base.ids import is_reviewer
from swarm.mailbox.protocol.changes import TurnDiff
from swarm.mailbox.protocol.control import AgentState, AgentView
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    HookRan,
    OutputArrived,
    ProviderFallback,
    ReasoningArrived,
    TextArrived,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Waiting,
    Warned,
)
from swarm.mailbox.protocol.gateway import ResponseBilled
from swarm.mailbox.protocol.merge_records import ChangeMeasured
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    AnyRecordBody,
    ContextRecorded,
    ItemRecorded,
    MailHandled,
    MailPosted,
    ProcessEnded,
    SettingsChanged,
)
from swarm.mailbox.protocol.settings import AgentSettings

from ..agents.end_states import GOOD_ENDS
from ..base.safe_text import clean_block, clean_line
from .record_description import (
    describe_call,
    describe_doing,
    describe_fallback,
    describe_hook,
    describe_sandbox,
    describe_waiting,
)

TEXT_TAIL = 400  # characters kept of the text that is arriving
_RESULT = 2_000
_WAITING_TOOLS = frozenset({"wait_agent", "wait"})


def reduce_passing(
    view: AgentView, event: TextArrived | ReasoningArrived | OutputArrived | Waiting, at: float
) -> AgentView:
    """Apply a transient event: 50 agents send 30 each per second, so this is one `replace`."""
    if isinstance(event, Waiting):
        return replace(
            view,
            state=view.state if view.state == "ended" else "waiting",
            note=describe_waiting(event),
        )
    delta = event.delta if isinstance(event, TextArrived) else ""
    return replace(
        view,
        state=_working_state(view),
        text=(view.text + delta)[-TEXT_TAIL:],
        last_progress=at,
        note=view.note if view.state == "ended" else "",
    )


def reduce_agent(view: AgentView, body: AnyRecordBody, at: float) -> AgentView:
    """Apply a record about this agent. A record that does not concern the view leaves it
    unchanged.
    """
    match body:
        case AgentSpawned():
            return _spawned(view, body, at)
        case SettingsChanged(settings=settings):
            return _with_settings(view, settings)
        case ProcessEnded():
            return _process_ended(view, body)
        case AgentEnded():
            return _ended(view, body, at)
        case ResponseBilled(usd=usd):
            return view if usd is None else replace(view, usd=(view.usd or 0.0) + usd)
        case ProviderFallback():
            slug = clean_line(body.model or view.model)
            return replace(view, note=describe_fallback(body), model=slug)
        case HookRan() if body.status != "completed":
            return replace(view, note=describe_hook(body))
        case TurnDiff():
            return _changed(view, body)
        case ChangeMeasured(files=files):
            return replace(view, change=body.size if files else "")
        case Warned(message=message):
            return replace(view, note=clean_line(message))
        case MailPosted() | MailHandled():
            return view
        case TurnStarted() | TurnCompleted() | TurnFailed() | TurnAborted():
            return _turn(view, body, at)
        case CallBegan() | CallEnded() | TokenCount() | ItemRecorded():
            return _in_turn(view, body, at)
        case ContextRecorded():
            return replace(view, state=_working_state(view), last_progress=at)
        case _:
            return view


def shrink_ended(view: AgentView) -> AgentView:
    """What is kept of an agent that ended long ago: its figures and the start of its answer."""
    return AgentView(
        path=view.path,
        role=view.role,
        model=view.model,
        state=view.state,
        end_state=view.end_state,
        cut_off=view.cut_off,
        pid=view.pid,  # its process may run longer than the agent: it still holds a slot
        started=view.started,
        last_progress=view.last_progress,
        usage=view.usage,
        usd=view.usd,
        note=view.note[:60],
        result=view.result[:60],
        in_copy=view.in_copy,
        node=view.node,
        change=view.change,
        steps=view.steps,
        worked_s=view.worked_s,
        added=view.added,
        removed=view.removed,
        shared_change=view.shared_change,
        denied=view.denied,
    )


def end_turn(view: AgentView, at: float) -> AgentView:
    """Count the time of the turn that ends now; the same view if none runs."""
    if not view.turn_began:
        return view
    spent_s = max(at - view.turn_began, 0.0)
    return replace(view, worked_s=view.worked_s + spent_s, turn_began=0.0)


def _changed(view: AgentView, body: TurnDiff) -> AgentView:
    return replace(
        view,
        added=view.added + body.added,
        removed=view.removed + body.removed,
        shared_change=view.shared_change or bool(body.shared_with),
    )


def _with_settings(view: AgentView, settings: AgentSettings) -> AgentView:
    return replace(
        view,
        model=intern(clean_line(settings.model or view.model, limit=80)),
        effort=intern(clean_line(settings.effort or "", limit=20)),
        sandbox=intern(describe_sandbox(settings.limits.sandbox)),
        planning=settings.limits.planning,
    )


def _spawned(view: AgentView, body: AgentSpawned, at: float) -> AgentView:
    return replace(
        view,
        agent_id=body.agent_id,
        role=intern(clean_line(body.role, limit=40)),
        nickname=clean_line(body.nickname, limit=40),
        model=intern(clean_line(body.model or view.model, limit=80)),
        effort=intern(clean_line(body.effort or "", limit=20)),
        planning=body.limits.planning,
        state="starting",
        end_state="",
        cut_off=False,
        pid=body.pid,
        epoch=body.epoch,
        tool="",
        argument="",
        doing="",
        text="",
        note="" if body.epoch == 1 else f"restarted, life {body.epoch}",
        started=view.started or at,
        last_progress=at,
        usage=body.usage if body.usage.total_tokens else view.usage,
        usd=view.usd if body.usd is None else max(body.usd, view.usd or 0.0),
        sandbox=describe_sandbox(body.limits.sandbox),
        in_copy=body.limits.isolation == "copy",
        node=intern(clean_line(body.node, limit=80)),
    )


def without_process(view: AgentView) -> AgentView:
    """The agent has no process any more, so none of its turns and calls runs."""
    return replace(
        end_turn(view, view.last_progress),
        pid=0,
        rss_bytes=0,
        tool="",
        argument="",
        doing="",
        text="",
    )


def _process_ended(view: AgentView, body: ProcessEnded) -> AgentView:
    if body.epoch < view.epoch:  # a late notice of an earlier process
        return view
    gone = without_process(view)
    if view.state == "ended":
        return gone
    if is_reviewer(view.path):  # reviewers are not restarted
        return replace(gone, state="ended", end_state="completed" if body.orderly else "crashed")
    if body.orderly:
        return replace(gone, state="suspended")
    return replace(gone, state="restarting", note=clean_line(body.reason))


def _ended(view: AgentView, body: AgentEnded, at: float) -> AgentView:
    good = body.state in GOOD_ENDS
    result = clean_block(body.message[:_RESULT]).strip()
    return replace(
        end_turn(view, at),
        state="ended",
        end_state=intern(body.state),
        cut_off=body.cut_off,
        tool="",
        argument="",
        doing="",
        text="",
        note="" if good else clean_line(body.message),
        result=result if good else view.result,
        # of its last turn alone: only where nothing else was counted
        usage=view.usage if view.usage.total_tokens else body.usage,
        last_progress=at,
    )


def _turn(
    view: AgentView, body: TurnStarted | TurnCompleted | TurnFailed | TurnAborted, at: float
) -> AgentView:
    view = end_turn(view, at)
    view = replace(view, tool="", argument="", doing="", text="", last_progress=at)
    match body:
        case TurnStarted(model=model):
            return replace(
                view,
                state="running",
                end_state="",
                cut_off=False,
                note="",
                turn_began=at,
                model=intern(clean_line(model.slug, limit=80)),
                effort=intern(clean_line(body.effort or view.effort, limit=20)),
                context_window=view.context_window or model.context_window,
            )
        case TurnCompleted(last_message=last):
            result = clean_block(last[:_RESULT]).strip() if last else view.result
            return replace(view, state=_resting(view), result=result, note="")
        case TurnFailed(message=message):
            return replace(view, state=_resting(view), note=clean_line(message))
        case TurnAborted(reason=reason):
            return replace(view, state=_resting(view), note=reason.replace("_", " "))


def _in_turn(
    view: AgentView, body: CallBegan | CallEnded | TokenCount | ItemRecorded, at: float
) -> AgentView:
    ended = view.state == "ended"
    match body:
        case CallBegan(tool=tool, detail=detail):
            waits: AgentState = "waiting" if tool in _WAITING_TOOLS else "running"
            return replace(
                view,
                state="ended" if ended else waits,
                tool=clean_line(tool, limit=40),
                argument=describe_call(detail),
                doing=describe_doing(detail),
                last_progress=at,
                note=view.note if ended else "",
                steps=view.steps + 1,
            )
        case CallEnded():
            return replace(
                view, state=_working_state(view), tool="", argument="", doing="", last_progress=at
            )
        case TokenCount():
            return replace(
                view,
                usage=body.total,
                context_tokens=body.context_tokens or view.context_tokens,
                context_window=body.context_window or view.context_window,
                last_progress=at,
            )
        case ItemRecorded(source=source):
            if source != "model":
                return replace(view, last_progress=at)
            return replace(
                view,
                state=_working_state(view),
                text="",
                last_progress=at,
                note=view.note if ended else "",
            )


def _working_state(view: AgentView) -> AgentState:
    """Signs of work end a wait; an ended or idle agent keeps its state."""
    return "running" if view.state in {"waiting", "starting"} else view.state


def _resting(view: AgentView) -> AgentState:
    return "ended" if view.state == "ended" else "idle"
