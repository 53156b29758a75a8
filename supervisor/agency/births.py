"""Spawn: a wish → a child with a task, or a refusal that says why. One at a time for each wish.

Rule guarded: name and place in line are held from the wish until it is granted or refused, then
nothing of a refused one is left. What the child shall read is journaled before it lives.
"""

from collections.abc import Callable
from functools import partial

import msgspec
import trio

from swarm.mailbox.protocol.items import AnyItem
from swarm.mailbox.protocol.records import ContextRecorded
from swarm.mailbox.protocol.requests import AnyReply, RequestRefused, Spawn, Spawned
from swarm.roles.loader import Roles, load_roles
from swarm.roles.schema import Role

from ..agents import AgentPlan, LiveAgent
from ..birth import Line
from ..control import Control
from ..journal.reading import read_records
from ..journal.replay import AgentMemory
from ..names import NAMES, NicknamePool
from ..running import Running
from ..spawner.base import SpawnError
from .forks import fork_history, parse_fork_turns
from .inherit import NotPossible, check_wish, plan_child, role_for
from .letters import Post
from .line import LineWarden
from .member import Member
from .team import Team
from .unborn import unread_words

NO_ROOM = "No other agent can run beside you here (max_agents is 1). Solve the task yourself."


class Births:
    """Grants wishes for children."""

    def __init__(
        self, running: Running, control: Control, team: Team, post: Post, warden: LineWarden
    ) -> None:
        self._run, self._control, self._team = running, control, team
        self._post, self._warden = post, warden
        self.roles = _roles_of(running)
        self.provider: Callable[[], str | None] = lambda: None
        self._names = NicknamePool(running.chances.dice)

    async def grant(self, asker: Member, wish: Spawn, on_place: Callable[[int], None]) -> AnyReply:
        """Serve one wish; returns by its deadline and the Hello deadline at the latest."""
        try:
            check_wish(asker.plan, wish, pinned_model=self._run.request.held.model)
            role = role_for(self.roles, wish.agent_type, provider=self.provider())
            turns = parse_fork_turns(wish.fork_turns)
            plan = plan_child(asker.plan, wish, role, agent_id=self._run.chances.new_id())
            if self._run.registry.max_agents == 1:
                raise NotPossible(NO_ROOM)
            if self._team.find(plan.path) is not None:
                raise NotPossible(f"agent path `{plan.path}` already exists")
            self._run.registry.check_path(plan.path, agent_id=plan.agent_id)
        except (NotPossible, ValueError, SpawnError) as error:
            return RequestRefused(message=str(error))
        plan = self._named(plan, role)
        member = self._team.enlist(plan, state="queued")
        member.beginning = True
        began = trio.current_time()
        try:
            history = await self._fork(asker, turns)
            await self.bring_forth(
                member, self._first_memory(member, asker, wish, history), wish.deadline_s, on_place
            )
        except SpawnError as error:
            self.withdraw(member, str(error))
            return RequestRefused(message=f"collab spawn failed: {error}")
        except BaseException:
            self.withdraw(member, "the one who asked for it is gone")
            raise
        finally:
            member.beginning, member.birth = False, None
        return Spawned(
            path=plan.path,
            nickname=plan.nickname,
            model=plan.model or "",
            effort=plan.effort or "",
            waited_s=round(trio.current_time() - began, 3),
        )

    def _named(self, plan: AgentPlan, role: Role) -> AgentPlan:
        nickname = self._names.take(role.nickname_candidates or NAMES)
        return msgspec.structs.replace(plan, nickname=nickname)

    async def _fork(self, asker: Member, turns: int | None) -> list[AnyItem]:
        if turns == 0:
            return []
        await self._run.journal.settle()
        file = asker.plan.agent_id
        items: tuple[AnyItem, ...] = await trio.to_thread.run_sync(
            lambda: fork_history(read_records(self._run.places, file=file), turns=turns)
        )
        return list(items)

    def _first_memory(
        self, member: Member, asker: Member, wish: Spawn, history: list[AnyItem]
    ) -> AgentMemory:
        """Journal what the child begins with: its share of the history, and its task."""
        if history:
            self._run.note(
                ContextRecorded(turn_id="", items=tuple(history)),
                agent=member.path,
                file=member.plan.agent_id,
            )
        task = self._post.write(asker.path, member.path, wish.message, kind="new_task", wakes=True)
        self._post.post(member, task)
        return AgentMemory(items=history)

    async def bring_forth(
        self,
        member: Member,
        memory: AgentMemory | None,
        patience_s: float = float("inf"),
        on_place: Callable[[int], None] | None = None,
    ) -> LiveAgent:
        """Start the first life of a member. Raises SpawnError."""
        plan = member.plan
        life = LiveAgent(plan, epoch=1)
        life.letters, life.deaths = member.letters, member.deaths
        life.brood = partial(self._team.brood, plan.path)
        with self._warden.in_line() as wish:
            member.birth = wish.scope
            line = Line(patience_s=patience_s, on_place=on_place)
            await self._control.enliven(life, memory, line)
        member.birth = None
        is_born = self._control.agents.get(plan.path) is life
        if wish.reason and not is_born:
            raise SpawnError(wish.reason)
        if member.closed:
            if is_born:
                await self._control.end(life)
            raise SpawnError(f"{plan.path} was closed before it began")
        return life

    def withdraw(self, member: Member, why: str) -> None:
        """It never lived: its name is free again, its letters are dead, who wrote them is told."""
        if member.life is not None:
            return
        self._post.bounce_all(member, reason=f"{member.path} was never started: {why}")
        if member.unheard:
            warned = unread_words(member.path, why)
            self._run.note(warned, agent=member.path, file=member.plan.agent_id)
        self._team.forget(member)
        self._run.showing.state.forget(member.path)
        self._run.journal.forget(member.plan.agent_id)


def _roles_of(running: Running) -> Roles:
    """Those that the person's files gave; a run started without a command line has ours."""
    roles = running.request.roles
    return roles if roles.known else load_roles(())
