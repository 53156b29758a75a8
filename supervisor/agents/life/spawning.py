"""Spawns child agents: a request becomes a child with a task, or a refusal with a reason.

Name and queue place are held from the request until the spawn succeeds or fails; a failed spawn
leaves nothing. What the child shall read is journaled before its process starts.
"""

from collections.abc import Callable
from functools import partial

import msgspec
import trio

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import AgentPath, is_within
from swarm.mailbox.protocol.control import QueueLeft
from swarm.mailbox.protocol.items import AnyItem
from swarm.mailbox.protocol.records import ContextRecorded
from swarm.mailbox.protocol.requests import AnyReply, RequestRefused, Spawn, Spawned
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Isolation, ReadOnly
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import Roles, load_roles

from ...context.run_context import RunContext
from ...context.skill_mentions import with_named_skills
from ...journal.journal_reader import read_records
from ...journal.replay import AgentMemory
from ...parts.hosts.placement.host_choice import HERE, HostRefused, with_host
from ...processes.process_types import DiedBeforeHello, SpawnError
from ..agent_record import Agent, AgentPlan
from ..child_plan import (
    IN_COPY,
    AgentRequestError,
    SpawnLimits,
    check_spawn_request,
    fork_history,
    parse_fork_turns,
    plan_child,
    role_for,
)
from ..nicknames import DEFAULT_NICKNAMES, NicknamePool
from ..run_providers import RunProviders, child_model, run_providers
from ..spawn_overlap import SpawnOverlapCheck
from .agent_manager import AgentManager
from .agent_start import SlotWait
from .mail_delivery import MailDelivery
from .resume_unstarted import unread_input_warning
from .slot_deadlock import DeadlockDetector

_REMOTE_TRIES = 3  # of a first start on other machines, of which one may be lost meanwhile
ONE_AGENT_ONLY = (
    "No other agent can run beside you here (max_agents is 1). Solve the task yourself."
)


