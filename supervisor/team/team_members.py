"""All agents of the tree: those that ever started or wait for a slot, and their results.

A path and its result belong to one agent for the whole run. Its process may end, and its memory
here may go, too: an agent that has finished and whose parent was told is archived on disk until a
request needs it. Code that waits for a change calls `wait_change`; nothing else here waits.
"""

from collections.abc import Callable, Iterator
from weakref import WeakValueDictionary

import trio

from swarm.mailbox.ids import ROOT_PATH, AgentPath, is_within
from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import AgentEnded

from ..agents.end_states import GOOD_ENDS
from ..agents.finished_agents import FinishedAgent, FinishedAgents
from ..agents.heap_trim import trim_heap
from ..agents.live_agent import AgentPlan
from ..agents.team_agent import ACTIVE_STATES, PREVIEW_CHARS, TeamAgent, restore_agent

_ARCHIVE_BATCH = 64  # members are archived when there are more


class TeamMembers:
    """All members by path, in the order in which they were added.

    Args:
        shelf: The archive of finished agents; without one all stay in memory.
        adopt: Called with path and id of an agent restored from the archive.
        release: Called with the path of an archived agent, whose owner the archive knows.
    """

    def __init__(
        self,
        shelf: FinishedAgents | None = None,
        *,
        adopt: Callable[[str, str], None] = lambda path, owner: None,
        release: Callable[[str], None] = lambda path: None,
    ) -> None:
        self.members: dict[str, TeamAgent] = {}  # those in memory; `find` also finds archived ones
        self._finished, self._on_restored, self._on_archived = shelf, adopt, release
        # Archived, but still referenced.
        self._archived_in_use: WeakValueDictionary[str, TeamAgent] = WeakValueDictionary()
        self._forgotten: list[FinishedAgent] = []  # their paths wait for the archive
        self._last_order = 0
        self._archive_at = _ARCHIVE_BATCH
        self._active: set[str] = set()
        self._waking_mail: dict[str, str] = {}  # unread mail that will start a turn → reader
        self._changed = trio.Event()

    def __len__(self) -> int:
        return len(self.members)

    # --- members -------------------------------------------------------------------------------

    def add(self, plan: AgentPlan, *, state: str) -> TeamAgent:
        """Add a member. The caller has checked that no other agent has the path."""
        if len(self.members) >= self._archive_at:
            self._archive_finished()
        member = self.members[plan.path] = TeamAgent(plan, state=state)
        self._last_order += 1
        member.order = self._last_order
        self.set_state(member, state)
        return member

    def find(self, path: str) -> TeamAgent | None:
        """The agent with this path, also an archived one."""
        member = self.members.get(path)
        if member is not None or self._finished is None:
            return member
        if (member := self._archived_in_use.get(path)) is None and self._finished.owner_of(
            path
        ) is None:
            return None
        if (parent := path.rpartition("/")[0]) and self.find(parent) is None:
            return None
        return self._restore(path, member)

    def find_named(self, step: str) -> list[TeamAgent]:
        """All agents whose path ends with this step."""
        here = [path for path in self.members if path.endswith(f"/{step}")]
        away = self._finished.paths_named(step) if self._finished is not None else []
        found = (self.find(path) for path in (*here, *away))
        return [member for member in found if member is not None]

    def forget(self, member: TeamAgent) -> None:
        """Remove a member that never started or reports elsewhere: nobody asks for it again."""
        if self.members.get(member.path) is member:
            del self.members[member.path]
        if member.epoch and self._finished is not None and not member.forgotten:
            self._archive_path(member)
        member.forgotten = True
        self._active.discard(member.path)
        for mail_id in member.unread_mail:
            self._waking_mail.pop(mail_id, None)
        self.notify_change()

    def set_state(self, member: TeamAgent, state: str) -> None:
        self._ensure_in_memory(member)
        member.state = state
        if state in ACTIVE_STATES:
            self._active.add(member.path)
        else:
            self._active.discard(member.path)
        self.notify_change()

    def mark_reported(self, asker: TeamAgent, member: TeamAgent) -> None:
        """Note that the parent knows of the member's latest end; no effect for another asker."""
        if member.plan.parent == asker.path:
            self._ensure_in_memory(member)
            member.ends_reported = member.end_count

    def subtree(self, path: str) -> list[TeamAgent]:
        """The agent and all its descendants, archived ones included."""
        if self._finished is not None:
            for kept in self._finished.descendants_of(path):
                if kept.encoded:
                    self.find(kept.path)
            self.find(path)
        top = AgentPath(path)
        return [one for one in self.members.values() if is_within(AgentPath(one.path), top)]

    def children_of(self, path: str) -> Iterator[TeamAgent]:
        """Direct children in memory, among them all that work or have an unreported end."""
        return (one for one in self.members.values() if one.plan.parent == path)

    def all_children_of(self, path: str) -> list[TeamAgent]:
        """Direct children, archived ones included."""
        if self._finished is not None:
            for kept in self._finished.children_of(path):
                if kept.encoded:
                    self.find(kept.path)
        return sorted(self.children_of(path), key=lambda one: one.order)

    def open_children(self, path: str) -> dict[str, str]:
        """The children of an agent that were not closed: path → nickname."""
        away = self._finished.children_of(path) if self._finished is not None else []
        member = self.members.get(path)
        here = member.children if member is not None else {}
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
        shelf = self._finished
        if shelf is None:
            return
        in_use: dict[str, int] = {}  # parent → children in memory
        for one in self.members.values():
            parent = one.plan.parent or ""
            in_use[parent] = in_use.get(parent, 0) + 1
        away: list[TeamAgent] = []
        for one in sorted(self.members.values(), key=lambda one: -one.plan.depth):
            if one.can_be_archived and not in_use.get(one.path) and self._is_end_reported(one):
                away.append(one)
                in_use[one.plan.parent or ""] -= 1
        if shelf.put([one.as_finished() for one in away]):
            for one in away:
                self._archive(one)
            trim_heap()
        self._archive_at = max(_ARCHIVE_BATCH, 2 * len(self.members))

    def _is_end_reported(self, member: TeamAgent) -> bool:
        """True if nobody has to be told of its end any more."""
        parent = self.members.get(member.plan.parent or "")
        if parent is None:
            return member.path != ROOT_PATH
        is_told = member.ends_reported >= member.end_count or not member.plan.reports
        return is_told or member.closed or parent.closed

    def _archive(self, member: TeamAgent) -> None:
        del self.members[member.path]
        self._archived_in_use[member.path] = member
        if (parent := self.members.get(member.plan.parent or "")) is not None:
            parent.children.pop(member.path, None)
        self._on_archived(member.path)

    def _archive_path(self, member: TeamAgent) -> None:
        """Archive the path of a forgotten member, which stays taken; written in batches."""
        parent, owner = member.plan.parent or "", member.plan.agent_id
        self._forgotten.append(
            FinishedAgent(path=member.path, parent=parent, owner=owner, order=member.order)
        )
        if len(self._forgotten) >= _ARCHIVE_BATCH and self._finished is not None:
            taken, self._forgotten = self._forgotten, []
            if self._finished.put(taken):
                for one in taken:
                    self._on_archived(one.path)
                trim_heap()

    def _restore(self, path: str, held: TeamAgent | None) -> TeamAgent | None:
        """Restore an archived agent; if `held` is the object still in use, that one is kept."""
        assert self._finished is not None
        kept = self._finished.take(path)
        if held is None and (kept is None or not kept.encoded):
            if kept is not None:
                self._finished.put([kept])  # only its path is taken
            return None
        member = held if held is not None or kept is None else restore_agent(kept)
        assert member is not None
        self.members[path] = member
        self._on_restored(path, member.plan.agent_id)
        parent = self.members.get(member.plan.parent or "")
        if parent is not None and member.plan.reports and not member.closed:
            parent.children[path] = member.plan.nickname
        return member

    def _ensure_in_memory(self, member: TeamAgent) -> None:
        """Restore an archived member that is changed by code that still refers to it."""
        if self.members.get(member.path) is not member and not member.forgotten:
            self.find(member.path)

    # --- mail ----------------------------------------------------------------------------------

    def add_mail(self, member: TeamAgent, mail: Mail) -> None:
        self._ensure_in_memory(member)
        member.unread_mail[mail.mail_id] = mail
        if mail.trigger_turn:
            self._waking_mail[mail.mail_id] = member.path
        self.notify_change()

    def forget_read_mail(self, member: TeamAgent) -> None:
        """Forget waking mail that left `member.unread_mail`: it was read and wakes nobody now."""
        for mail_id, reader in tuple(self._waking_mail.items()):
            if reader == member.path and mail_id not in member.unread_mail:
                del self._waking_mail[mail_id]
        self.notify_change()

    def drop_mail(self, member: TeamAgent) -> list[Mail]:
        """Remove and return the mail that this member will never read."""
        dropped = list(member.unread_mail.values())
        member.unread_mail.clear()
        member.outbox.clear()
        self.forget_read_mail(member)
        return dropped

    def has_waking_mail(self, member: TeamAgent) -> bool:
        """True if it has unread mail that starts a turn."""
        return any(mail.trigger_turn for mail in member.unread_mail.values())

    # --- changes -------------------------------------------------------------------------------

    def notify_change(self) -> None:
        """Wake all tasks that wait for a change."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait_change(self) -> None:
        """Return after the next change; look first, then wait."""
        await self._changed.wait()

    async def wait_done(self, has_no_jobs: Callable[[], bool]) -> AgentEnded:
        """Return how the root's work ended, once all work is done.

        That is when the root's turn has ended, no agent works or waits for a slot, and no mail will
        wake one; or at once when the root failed or was stopped.
        """
        while True:
            root = self.members.get(ROOT_PATH)
            outcome = None if root is None else root.outcome
            if root is not None and root.is_active and not (outcome and outcome.cut_off):
                outcome = None  # else mail has started a turn while the run ends
            is_done = self.is_idle and has_no_jobs()
            if outcome is not None and (outcome.state not in GOOD_ENDS or is_done):
                return outcome
            await self.wait_change()


def preview(text: str) -> str:
    """The first 500 characters of a task, for lists."""
    return text if len(text) <= PREVIEW_CHARS else text[: PREVIEW_CHARS - 1] + "…"
