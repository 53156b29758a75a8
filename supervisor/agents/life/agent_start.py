"""Starts an agent's process: slot, spec, process, Hello, journal record.

Any failure before the commit frees the slot and kills the child; the caller's state is as before.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Literal, NamedTuple

import msgspec
import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.base.proxy_environment import without_proxy_variables
from swarm.mailbox.parts.part_messages import PartRules
from swarm.mailbox.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    TokenUsage,
    encode_item,
)
from swarm.mailbox.protocol.ops import GatewayMoved
from swarm.mailbox.protocol.records import AgentSpawned
from swarm.mailbox.protocol.rules import RuleSet
from swarm.mailbox.protocol.spec import (
    AgentSpec,
    ChildCard,
    ContextOverrides,
    ContextRules,
    EndedCall,
    GatewayAccess,
    Inherited,
    ProxyAccess,
    ResumedWork,
    TeamView,
)
from swarm.mailbox.protocol.values.limits import opens_tunnels

from ...context.agent_places import AgentPlaces, made_or_none
from ...context.run_context import RunContext
from ...context.saved_rules import rules_for, send_rules
from ...context.skill_updates import send_skills, skills_for
from ...journal.journal_reader import read_records
from ...journal.replay import AgentMemory, fold_agent
from ...parts.copies.copy_view import with_copy
from ...parts.copies.project_copies import OUTSIDE_SANDBOX
from ...parts.hosts.placement.known_nodes import NodePlace
from ...parts.network.network_policy import ticket_for
from ...processes.process_types import DiedBeforeHello, ProcessEnd, ProcessStarter, SpawnError
from ...request.run_request import RunRequest
from ...runs.paths import make_private_folder
from ..agent_record import Agent, AgentPlan, GatewayAddress
from ..process_record import AgentProcess
from ..slots import Slot

HELLO_TIMEOUT_S = 10.0
_KILL_TIMEOUT_S = 2.0


class SlotWait(NamedTuple):
    """How a start waits for its slot."""

    timeout_s: float = float("inf")  # then a SpawnError
    on_position: Callable[[int], None] | None = None  # called with its place in the queue


WITHOUT_TIMEOUT = SlotWait()


class StartServices(NamedTuple):
    """What the start of an agent's process needs beside the run itself."""

    processes: ProcessStarter
    part_rules: Callable[[AgentPlan], PartRules]  # what parts tell a new process of this agent
    gateway: GatewayAddress
    places: AgentPlaces = AgentPlaces()


async def start_agent(
    running: RunContext,
    services: StartServices,
    agent: Agent,
    memory: AgentMemory | None,
    wait: SlotWait,
) -> None:
    """Start the present process of `agent`. On return it has a slot, a child and a record.

    The record is queued for the journal before any record of this process. Raises SpawnError after
    the slot timeout or the Hello deadline at the latest. The Hello deadline counts from the
    process's own start: if a thousand start at once, the last one does not time out in the queue.
    """
    plan, identity, process = agent.plan, agent.identity, agent.process
    async with AsyncExitStack() as stack:
        slot = None if plan.slotless else await _wait_for_slot(stack, running, plan, wait)
        copy = await running.copies.prepare(
            plan, is_first=not agent.has_started, hidden=services.places.hidden_paths(running)
        )
        place = None
        if plan.host:
            place = await stack.enter_async_context(_place_on_node(running, plan))
        start = services.processes.start if place is None else place.start
        started = trio.current_time()
        running.mailbox.admit(identity, epoch=agent.epoch)
        child = None
        try:
            async with services.processes.start_limiter:
                with trio.fail_after(HELLO_TIMEOUT_S):
                    process.know_gateway(services.gateway.endpoint)
                    spec = with_copy(build_agent_spec(running, services, agent, memory), copy)
                    title = f"{plan.path} [{plan.role.name}]"
                    child = await start(spec, title=title)
                    process.note_child(child)
                    await _wait_for_hello(plan.path, process)
            if agent.wanted_end is not None:
                raise SpawnError(f"{plan.path} was ended while it started")
        except BaseException as error:
            running.mailbox.dismiss(identity)
            if child is not None:
                child.kill_group()
                with trio.move_on_after(_KILL_TIMEOUT_S, shield=True):
                    await child.wait_ended()  # its process holds the slot until then
            if isinstance(error, trio.TooSlowError):
                raise DiedBeforeHello(
                    f"{plan.path} did not answer in {HELLO_TIMEOUT_S:g} s"
                ) from error
            raise
        if slot is not None:
            slot.commit(child.pid)
    process.note_heartbeat(trio.current_time())
    spawned = AgentSpawned(
        agent_id=plan.agent_id,
        path=plan.path,
        epoch=agent.epoch,
        pid=child.pid,
        role=plan.role.name,
        nickname=plan.nickname,
        parent=plan.parent,
        depth=plan.depth,
        model=plan.model_settings.model,
        effort=plan.model_settings.effort,
        provider=plan.model_settings.provider,
        fallback=plan.model_settings.fallback,
        limits=plan.limits,
        cwd=plan.cwd,
        warm=child.warm,
        spawn_s=round(trio.current_time() - started, 4),
        usage=memory.usage if memory is not None else TokenUsage(),
        usd=agent.usd,
        claims=plan.claims,
        task_key=plan.task_key,
        node="" if place is None else place.node,
        resources=plan.resources,
    )
    # Not waited for: all that follows from it is journaled behind it, in the same order.
    running.note(spawned, agent=plan.path)