class AgentSpawner:
    """Serves spawn requests."""

    def __init__(
        self,
        running: RunContext,
        agents: AgentManager,
        mail: MailDelivery,
        deadlock_detector: DeadlockDetector,
        find_model: Callable[[], ModelInfo | None],
    ) -> None:
        self._run, self._agents, self._team = running, agents, running.agents
        self._mail, self._deadlock_detector = mail, deadlock_detector
        self.roles = _roles_of(running)
        self.limits = SpawnLimits(
            most=running.request.team.max_spawns,
            is_known_path=lambda path: running.agents.find(path) is not None,
            find_model=find_model,
        )
        self._nicknames = NicknamePool(running.entropy.rng)
        self._overlap = SpawnOverlapCheck(running.agents)

    @property
    def providers(self) -> RunProviders:
        """The providers that agents of this run may use."""
        own = self.limits.find_model()
        return run_providers(self._run.request, own=own.provider if own else None)

    async def spawn(
        self, asker: Agent, request: Spawn, on_position: Callable[[int], None]
    ) -> AnyReply:
        """Serve one request within the run's limits. Raises AgentRequestError."""
        self.limits.check(asker.plan, request, self.roles, self.providers)
        start = partial(self._spawn_child, asker, request, on_position)
        return await self.limits.count_spawn(f"{asker.path}/{request.task_name}", start)

    async def _spawn_child(
        self, asker: Agent, request: Spawn, on_position: Callable[[int], None]
    ) -> AnyReply:
        """Serve one request; returns by its deadline and the Hello deadline at the latest."""
        try:
            check_spawn_request(
                asker.plan, request, pinned_model=self._run.request.approvals.held.model
            )
            role = role_for(self.roles, request.agent_type, self.providers)
            turns = parse_fork_turns(request.fork_turns)
            plan = self._plan(asker.plan, request, role)
            if self._run.agents.registry.max_agents == 1:
                raise AgentRequestError(ONE_AGENT_ONLY)
            if self._team.find(plan.path) is not None:
                raise AgentRequestError(f"agent path `{plan.path}` already exists")
            self._run.agents.registry.check_path(plan.path, agent_id=plan.agent_id)
            self._overlap.check(plan)
        except (AgentRequestError, ValueError, SpawnError) as error:
            return RequestRefused(message=str(error))
        plan = self._with_nickname(plan, role)
        member = self._team.add_queued(plan)
        began = trio.current_time()
        try:
            history = await self._forked_items(asker, turns)
            task = await with_named_skills(self._run, request.message, agent=plan.path)
            await self.start_first_process(
                member,
                self._journal_first_memory(member, asker, task, history),
                request.deadline_s,
                on_position,
            )
        except SpawnError as error:
            self.cancel_spawn(member, str(error))
            return RequestRefused(message=f"collab spawn failed: {error}")
        except BaseException:
            self.cancel_spawn(member, "the one who asked for it is gone")
            raise
        finally:
            member.end_start()
        return Spawned(
            path=plan.path,
            nickname=plan.nickname,
            model=plan.model_settings.model or "",
            effort=plan.model_settings.effort or "",
            waited_s=round(trio.current_time() - began, 3),
        )

    def _plan(self, asker: AgentPlan, request: Spawn, role: Role) -> AgentPlan:
        """Raises AgentRequestError."""
        try:
            model = child_model(self.providers, asker.model_reference, role, request.model)
        except UsageError as error:
            raise AgentRequestError(str(error)) from error
        plan = plan_child(
            asker,
            request,
            role,
            agent_id=self._run.entropy.new_id(),
            model=model,
            isolation=isolation_beside(asker, self._run),
        )
        try:
            return with_host(
                plan, self._run.request, role, wanted=_wanted_host(asker, request.host),
                resources=request.resources,
            )  # fmt: skip
        except HostRefused as error:
            raise AgentRequestError(str(error)) from error

    def _with_nickname(self, plan: AgentPlan, role: Role) -> AgentPlan:
        nickname = self._nicknames.take(role.nickname_candidates or DEFAULT_NICKNAMES)
        return msgspec.structs.replace(plan, nickname=nickname)

    async def _forked_items(self, asker: Agent, turns: int | None) -> list[AnyItem]:
        if turns == 0:
            return []
        await self._run.journal.flush()
        file = asker.plan.agent_id
        items: tuple[AnyItem, ...] = await trio.to_thread.run_sync(
            lambda: fork_history(read_records(self._run.paths, file=file), turns=turns)
        )
        return list(items)

    def _journal_first_memory(
        self, member: Agent, asker: Agent, task: str, history: list[AnyItem]
    ) -> AgentMemory:
        """Journal what the child starts with: its share of the parent's history, and its task."""
        if history:
            self._run.note(
                ContextRecorded(turn_id="", items=tuple(history)),
                agent=member.path,
                file=member.plan.agent_id,
            )
        mail = self._mail.make_mail(asker.path, member.path, task, kind="new_task", wakes=True)
        self._mail.send(member, mail)
        return AgentMemory(items=history)

    def add_worker(self, asker: Agent, name: str, job: str) -> Agent:
        """Queue an agent that works on one item of a part's job, and reports to the part alone.

        Raises AgentRequestError.
        """
        role = role_for(self.roles, None)
        plan = plan_child(
            asker.plan,
            Spawn(task_name=name, message="-"),
            role,
            agent_id=self._run.entropy.new_id(),
            isolation=isolation_beside(asker.plan, self._run, is_one_of_many=True),
        )
        try:
            plan = with_host(plan, self._run.request, role)
        except HostRefused as error:
            raise AgentRequestError(str(error)) from error
        return self._team.add_queued(msgspec.structs.replace(plan, job=job, reports=False))

    def add_reader(self, asker: Agent, name: str, role_name: str) -> Agent:
        """Queue an agent of this role that only reads, starts none, and reports to a part alone.

        Raises AgentRequestError.
        """
        spawn = Spawn(task_name=name, message="-")
        role = role_for(self.roles, role_name, self.providers)
        reader = msgspec.structs.replace(role, sandbox_mode="read-only")
        plan = plan_child(asker.plan, spawn, reader, agent_id=self._run.entropy.new_id())
        limits = msgspec.structs.replace(plan.limits, max_depth=plan.depth)
        return self._team.add_queued(msgspec.structs.replace(plan, limits=limits, reports=False))

    @property
    def hidden_paths(self) -> tuple[str, ...]:
        """What nobody reads on an agent's behalf."""
        return self._agents.starts.places.hidden_paths(self._run)

    async def start_first_process(
        self,
        member: Agent,
        memory: AgentMemory | None,
        timeout_s: float = float("inf"),
        on_position: Callable[[int], None] | None = None,
    ) -> None:
        """Start a member's first process; on another machine, if that one is lost.

        Raises SpawnError.
        """
        for left in reversed(range(_REMOTE_TRIES if member.plan.host else 1)):
            try:
                await self._start_process(member, memory, timeout_s, on_position)
            except DiedBeforeHello:
                if not left:
                    raise
            else:
                return

    async def _start_process(
        self,
        member: Agent,
        memory: AgentMemory | None,
        timeout_s: float,
        on_position: Callable[[int], None] | None,
    ) -> None:
        member.renew_process()
        with self._deadlock_detector.track_spawn() as pending:
            member.begin_start(pending.scope)
            wait = SlotWait(timeout_s=timeout_s, on_position=on_position)
            await self._agents.start_process(member, memory, wait)
        member.begin_start()  # the process is there: nothing cancels its start any more
        if pending.reason and not member.is_live:
            raise SpawnError(pending.reason)
        if member.closed:
            if member.is_live:
                await self._agents.end(member)
            raise SpawnError(f"{member.path} was closed before it began")

    def cancel_spawn(self, member: Agent, why: str) -> None:
        """The spawn failed: free the name, mark its mail as dead, notify the authors."""
        if member.is_live:
            return
        self._mail.bounce_all(member, reason=f"{member.path} was never started: {why}")
        if member.undelivered_inputs:
            warned = unread_input_warning(member.path, why)
            self._run.note(warned, agent=member.path, file=member.plan.agent_id)
        self._team.forget(member)
        self._run.broadcast.show(member.path, QueueLeft())
        self._run.journal.close_file(member.plan.agent_id)


