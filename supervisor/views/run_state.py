"""Fold records and transient events into one view of the whole run. Pure.

State changes only here: `RunState` is the only mutable object, and each step is a pure function
from one `AgentView` to the next. A record that was already applied changes nothing, so a watcher
may start from any snapshot. The cost does not grow with the number of ended agents.
"""

import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from typing import assert_never, get_args

from msgspec.structs import replace

from swarm.mailbox.base.ids import is_reviewer
from swarm.mailbox.protocol.control import (
    AgentHeld,
    AgentView,
    AnyFeed,
    MemoryUsed,
    QueueLeft,
    RunView,
    ShownState,
    TransientEvent,
)
from swarm.mailbox.protocol.events import CallBegan, CallEnded, TokenCount
from swarm.mailbox.protocol.gateway import Fetching, ResponseBilled, Throttled
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    ApprovalResolved,
    BudgetSet,
    EndState,
    FanOutItemEnded,
    FanOutPlanned,
    InputPosted,
    MailPosted,
    ProcessEnded,
    Record,
    RunCompleted,
    RunStarted,
)

from ..base.safe_text import clean_line
from .record_description import describe_call, describe_doing, describe_task, describe_throttle
from .reduce_agent import (
    end_turn,
    reduce_agent,
    reduce_passing,
    shrink_ended,
    without_process,
)
from .reduce_run import mark_waiting, reduce_cost, reduce_queue, reduce_run, unmark
from .row_selection import has_failed

KEEP_ENDED = 256  # ended agents kept with all their texts; older ones keep only their figures
LIST_ENDED = 512  # ended agents that are listed; older ones are only counted
_END_STATES = frozenset(get_args(EndState))
_OPEN, _DONE, _FAILED = 0, 1, 2
_KEEP_FAILED = 256  # of those that are no longer listed, failed ones that stay all the same
_DROP_TRIES = 4  # attempts per ended agent to unlist older ones
_MAX_TASKS = 4096  # limit of tasks for agents without a view


