"""Who is in the tree: every agent that was ever started or stands in line, with what it came to.

Rule guarded: a path is an agent's for the whole run and so is its result; its process may end, and
its memory here too: who has finished, and whose parent was told, lies on the shelf until somebody
asks for it. Whoever waits for a change waits for the bell, and nothing here waits.
"""

from collections.abc import Callable, Iterator
from weakref import WeakValueDictionary

import trio

from swarm.mailbox.ids import ROOT_PATH, AgentPath, is_within
from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import AgentEnded

from ..agents import AgentPlan
from ..end_states import GOOD_ENDS
from .heap import give_back_pages
from .member import ACTIVE, PREVIEW_CHARS, Member, member_of
from .shelf import Kept, Shelf

_FEW = 64  # members are shelved when there are more


class Team:
    """All members by path, in the order of their coming.

    Args:
        shelf: Where the finished go; without one all stay in memory.
        adopt: Told path and id of one that comes back from the shelf.
        release: Told the path of one that went there: the shelf knows its owner.
    """

    def __init__(
        self,
        shelf: Shelf | None = None,
        *,
        adopt: Callable[[str, str], None] = lambda path, owner: None,
        release: Callable[[str], None] = lambda path: None,
    ) -> None:
        self.members: dict[str, Member] = {}  # those in memory; `find` knows the others too
        self._shelf, self._adopt, self._release = shelf, adopt, release
        self._held: WeakValueDictionary[str, Member] = WeakValueDictionary()  # shelved, yet in use
        self._taken: list[Kept] = []  # paths of the forgotten, for the shelf
        self._came = 0
        self._tidy_at = _FEW
        self._active: set[str] = set()
        self._waking: dict[str, str] = {}  # unread letters that will start a turn → reader
        self._bell = trio.Event()

    def __len__(self) -> int:
        return len(self.members)

    # --- members -------------------------------------------------------------------------------

    def enlist(self, plan: AgentPlan, *, state: str) -> Member:
        """A new member. The caller has checked that the path is nobody else's."""
        if len(self.members) >= self._tidy_at:
            self._tidy()
        member = self.members[plan.path] = Member(plan, state=state)
        self._came += 1
        member.came = self._came
        self.set_state(member, state)
        return member

    def find(self, path: str) -> Member | None:
        """The agent with this path, also one that finished long ago."""
        member = self.members.get(path)
        if member is not None or self._shelf is None:
            return member
        if (member := self._held.get(path)) is None and self._shelf.owner(path) is None:
            return None
        if (parent := path.rpartition("/")[0]) and self.find(parent) is None:
            return None
        return self._take_back(path, member)

    def find_named(self, step: str) -> list[Member]:
        """All whose path ends with this step."""
        here = [path for path in self.members if path.endswith(f"/{step}")]
        away = self._shelf.named(step) if self._shelf is not None else []
        found = (self.find(path) for path in (*here, *away))
        return [member for member in found if member is not None]

    def forget(self, member: Member) -> None:
        """It was never started, or its answer went elsewhere: nobody asks for it again."""
        if self.members.get(member.path) is member:
            del self.members[member.path]
        if member.epoch and self._shelf is not None and not member.forgotten:
            self._take_path(member)
        member.forgotten = True
        self._active.discard(member.path)
        for mail_id in member.letters:
            self._waking.pop(mail_id, None)
        self.ring()

    def set_state(self, member: Member, state: str) -> None:
        self._keep(member)
        member.state = state
        if state in ACTIVE:
            self._active.add(member.path)
        else:
            self._active.discard(member.path)
        self.ring()

    def tell(self, asker: Member, member: Member) -> None:
        """The asker hears of the member's latest end; that is news for its parent alone."""
        if member.plan.parent == asker.path:
            self._keep(member)
            member.told = member.ends

    def subtree(self, path: str) -> list[Member]:
        """The agent and all below it, also those who finished long ago."""
        if self._shelf is not None:
            for kept in self._shelf.below(path):
                if kept.kept:
                    self.find(kept.path)
            self.find(path)
        top = AgentPath(path)
        return [one for one in self.members.values() if is_within(AgentPath(one.path), top)]

    def children_of(self, path: str) -> Iterator[Member]:
        """Direct children that are at work, or whose end their parent has not heard of."""
        return (one for one in self.members.values() if one.plan.parent == path)

    def all_children_of(self, path: str) -> list[Member]:
        """Direct children, however long ago they finished."""
        if self._shelf is not None:
            for kept in self._shelf.children_of(path):
                if kept.kept:
                    self.find(kept.path)
        return sorted(self.children_of(path), key=lambda one: one.came)

    def brood(self, path: str) -> dict[str, str]:
        """The children of an agent that were not closed: path → nickname."""
        away = self._shelf.children_of(path) if self._shelf is not None else []
        member = self.members.get(path)
        here = member.children if member is not None else {}
        return {one.path: one.nickname for one in away if one.kept and one.is_child} | here

    def others_active(self, path: str) -> bool:
        """True if anybody but `path` works, or will be woken by a letter."""
        return len(self._active) > (path in self._active) or any(
            reader != path for reader in self._waking.values()
        )

    @property
    def at_rest(self) -> bool:
        """Nobody works and no unread letter will make anybody work."""
        return not self._active and not self._waking

    # --- the shelf -----------------------------------------------------------------------------

    def _tidy(self) -> None:
        """Put away whoever is at rest and below whom nobody is left, the deepest first."""
        shelf = self._shelf
        if shelf is None:
            return
        in_use: dict[str, int] = {}  # parent → children in memory
        for one in self.members.values():
            parent = one.plan.parent or ""
            in_use[parent] = in_use.get(parent, 0) + 1
        away: list[Member] = []
        for one in sorted(self.members.values(), key=lambda one: -one.plan.depth):
            if one.is_at_rest and not in_use.get(one.path) and self._is_known_to_have_ended(one):
                away.append(one)
                in_use[one.plan.parent or ""] -= 1
        if shelf.put([one.as_kept() for one in away]):
            for one in away:
                self._put_away(one)
            give_back_pages()
        self._tidy_at = max(_FEW, 2 * len(self.members))

    def _is_known_to_have_ended(self, member: Member) -> bool:
        """Nobody is left who would have to be told."""
        parent = self.members.get(member.plan.parent or "")
        if parent is None:
            return member.path != ROOT_PATH
        is_told = member.told >= member.ends or not member.plan.reports
        return is_told or member.closed or parent.closed

    def _put_away(self, member: Member) -> None:
        del self.members[member.path]
        self._held[member.path] = member
        if (parent := self.members.get(member.plan.parent or "")) is not None:
            parent.children.pop(member.path, None)
        self._release(member.path)

    def _take_path(self, member: Member) -> None:
        """A forgotten one's path stays its own; many are written at once."""
        parent, owner = member.plan.parent or "", member.plan.agent_id
        self._taken.append(Kept(path=member.path, parent=parent, owner=owner, came=member.came))
        if len(self._taken) >= _FEW and self._shelf is not None:
            taken, self._taken = self._taken, []
            if self._shelf.put(taken):
                for one in taken:
                    self._release(one.path)
                give_back_pages()

    def _take_back(self, path: str, held: Member | None) -> Member | None:
        """Whoever held it all the time finds the same one here."""
        assert self._shelf is not None
        kept = self._shelf.take(path)
        if held is None and (kept is None or not kept.kept):
            if kept is not None:
                self._shelf.put([kept])  # only its path is taken
            return None
        member = held if held is not None or kept is None else member_of(kept)
        assert member is not None
        self.members[path] = member
        self._adopt(path, member.plan.agent_id)
        parent = self.members.get(member.plan.parent or "")
        if parent is not None and member.plan.reports and not member.closed:
            parent.children[path] = member.plan.nickname
        return member

    def _keep(self, member: Member) -> None:
        """Changed by one who held it: it is in memory again."""
        if self.members.get(member.path) is not member and not member.forgotten:
            self.find(member.path)

    # --- letters -------------------------------------------------------------------------------

    def add_letter(self, member: Member, mail: Mail) -> None:
        self._keep(member)
        member.letters[mail.mail_id] = mail
        if mail.trigger_turn:
            self._waking[mail.mail_id] = member.path
        self.ring()

    def settle_letters(self, member: Member) -> None:
        """Letters that left `member.letters` have been read: they wake nobody any more."""
        for mail_id, reader in tuple(self._waking.items()):
            if reader == member.path and mail_id not in member.letters:
                del self._waking[mail_id]
        self.ring()

    def drop_letters(self, member: Member) -> list[Mail]:
        """Nobody will read these. Returns them."""
        dropped = list(member.letters.values())
        member.letters.clear()
        member.outbox.clear()
        self.settle_letters(member)
        return dropped

    def is_woken(self, member: Member) -> bool:
        """True if a letter waits that starts a turn."""
        return any(mail.trigger_turn for mail in member.letters.values())

    # --- changes -------------------------------------------------------------------------------

    def ring(self) -> None:
        """Something changed: everybody who waits looks again."""
        self._bell.set()
        self._bell = trio.Event()

    async def wait_change(self) -> None:
        """Return after the next change; look first, then wait."""
        await self._bell.wait()

    async def wait_over(self, has_no_jobs: Callable[[], bool]) -> AgentEnded:
        """Return when all work is done: how the root's ended.

        That is when the root's turn has ended, nobody works or stands in line, and no letter is
        on its way that would wake anybody; or at once when the root failed or was stopped.
        """
        while True:
            root = self.members.get(ROOT_PATH)
            outcome = None if root is None else root.outcome
            if root is not None and root.is_active and not (outcome and outcome.cut_off):
                outcome = None  # else a letter has begun a turn while the run ends
            is_done = self.at_rest and has_no_jobs()
            if outcome is not None and (outcome.state not in GOOD_ENDS or is_done):
                return outcome
            await self.wait_change()


def preview(text: str) -> str:
    """The head of a task, for lists."""
    return text if len(text) <= PREVIEW_CHARS else text[: PREVIEW_CHARS - 1] + "…"