def _wanted_host(asker: AgentPlan, named: str | None) -> str | None:
    """An agent that sees its parent's copy works where that is. Raises AgentRequestError."""
    if asker.limits.isolation != "copy":
        return named
    if named not in {None, "", HERE}:
        raise AgentRequestError(f"{IN_COPY} So leave `host` out.")
    return HERE


def isolation_beside(
    asker: AgentPlan, running: RunContext, *, is_one_of_many: bool = False
) -> Isolation:
    """What the run says of the asker's next agent; its role and the request may say `copy`, too.

    `auto`: a copy if others that may write are at work beside it, or are about to be
    (`is_one_of_many`). Those are all agents but the root and those above the new one.
    """
    wanted = running.request.copies.isolation
    if wanted != "auto":
        return "shared" if wanted == "shared" else "copy"
    if isinstance(asker.limits.sandbox, DangerFullAccess):
        return "shared"  # nothing would hold it to a copy
    path = AgentPath(asker.path)
    beside = (
        one
        for one in running.agents.members.values()
        if one.is_active
        and one.plan.parent is not None
        and not is_within(path, AgentPath(one.path))
    )
    writes = any(not isinstance(one.plan.limits.sandbox, ReadOnly) for one in beside)
    return "copy" if writes or is_one_of_many else "shared"


def _roles_of(running: RunContext) -> Roles:
    """The roles from the person's files; the built-in ones if the run has none."""
    roles = running.request.roles
    return roles if roles.known else load_roles(())