class RunState:
    """The state of a run. One task owns it; `view()` may be called at any time.

    Args:
        view: A snapshot to start from: records up to `view.seq` are already in it.
        clock: Unix seconds; only for transient events, which have no time of their own.
        keep_ended: Ended agents that keep their result, task and note.
        list_ended: Ended agents that are listed, besides those with listed descendants.
        slots_max: Maximum number of agent processes; 0 = unknown.
    """

    def __init__(
        self,
        view: RunView | None = None,
        *,
        clock: Callable[[], float] = time.time,
        keep_ended: int = KEEP_ENDED,
        list_ended: int = LIST_ENDED,
        slots_max: int = 0,
    ) -> None:
        self._clock = clock
        self._keep_ended, self._list_ended = keep_ended, list_ended
        view = view or RunView(slots_max=slots_max)
        ended = sorted(
            [agent for agent in view.agents if agent.state == "ended"],
            key=lambda agent: agent.last_progress,
        )
        ours = [agent for agent in view.agents if not is_reviewer(agent.path)]
        self._run = replace(view, agents=())
        self._seen = view.unlisted + sum(agent.started > 0 for agent in ours)
        self._agents = {agent.path: agent for agent in view.agents}
        self._order = sorted(self._agents)  # paths: a parent precedes its children
        self._paths = {agent.agent_id: agent.path for agent in view.agents if agent.agent_id}
        self._calls: dict[str, dict[str, tuple[str, str, str]]] = {}  # path → running calls
        self._tasks: dict[str, str] = {}  # path → task that arrived before the agent
        # Paths of ended agents, newest last: those that keep their texts, and those that do not.
        self._ended = deque(agent.path for agent in ended[-keep_ended:])
        self._shrunk_paths = deque(agent.path for agent in ended[:-keep_ended])
        self._live = {agent.path for agent in ours if agent.pid}  # paths with a running process
        self._waiting_approvals = {one.agent: one for one in reversed(view.approvals)}  # the oldest
        self._item_states = bytearray()  # per item: _OPEN, _DONE or _FAILED
        self._failed_kept = 0
        self._cached: RunView | None = None

    @property
    def seq(self) -> int:
        """The number of the last applied record. A feed that continues above `seq + 1` has a
        gap.
        """
        return self._run.seq

    @property
    def agents_seen(self) -> int:
        """Number of agents that ever had a process."""
        return self._seen

    def agent(self, path: str) -> AgentView | None:
        return self._agents.get(path)

    def view(self) -> RunView:
        """The view of the whole run; the same object until something changes."""
        if self._cached is None:
            agents = self._agents
            self._cached = replace(
                self._run,
                agents=tuple([agents[path] for path in self._order]),
                slots_used=len(self._live),
            )
        return self._cached

    def apply(self, feed: AnyFeed) -> None:
        """Apply one record or transient event. Never raises, for any sequence."""
        if isinstance(feed, TransientEvent):
            self._apply_passing(feed)
        else:
            self._apply_record(feed.record)

    def apply_past(self, record: Record) -> None:
        """Apply a record of the run's own file from before a resume. The token counts of agents
        are in their own files; the bills of the provider replace them here.
        """
        self._apply_record(record)
        if isinstance(record.body, ResponseBilled) and not is_reviewer(record.agent):
            used = self._run.usage.plus(record.body.usage)
            self._change(replace(self._run, usage=used))

    # --- internal --------------------------------------------------------------------------

    def _apply_passing(self, feed: TransientEvent) -> None:
        event = feed.event
        if isinstance(event, Throttled):
            self._change(replace(self._run, throttle=describe_throttle(event)))
        elif isinstance(event, Fetching):
            self._change(
                replace(
                    self._run,
                    fetching=clean_line(event.what, limit=60),
                    fetched_bytes=event.have_bytes,
                    fetch_total_bytes=event.total_bytes,
                )
            )
        elif isinstance(event, ShownState):
            self._apply_shown(feed.agent, event)
        elif view := self._agents.get(feed.agent):
            self._put(reduce_passing(view, event, self._clock()))

    def _apply_shown(self, path: str, event: ShownState) -> None:
        view = self._agents.get(path)
        match event:
            case AgentHeld(state=state, note=note):  # in line for a slot: may have no record yet
                view = view or self._new_agent(path)
                self._put(replace(view, state=state, note=clean_line(note)))
            case QueueLeft():
                if view is not None and view.state == "queued" and not view.agent_id:
                    del self._agents[path]
                    del self._order[bisect_left(self._order, path)]
                    self._cached = None
            case MemoryUsed(rss_bytes=rss_bytes):
                if view is not None and rss_bytes != view.rss_bytes:
                    self._put(replace(view, rss_bytes=rss_bytes))
            case _:
                assert_never(event)

    def _apply_record(self, record: Record) -> None:
        if record.seq <= self._run.seq:
            return
        self._run = replace(self._run, seq=record.seq)
        self._cached = None
        self._update_approvals(record)
        path = self._path_of(record)
        body = record.body
        if not path:
            self._apply_to_run(record)
            return
        view = self._agents.get(path)
        if isinstance(body, AgentSpawned) and view is None:
            view = self._new_agent(path)
        elif isinstance(body, InputPosted | MailPosted):
            self._remember_task(path, body)
            view = self._agents.get(path)
        if view is not None:
            self._track_agent(path, record)
            self._put(self._with_call(reduce_agent(view, body, record.ts), body))
            if isinstance(body, AgentEnded):
                self._shrink_older_ended(path)
        self._apply_to_run(record)

    def _update_approvals(self, record: Record) -> None:
        """Update the approval queue; the rows of waiting agents show it until the answer."""
        before = self._run.approvals
        after = reduce_queue(before, record)
        if after is before:
            self._run = reduce_cost(self._run, record.body)
            return
        self._run = replace(self._run, approvals=after)
        self._waiting_approvals = {one.agent: one for one in reversed(after)}
        for path in {one.agent for one in before} | set(self._waiting_approvals):
            if view := self._agents.get(path):
                self._put(view if path in self._waiting_approvals else unmark(view))

    def _path_of(self, record: Record) -> str:
        """The agent whose view changes: mail belongs to its recipient, a bill to the agent it
        names.
        """
        match record.body:
            case MailPosted(mail=mail):
                return mail.recipient
            case AgentSpawned(path=path):
                return path
            case ResponseBilled(agent_id=agent_id) | AgentEnded(agent_id=agent_id):
                return self._paths.get(agent_id, record.agent)
            case ProcessEnded(agent_id=agent_id):
                return self._paths.get(agent_id, record.agent)
            case _:
                return record.agent

    def _track_agent(self, path: str, record: Record) -> None:
        """Track ids, processes and running calls, which an AgentView does not contain."""
        match record.body:
            case AgentSpawned(agent_id=agent_id):
                self._paths[agent_id] = path
                if not is_reviewer(path):
                    self._count_agent(path, record.body.epoch)
                    self._live.add(path)
                self._calls.pop(path, None)
            case ProcessEnded():
                if record.body.epoch >= self._agents[path].epoch:
                    self._live.discard(path)
                    self._calls.pop(path, None)
            case AgentEnded():
                self._calls.pop(path, None)
            case CallBegan(call_id=call_id, tool=tool, detail=detail):
                running = self._calls.setdefault(path, {})
                text = (describe_call(detail), describe_doing(detail))
                running[call_id] = (clean_line(tool, limit=40), *text)
            case CallEnded(call_id=call_id):
                if left := self._calls.get(path):
                    left.pop(call_id, None)
            case _:
                pass

    def _count_agent(self, path: str, epoch: int) -> None:
        """Count a new agent at its first process; a later process at an unlisted path is a
        returning one.
        """
        if self._agents[path].started:
            return
        if epoch > 1 and self._run.unlisted:
            self._change(replace(self._run, unlisted=self._run.unlisted - 1))
        else:
            self._seen += 1

    def _with_call(self, view: AgentView, body: object) -> AgentView:
        """After the end of a call, show the latest call that still runs."""
        if not isinstance(body, CallEnded) or not (running := self._calls.get(view.path)):
            return view
        tool, argument, doing = next(reversed(running.values()))
        return replace(view, tool=tool, argument=argument, doing=doing)

    def _apply_to_run(self, record: Record) -> None:
        body = record.body
        match body:
            case RunStarted(resumed=True):
                self._suspend_live_agents()
            case BudgetSet() if record.agent == "/root":
                run = replace(self._run, budget=body.budget, deadline_unix_s=body.deadline_unix_s)
                self._change(run)
            case FanOutPlanned(items=items):
                self._item_states = bytearray(len(items))
            case FanOutItemEnded(index=index, state=state):
                self._count_item(index, state)
            case RunCompleted():
                self._end_root(body)
            case ApprovalResolved(outcome=outcome) if outcome != "approved":
                self._count_denied(record.agent)
            case TokenCount() if is_reviewer(record.agent):
                return  # `Reviewed` reports these tokens separately
            case _:
                pass
        self._change(reduce_run(self._run, body, record.ts))

    def _count_denied(self, path: str) -> None:
        self._change(replace(self._run, denied=self._run.denied + 1))
        if view := self._agents.get(path):
            self._put(replace(view, denied=view.denied + 1))

    def _count_item(self, index: int, state: str) -> None:
        """A later attempt replaces an earlier one; after a snapshot only the totals are known.

        An item that was interrupted has not failed: it is open, and a resume begins it again.
        """
        run = self._run
        now = {"completed": _DONE, "interrupted": _OPEN}.get(state, _FAILED)
        done, failed = run.fan_done + (now == _DONE), run.fan_failed + (now == _FAILED)
        if 0 <= index < len(self._item_states):
            done -= self._item_states[index] == _DONE
            failed -= self._item_states[index] == _FAILED
            self._item_states[index] = now
        self._change(replace(run, fan_done=done, fan_failed=failed))

    def _suspend_live_agents(self) -> None:
        """The run was resumed: its earlier processes no longer exist."""
        for path in sorted(self._live):
            view = without_process(self._agents[path])
            self._put(view if view.state == "ended" else replace(view, state="suspended"))
        for path, view in self._agents.items():
            if is_reviewer(path) and view.pid:
                self._put(replace(view, pid=0, state="ended", end_state="crashed"))
        self._live.clear()
        self._calls.clear()

    def _end_root(self, body: RunCompleted) -> None:
        """The end of the run ends its root, even if no record of the root says so."""
        view = self._agents.get("/root")
        if view is not None and view.state != "ended":
            end = body.status if body.status in _END_STATES else "failed"
            view = end_turn(view, view.last_progress)
            self._put(
                replace(view, state="ended", end_state=end, tool="", argument="", doing="", text="")
            )

    def _remember_task(self, path: str, body: InputPosted | MailPosted) -> None:
        text = describe_task(body)
        if not text:
            return
        view = self._agents.get(path)
        if view is None:
            if len(self._tasks) < _MAX_TASKS:
                self._tasks.setdefault(path, text)
        elif not view.task:
            self._put(replace(view, task=text))

    def _new_agent(self, path: str) -> AgentView:
        view = AgentView(path=path, state="queued", task=self._tasks.pop(path, ""))
        insort(self._order, path)
        self._put(view)
        return view

    def _shrink_older_ended(self, path: str) -> None:
        """The newest ended agents keep their texts; older ones keep only figures."""
        self._ended.append(path)
        while len(self._ended) > self._keep_ended:
            old = self._agents.get(self._ended.popleft())
            if old is not None and old.state == "ended" and old.path != "/root":
                self._paths.pop(old.agent_id, None)
                self._put(shrink_ended(old))
                self._shrunk_paths.append(old.path)
        for _ in range(_DROP_TRIES):
            if len(self._shrunk_paths) > max(self._list_ended - self._keep_ended, 0):
                self._unlist(self._shrunk_paths.popleft())

    def _unlist(self, path: str) -> None:
        """Count the agent and stop listing it; retried later if it still has a process or
        descendants.
        """
        view = self._agents.get(path)
        if view is None or view.state != "ended":
            return  # it was started again, and will end again
        if has_failed(view) and self._failed_kept < _KEEP_FAILED:
            self._failed_kept += 1  # what went wrong stays in sight
            return
        after = bisect_left(self._order, path) + 1
        has_below = after < len(self._order) and self._order[after].startswith(f"{path}/")
        if view.pid or has_below:
            self._shrunk_paths.append(path)
            return
        del self._agents[path]
        del self._order[after - 1]
        self._change(replace(self._run, unlisted=self._run.unlisted + 1))

    def _put(self, view: AgentView) -> None:
        if view.path in self._waiting_approvals and view.state != "ended":
            view = mark_waiting(view, self._waiting_approvals[view.path])
        self._agents[view.path] = view
        self._cached = None

    def _change(self, run: RunView) -> None:
        self._run = run
        self._cached = None
