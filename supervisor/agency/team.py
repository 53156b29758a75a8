"""Who is in the tree: every agent that was ever started or stands in line, with what it came to.

Rule guarded: a path is an agent's for the whole run and so is its result; its process may end.
Whoever waits for a change waits for the bell, and nothing here waits.
"""

from collections import deque
from collections.abc import Iterator

import trio

from swarm.mailbox.ids import AgentPath, is_within
from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import AgentEnded
from swarm.mailbox.protocol.requests import TeamMember

from ..agents import AgentPlan, LiveAgent, TurnEnd

ACTIVE = frozenset({"queued", "starting", "running"})
RESTING = "idle"  # started, and never asked anything
_PREVIEW_CHARS = 500


class Suspended:
    """A turn that stopped in the middle of one call, to go on in another process."""

    def __init__(self, *, turn_id: str, call_id: str, tool: str) -> None:
        self.turn_id, self.call_id, self.tool = turn_id, call_id, tool
        self.output: str | None = None  # what the call came to, once it is known


class Member:
    """One agent as its team knows it. Changed by the agency alone, its state by `Team`."""

    def __init__(self, plan: AgentPlan, *, state: str) -> None:
        self.plan = plan
        self.state = state  # queued, starting, running, idle, or an EndState
        self.life: LiveAgent | None = None  # kept while a process lives or is suspended
        self.epoch = 0
        self.letters: dict[str, Mail] = {}  # posted, and not yet in its history
        self.outbox: deque[Mail] = deque()  # journaled, and not yet handed over
        self.outcome: AgentEnded | None = None
        self.last_turn_end: TurnEnd | None = None
        self.last_task = ""
        self.ends = 0  # how often its work reached an end state
        self.children: dict[str, str] = {}  # those not closed: path → nickname
        self.heard: dict[str, int] = {}  # child → which of its ends this agent was told
        self.closed = False  # for good: killed or closed
        self.beginning = False  # a life of it is being started
        self.birth: trio.CancelScope | None = None  # of its first life, while it is begun
        self.deaths: list[float] = []
        self.suspended: Suspended | None = None

    @property
    def path(self) -> str:
        return self.plan.path

    @property
    def is_active(self) -> bool:
        """Works, or is about to."""
        return self.state in ACTIVE

    @property
    def result(self) -> str | None:
        """What its work came to, or why it did not."""
        return self.outcome.message if self.outcome is not None else None

    def as_told(self) -> TeamMember:
        """This member in a reply."""
        return TeamMember(
            path=self.path,
            status=self.state,
            result=None if self.is_active else self.result,
            last_task=self.last_task,
            nickname=self.plan.nickname,
            role=self.plan.role.name,
        )


class Team:
    """All members by path, in the order of their coming."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self._active: set[str] = set()
        self._waking: dict[str, str] = {}  # unread letters that will start a turn → reader
        self._bell = trio.Event()

    def __len__(self) -> int:
        return len(self.members)

    # --- members -------------------------------------------------------------------------------

    def enlist(self, plan: AgentPlan, *, state: str) -> Member:
        """A new member. The caller has checked that the path is nobody else's."""
        member = self.members[plan.path] = Member(plan, state=state)
        self.set_state(member, state)
        return member

    def forget(self, member: Member) -> None:
        """It was never started, or its answer went elsewhere: nobody asks for it again."""
        self.members.pop(member.path, None)
        self._active.discard(member.path)
        for mail_id in member.letters:
            self._waking.pop(mail_id, None)
        self.ring()

    def set_state(self, member: Member, state: str) -> None:
        member.state = state
        if state in ACTIVE:
            self._active.add(member.path)
        else:
            self._active.discard(member.path)
        self.ring()

    def subtree(self, path: str) -> list[Member]:
        """The agent and all below it."""
        top = AgentPath(path)
        return [one for one in self.members.values() if is_within(AgentPath(one.path), top)]

    def children_of(self, path: str) -> Iterator[Member]:
        """Direct children, in the order of their coming."""
        return (one for one in self.members.values() if one.plan.parent == path)

    def others_active(self, path: str) -> bool:
        """True if anybody but `path` works, or will be woken by a letter."""
        return len(self._active) > (path in self._active) or any(
            reader != path for reader in self._waking.values()
        )

    @property
    def at_rest(self) -> bool:
        """Nobody works and no unread letter will make anybody work."""
        return not self._active and not self._waking

    # --- letters -------------------------------------------------------------------------------

    def add_letter(self, member: Member, mail: Mail) -> None:
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


def preview(text: str) -> str:
    """The head of a task, for lists."""
    return text if len(text) <= _PREVIEW_CHARS else text[: _PREVIEW_CHARS - 1] + "…"
