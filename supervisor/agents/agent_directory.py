"""All agents of the run by path, and the only place where an agent's phase changes.

A path and its result belong to one agent for the whole run. Its process may end, and its memory
here may go, too: an agent that has finished and whose parent was told is archived on disk until a
request needs it. Code that waits for a change calls `wait_change`; nothing else here waits.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from weakref import WeakValueDictionary

import trio

from swarm.mailbox.base.ids import ROOT_PATH, AgentPath, is_within
from swarm.mailbox.protocol.ops import Mail

from .agent_phases import TRANSITIONS, AgentEvent, Effect, Phase
from .agent_record import Agent, AgentPlan
from .finished_agents import FinishedAgent, FinishedAgents, archive_agent, restore_agent, trim_heap
from .slots import AgentRegistry

_UNSEEN = frozenset({AgentEvent.SUSPENDED, AgentEvent.PROCESS_ENDED})  # its turn goes on
_ARCHIVE_BATCH = 64  # agents are archived when there are more


class AgentDirectory:
    """Agents by path, in the order in which they were added; reviewers are no members.

    The registry knows the owner of each path in memory, `archive` that of each archived one.
    Whether an agent is alive is said here alone: from the start of a process until no other
    follows it is in `live`, by its path, reviewers included, and its `is_live` is true.
    """

    def __init__(self, registry: AgentRegistry, archive: FinishedAgents) -> None:
        self.members: dict[str, Agent] = {}  # those in memory; `find` also finds archived ones
        self._live: dict[str, Agent] = {}
        self.live: Mapping[str, Agent] = MappingProxyType(self._live)
        self.registry = registry  # slots: who has a process, and who waits for one
        self._finished = archive
        self._archived_in_use: WeakValueDictionary[str, Agent] = (
            WeakValueDictionary()
        )  # archived, but still referenced
        self._forgotten: list[FinishedAgent] = []  # their paths wait for the archive
        self._last_order = 0
        self._archive_at = _ARCHIVE_BATCH
        self._active: set[str] = set()
        self._waking_mail: dict[str, str] = {}  # unread mail that will start a turn → reader
        self._changed = trio.Event()
        self._all_paused = False

    # --- phases --------------------------------------------------------------------------------

    def apply(self, agent: Agent, event: AgentEvent) -> frozenset[Effect]:
        """Change its phase by the table. The caller carries out the effects."""
        if not agent.plan.slotless:
            self._ensure_in_memory(agent)
        agent.phase, effects = TRANSITIONS[agent.phase, event]
        if event is AgentEvent.PROCESS_GONE:
            self._live.pop(agent.path, None)
            agent.gone.set()
        if self.members.get(agent.path) is agent:
            (self._active.add if agent.is_active else self._active.discard)(agent.path)
            if event not in _UNSEEN and agent.phase is not Phase.SUSPENDED:
                self.notify_change()
        return effects

    def on_process_started(self, agent: Agent) -> frozenset[Effect]:
        """A process of it has started: from now on it is a member, and its parent's child."""
        self._live[agent.path] = agent
        if agent.plan.slotless:
            return self.apply(agent, AgentEvent.PROCESS_STARTED)
        if agent.path not in self.members:
            self.add(agent)
        if agent.path == ROOT_PATH and not agent.has_started:
            agent.end_start()
        agent.note_process()
        for mail in agent.unread_mail.values():
            self._watch_mail(agent, mail)
        if (parent := self.members.get(agent.plan.parent or "")) and agent.plan.reports:
            parent.children[agent.path] = agent.plan.nickname
        return self.apply(agent, AgentEvent.PROCESS_STARTED)

    def set_all_paused(self, *, paused: bool) -> None:
        """A person paused the whole run, or let it go on."""
        self._all_paused = paused

    @property
    def all_paused(self) -> bool:
        return self._all_paused

    def is_paused(self, agent: Agent) -> bool:
        """True if a person paused it or the whole run: it makes no requests."""
        return not agent.plan.slotless and (agent.plan.paused or self.all_paused)

    def path_of(self, agent_id: str) -> str:
        """The path of a live agent by its id; "" when it is gone."""
        return next((one.path for one in self.live.values() if one.plan.agent_id == agent_id), "")

    # --- members -------------------------------------------------------------------------------

    def add(self, agent: Agent) -> Agent:
        """Add a member. The caller has checked that no other agent has the path."""
        if len(self.members) >= self._archive_at:
            self._archive_finished()
        self.members[agent.path] = agent
        self._last_order += 1
        agent.order = self._last_order
        if agent.is_active:
            self._active.add(agent.path)
        self.notify_change()
        return agent

    def add_queued(self, plan: AgentPlan) -> Agent:
        """Add an agent whose first process a task is about to start."""
        agent = self.add(Agent(plan, phase=Phase.QUEUED))
        agent.begin_start()
        return agent

    def plan_of(self, path: str) -> AgentPlan | None:
        """The plan of the member with this path, with or without a process."""
        agent = self.members.get(path)
        return None if agent is None else agent.plan

    def find(self, path: str) -> Agent | None:
        """The agent with this path, also an archived one."""
        if (agent := self.members.get(path)) is not None:
            return agent
        held = self._archived_in_use.get(path)
        if held is None and self._finished.owner_of(path) is None:
            return None
        if (parent := path.rpartition("/")[0]) and self.find(parent) is None:
            return None
        return self._restore(path, held)

    def find_named(self, step: str) -> list[Agent]:
        """All agents whose path ends with this step."""
        here = [path for path in self.members if path.endswith(f"/{step}")]
        found = (self.find(path) for path in (*here, *self._finished.paths_named(step)))
        return [agent for agent in found if agent is not None]

    def forget(self, agent: Agent) -> None:
        """Remove an agent that never started or reports elsewhere: nobody asks for it again."""
        if self.members.get(agent.path) is agent:
            del self.members[agent.path]
        if agent.has_started and not agent.forgotten:
            self._archive_path(agent)
        agent.forgotten = True
        self._active.discard(agent.path)
        for mail_id in agent.unread_mail:
            self._waking_mail.pop(mail_id, None)
        self.notify_change()

    def mark_reported(self, asker: Agent, agent: Agent) -> None:
        """Note that the parent knows of the agent's latest end; no effect for another asker."""
        if agent.plan.parent == asker.path:
            self._ensure_in_memory(agent)
            agent.mark_reported()

    def subtree(self, path: str) -> list[Agent]:
        """The agent and all its descendants, archived ones included."""
        for kept in self._finished.descendants_of(path):
            if kept.encoded:
                self.find(kept.path)
        self.find(path)
        top = AgentPath(path)
        return [one for one in self.members.values() if is_within(AgentPath(one.path), top)]

    def children_of(self, path: str) -> Iterator[Agent]:
        """Direct children in memory, among them all that work or have an unreported end."""
        return (one for one in self.members.values() if one.plan.parent == path)

    def all_children_of(self, path: str) -> list[Agent]:
        """Direct children, archived ones included."""
        for kept in self._finished.children_of(path):
            if kept.encoded:
                self.find(kept.path)
        return sorted(self.children_of(path), key=lambda one: one.order)

    def open_children(self, path: str) -> dict[str, str]:
        """The children of an agent that were not closed: path → nickname."""
        away = self._finished.children_of(path)
        agent = self.members.get(path)
        here = agent.children if agent is not None else {}
        return {one.path: one.nickname for one in away if one.encoded and one.is_child} | here

    def others_active(self, path: str) -> bool:
        """True if any agent but `path` works or has mail that will wake it."""
        return len(self._active) > (path in self._active) or any(
            reader != path for reader in self._waking_mail.values()
        )

    @property
    def is_idle(self) -> bool:
        """True if no agent works and no unread mail will wake one."""
        return not self._active and not self._waking_mail

    # --- archive -------------------------------------------------------------------------------

    def _archive_finished(self) -> None:
        """Archive the resting members without children in memory, the deepest first."""
        in_use: dict[str, int] = {}  # parent → children in memory
        for one in self.members.values():
            parent = one.plan.parent or ""
            in_use[parent] = in_use.get(parent, 0) + 1
        away: list[Agent] = []
        for one in sorted(self.members.values(), key=lambda one: -one.plan.depth):
            if one.can_be_archived and not in_use.get(one.path) and self._is_end_reported(one):
                away.append(one)
                in_use[one.plan.parent or ""] -= 1
        if self._finished.put([archive_agent(one) for one in away]):
            for one in away:
                self._archive(one)
            trim_heap()
        self._archive_at = max(_ARCHIVE_BATCH, 2 * len(self.members))

    def _is_end_reported(self, agent: Agent) -> bool:
        """True if nobody has to be told of its end any more."""
        parent = self.members.get(agent.plan.parent or "")
        if parent is None:
            return agent.path != ROOT_PATH
        is_told = agent.ends_reported >= agent.end_count or not agent.plan.reports
        return is_told or agent.closed or parent.closed

    def _archive(self, agent: Agent) -> None:
        del self.members[agent.path]
        self._archived_in_use[agent.path] = agent
        if (parent := self.members.get(agent.plan.parent or "")) is not None:
            parent.children.pop(agent.path, None)
        self.registry.forget_owner(agent.path)

    def _archive_path(self, agent: Agent) -> None:
        """Archive the path of a forgotten agent, which stays taken; written in batches."""
        parent, owner = agent.plan.parent or "", agent.plan.agent_id
        self._forgotten.append(
            FinishedAgent(path=agent.path, parent=parent, owner=owner, order=agent.order)
        )
        if len(self._forgotten) >= _ARCHIVE_BATCH:
            taken, self._forgotten = self._forgotten, []
            if self._finished.put(taken):
                for one in taken:
                    self.registry.forget_owner(one.path)
                trim_heap()

    def _restore(self, path: str, held: Agent | None) -> Agent | None:
        """Restore an archived agent; if `held` is the object still in use, that one is kept."""
        kept = self._finished.take(path)
        if held is None and (kept is None or not kept.encoded):
            if kept is not None:
                self._finished.put([kept])  # only its path is taken
            return None
        agent = held if held is not None or kept is None else restore_agent(kept)
        assert agent is not None
        self.members[path] = agent
        self.registry.set_owner(path, agent.plan.agent_id)
        parent = self.members.get(agent.plan.parent or "")
        if parent is not None and agent.plan.reports and not agent.closed:
            parent.children[path] = agent.plan.nickname
        return agent

    def _ensure_in_memory(self, agent: Agent) -> None:
        """Restore an archived member that is changed by code that still refers to it."""
        if self.members.get(agent.path) is not agent and not agent.forgotten:
            self.find(agent.path)

    # --- mail ----------------------------------------------------------------------------------

    def add_mail(self, agent: Agent, mail: Mail) -> None:
        self._ensure_in_memory(agent)
        agent.unread_mail[mail.mail_id] = mail
        self._watch_mail(agent, mail)
        self.notify_change()

    def _watch_mail(self, agent: Agent, mail: Mail) -> None:
        if mail.trigger_turn:
            self._waking_mail[mail.mail_id] = agent.path

    def forget_read_mail(self, agent: Agent) -> None:
        """Forget waking mail that left `agent.unread_mail`: it was read and wakes nobody now."""
        for mail_id, reader in tuple(self._waking_mail.items()):
            if reader == agent.path and mail_id not in agent.unread_mail:
                del self._waking_mail[mail_id]
        self.notify_change()

    def on_item_read(self, agent: Agent, item_id: str) -> None:
        """An item is in its history. If it is a mail, that is read; a child's report is known."""
        if (mail := agent.unread_mail.pop(item_id, None)) is None:
            return
        child = self.members.get(mail.author)
        if mail.kind == "final_answer" and child is not None:
            self.mark_reported(agent, child)
        self.forget_read_mail(agent)

    def drop_mail(self, agent: Agent) -> list[Mail]:
        """Remove and return the mail that this agent will never read."""
        dropped = list(agent.unread_mail.values())
        agent.unread_mail.clear()
        agent.outbox.clear()
        self.forget_read_mail(agent)
        return dropped

    # --- changes -------------------------------------------------------------------------------

    def notify_change(self) -> None:
        """Wake all tasks that wait for a change."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait_change(self) -> None:
        """Return after the next change; look first, then wait."""
        await self._changed.wait()
