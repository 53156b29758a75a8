"""A person's words to an agent, whether it has a process now or not.

Rule guarded: what was accepted is heard. Nobody's run ends while words are being written for one of
its agents, and once it ends none are accepted any more.
"""

from collections.abc import Callable

from swarm.mailbox.protocol.ops import UserInput

from ..catching_up import as_posted
from ..control import Control
from ..running import Running
from .inherit import NotPossible
from .member import Member
from .team import Team


class Words:
    """`wake` is called for an agent without a process."""

    def __init__(
        self, running: Running, control: Control, team: Team, wake: Callable[[Member], None]
    ) -> None:
        self._run, self._control, self._team, self._wake = running, control, team, wake
        self._being_said, self._is_closed = 0, False

    @property
    def idle(self) -> bool:
        """False while somebody's words are on their way to the journal."""
        return not self._being_said

    def close(self) -> None:
        """The run ends: who speaks now is told so."""
        self._is_closed = True

    async def say(self, member: Member, words: UserInput) -> None:
        """Journaled on return. Raises NotPossible: nobody will hear it in this run."""
        if self._is_closed:
            raise NotPossible("the run is ending; say it with `swarm resume`")
        self._being_said += 1
        try:
            await self._write_and_hand_over(member, words)
        finally:
            self._being_said -= 1
            self._team.ring()  # the end of the run may wait for this, or a turn without a process

    async def _write_and_hand_over(self, member: Member, words: UserInput) -> None:
        posted = as_posted(words, "person")
        await self._run.commit(posted, agent=member.path, file=member.plan.agent_id)
        if self._is_closed:
            raise NotPossible("the run ended meanwhile; `swarm resume` begins with these words")
        if not member.epoch and self._team.find(member.path) is not member:
            raise NotPossible(f"{member.path} was never started; nobody reads what was said to it")
        life = member.life
        if life is not None and life.wanted_end is None:
            await self._control.hand_over(life, posted)
        else:
            member.unheard[posted.input_id] = posted
        if member.life is None or member.life.wanted_end is not None:
            self._wake(member)  # after its end, if that has begun