async def read_agent_memory(running: RunContext, file: str) -> AgentMemory:
    """Fold the agent's file, with all that was written so far."""
    await running.journal.flush()
    return await trio.to_thread.run_sync(lambda: fold_agent(read_records(running.paths, file=file)))


async def send_gateway_address(running: RunContext, agent: Agent, gateway: GatewayAddress) -> None:
    """Send the gateway's address unless this process knows it; it may move during the start."""
    if not agent.process.know_gateway(gateway.endpoint):
        return
    token = running.gateway_proof(agent.identity)
    with suppress(PeerGone):  # the next process gets it in its spec
        await running.send(agent, GatewayMoved(endpoint=gateway.endpoint, token=token))


async def send_changes_since_spec(
    running: RunContext, agent: Agent, gateway: GatewayAddress
) -> None:
    """Send the gateway's address and the rules that were saved since the spec was written."""
    await send_gateway_address(running, agent, gateway)
    await send_rules(running, agent)
    await send_skills(running, agent)


async def _wait_for_slot(
    stack: AsyncExitStack, running: RunContext, plan: AgentPlan, wait: SlotWait
) -> Slot:
    registry = running.agents.registry
    place = registry.wait_for_slot(
        plan.path, parent=plan.parent or "", agent_id=plan.agent_id, on_position=wait.on_position
    )
    with trio.move_on_after(wait.timeout_s):
        return await stack.enter_async_context(place)
    raise SpawnError(
        f"no agent slot came free within {wait.timeout_s:g} s: all "
        f"{registry.max_agents} are in use; wait for an agent to finish, or close one"
        + (f" ({registry.limit_reason})" if registry.limit_reason else "")
    )


def _place_on_node(running: RunContext, plan: AgentPlan) -> AbstractAsyncContextManager[NodePlace]:
    """A slot on one of the machines that the plan names. Raises SpawnError."""
    folder = running.copies.folder
    copy = folder.find(plan.agent_id)
    if copy is None or copy.tree:
        raise SpawnError(f"{plan.path} cannot run on {plan.host}: it has no copy that can travel")
    return running.hosts.place(plan, copy, folder.mounts(copy))


async def _wait_for_hello(path: str, process: AgentProcess) -> None:
    """Wait for the Hello or for the process's end, whichever comes first."""
    child = process.child
    assert child is not None
    ended: list[ProcessEnd] = []
    async with trio.open_nursery() as nursery:

        async def notice_end() -> None:
            ended.append(await child.wait_ended())
            nursery.cancel_scope.cancel()

        nursery.start_soon(notice_end)
        await process.hello.wait()
        nursery.cancel_scope.cancel()
    if not process.hello.is_set():
        tail = ended[0].stderr_tail.strip()[-2000:]
        raise DiedBeforeHello(f"{path} ended before it said hello: {ended[0].reason}\n{tail}")


def build_agent_spec(
    running: RunContext, services: StartServices, agent: Agent, memory: AgentMemory | None
) -> AgentSpec:
    """All that the new process may know."""
    plan, request, places = agent.plan, running.request, services.places
    tmp = make_private_folder(running.paths.tmp / plan.agent_id)
    children = running.agents.open_children(plan.path) if agent.has_started else {}
    return AgentSpec(
        run_id=running.run_id,
        agent_id=plan.agent_id,
        path=plan.path,
        epoch=agent.epoch,
        role=plan.role,
        limits=plan.limits,
        cwd=plan.cwd,
        endpoint=running.paths.mailbox_endpoint,
        identity=agent.identity,
        secret=running.supervisor_proof(agent.identity),
        gateway=GatewayAccess(
            endpoint=services.gateway.endpoint, token=running.gateway_proof(agent.identity)
        ),
        tmp_dir=str(tmp),
        short_tmp_dir=made_or_none(places.short_tmp.of_agent(plan.agent_id)),
        environment=_environment(request),
        model_settings=plan.model_settings,
        fallbacks_taken=plan.fallbacks_taken,
        inherited=inherited_by(plan, request.inherited),
        team=_team_view(running, plan),
        resumed=_resumed_work(memory, children),
        guarded=places.guarded(running),
        proxy=_proxy_access(running, plan),
        depth=plan.depth,
        claims=plan.claims,
        skills=skills_for(running, agent),
        job=plan.job,
        rules=RuleSet() if plan.slotless else rules_for(running, agent),
        granted=running.grants.permissions_of(plan.path),
        mcp_wait_s=_mcp_wait_s(running, plan),
        parts=services.part_rules(plan),
        paused=running.agents.is_paused(agent),
        run_began_s=running.began_s,
        session_source=_session_source(running, agent),
    )


def inherited_by(plan: AgentPlan, inherited: Inherited) -> Inherited:
    """What the run gives to each agent, as this one gets it: a reviewer nothing of the project."""
    context = inherited.context
    if plan.slotless:
        context = msgspec.structs.replace(context, guidance_bytes=0)
        inherited = msgspec.structs.replace(
            inherited, allow_commit=False, user_instructions="", guidance_files=(), hooks=()
        )
    required = inherited.sandbox_required or (OUTSIDE_SANDBOX if _is_in_copy(plan) else "")
    return msgspec.structs.replace(
        inherited, context=with_overrides(context, plan.role.context), sandbox_required=required
    )


def _team_view(running: RunContext, plan: AgentPlan) -> TeamView:
    request = running.request
    return TeamView(
        can_spawn=request.team.max_agents > 1 and not plan.host,
        max_agents=request.team.max_agents,
        roles=request.roles.cards(with_copies=request.offers_copies),
        offers_copies=request.offers_copies,
        hosts=() if plan.slotless else tuple(running.hosts.tables),
    )


def _proxy_access(running: RunContext, plan: AgentPlan) -> ProxyAccess:
    decrypts = opens_tunnels(running.request.network) and opens_tunnels(plan.limits.network)
    return ProxyAccess(
        endpoint=running.paths.proxy_socket if plan.limits.network is not None else "",
        ticket=ticket_for(plan.path, plan.limits, running.run_key),
        ca_bundle=str(running.paths.ca_folder / "bundle.pem") if decrypts else "",
    )


def _resumed_work(memory: AgentMemory | None, children: Mapping[str, str]) -> ResumedWork:
    """`children`: path → nickname."""
    cards = tuple(ChildCard(path=path, nickname=name) for path, name in children.items())
    if memory is None:
        return ResumedWork(children=cards)
    open_calls, ended = _calls_without_output(memory), memory.ended_calls
    return ResumedWork(
        history=tuple(msgspec.Raw(encode_item(item)) for item in memory.items),
        output_schema=memory.output_schema,
        total_usage=memory.usage,
        interrupted_calls=tuple(name for name in open_calls if name not in ended),
        ended_calls=tuple(
            EndedCall(
                call_id=name,
                status=ended[name].status,
                exit_code=ended[name].exit_code,
                output=ended[name].output,
            )
            for name in open_calls
            if name in ended
        ),
        children=cards,
    )


def _is_in_copy(plan: AgentPlan) -> bool:
    return plan.limits.isolation == "copy"


def _session_source(running: RunContext, agent: Agent) -> Literal["", "startup", "resume"]:
    """What the root's first process in this supervisor's life tells its SessionStart hooks."""
    if agent.has_begun_here:
        return ""
    return "resume" if running.request.resumes else "startup"


def _mcp_wait_s(running: RunContext, plan: AgentPlan) -> float:
    """How long the first request waits for MCP tools: longer than their servers may take."""
    names = {one.server for one in plan.limits.mcp}
    servers = [one for one in running.request.mcp.servers if one.name in names]
    return 2 * max(one.startup_timeout_s for one in servers) + 60 if servers else 0.0


def _environment(request: RunRequest) -> dict[str, str]:
    """The environment; without proxy variables if our proxy uses them (may hold a password)."""
    return (
        without_proxy_variables(request.environment)
        if request.goes_upstream
        else request.environment
    )


def with_overrides(rules: ContextRules, role: ContextOverrides) -> ContextRules:
    """The rules with what the agent's role says."""
    given = {key: one for key, one in msgspec.structs.asdict(role).items() if one is not None}
    return msgspec.structs.replace(rules, **given)


def _calls_without_output(memory: AgentMemory) -> tuple[str, ...]:
    """Calls of the history that have no output yet."""
    open_calls: dict[str, None] = {}
    for item in memory.items:
        if isinstance(item, FunctionCall | CustomToolCall):
            open_calls[item.call_id] = None
        elif isinstance(item, FunctionCallOutput | CustomToolCallOutput):
            open_calls.pop(item.call_id, None)
    return tuple(open_calls)
