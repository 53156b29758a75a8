"""One birth: a slot held, a spec written, a process started, its Hello heard, the fact journaled.

Any failure before the commit frees the slot and kills the child; the caller's state is as before.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.protocol.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    TokenUsage,
    encode_item,
)
from swarm.mailbox.protocol.limits import opens_tunnels
from swarm.mailbox.protocol.ops import GatewayMoved
from swarm.mailbox.protocol.records import AgentSpawned
from swarm.mailbox.protocol.rules import Rules
from swarm.mailbox.protocol.spec import AgentSpec, ChildCard, ContextRules, EndedCall, FolderMark
from swarm.mailbox.proxies import without_proxies

from .agents import Bound, LiveAgent
from .journal.replay import AgentMemory
from .network.policy import ticket_for
from .places import make_private
from .registry import Slot
from .request import RunRequest
from .running import Running
from .saved_rules import rules_for, tell_rules
from .spawner.base import BornDead, Ended, SpawnError

HELLO_DEADLINE_S = 10.0
_KILL_LIMIT_S = 2.0


class Line(NamedTuple):
    """How a birth waits for its slot."""

    patience_s: float = float("inf")  # then a SpawnError
    on_place: Callable[[int], None] | None = None  # told its place in line


AT_ANY_TIME = Line()


async def bear(
    running: Running,
    agent: LiveAgent,
    memory: AgentMemory | None,
    gateway: Bound,
    line: Line = AT_ANY_TIME,
) -> None:
    """Start the present life of `agent`. On return it has a slot, a child and a record,
    which is on its way to the disk before anything that comes of this life.

    Raises SpawnError by the line's patience and the Hello deadline at the latest, counted from
    its turn: of a thousand born at once, the last must not be late for the queue's sake.
    """
    plan, identity = agent.plan, agent.identity
    async with AsyncExitStack() as stack:
        slot = None if plan.slotless else await _wait_for_slot(stack, running, agent, line)
        started = trio.current_time()
        running.office.admit(identity, epoch=agent.epoch)
        child = None
        try:
            async with running.household.births:
                with trio.fail_after(HELLO_DEADLINE_S):
                    agent.gateway_endpoint = gateway.endpoint
                    spec = write_spec(running, agent, memory, gateway)
                    title = f"{plan.path} [{plan.role.name}]"
                    child = agent.child = await running.household.start(spec, title=title)
                    await _hear_hello(agent)
            if agent.wanted_end is not None:
                raise SpawnError(f"{plan.path} was ended while it started")
        except BaseException as error:
            running.office.dismiss(identity)
            if child is not None:
                child.kill_group()
                with trio.move_on_after(_KILL_LIMIT_S, shield=True):
                    await child.wait_ended()  # the slot is its process's until then
            if isinstance(error, trio.TooSlowError):
                raise BornDead(f"{plan.path} did not answer in {HELLO_DEADLINE_S:g} s") from error
            raise
        if slot is not None:
            slot.commit(child.pid)
    agent.last_beat = trio.current_time()
    spawned = AgentSpawned(
        agent_id=plan.agent_id,
        path=plan.path,
        epoch=agent.epoch,
        pid=child.pid,
        role=plan.role.name,
        nickname=plan.nickname,
        parent=plan.parent,
        depth=plan.depth,
        model=plan.model,
        effort=plan.effort,
        limits=plan.limits,
        cwd=plan.cwd,
        warm=child.warm,
        spawn_s=round(trio.current_time() - started, 4),
        usage=memory.usage if memory is not None else TokenUsage(),
        usd=agent.spending.usd,
    )
    # Not waited for: all that follows from it is journaled behind it, in the same order.
    running.note(spawned, agent=plan.path)


async def tell_gateway(running: Running, agent: LiveAgent, gateway: Bound) -> None:
    """Say where the gateway is, unless this life knows: it may have moved during its birth."""
    if agent.gateway_endpoint == gateway.endpoint:
        return
    agent.gateway_endpoint = gateway.endpoint
    token = running.gateway_proof(agent.identity)
    with suppress(PeerGone):  # its next life is born with it
        await running.send(agent, GatewayMoved(endpoint=gateway.endpoint, token=token))


async def tell_what_changed(running: Running, agent: LiveAgent, gateway: Bound) -> None:
    """Where the gateway is, and which rules were saved, since the spec of this life was written."""
    await tell_gateway(running, agent, gateway)
    await tell_rules(running, agent)


async def _wait_for_slot(
    stack: AsyncExitStack, running: Running, agent: LiveAgent, line: Line
) -> Slot:
    plan = agent.plan
    place = running.room.wait_for_slot(
        plan.path, parent=plan.parent or "", agent_id=plan.agent_id, on_place=line.on_place
    )
    with trio.move_on_after(line.patience_s):
        return await stack.enter_async_context(place)
    raise SpawnError(
        f"no agent slot came free within {line.patience_s:g} s: all "
        f"{running.registry.max_agents} are in use; wait for an agent to finish, or close one"
        + (f" ({running.registry.bound})" if running.registry.bound else "")
    )


async def _hear_hello(agent: LiveAgent) -> None:
    """Wait for the Hello or for the process's end, whichever comes first."""
    child = agent.child
    assert child is not None
    ended: list[Ended] = []
    async with trio.open_nursery() as nursery:

        async def notice_end() -> None:
            ended.append(await child.wait_ended())
            nursery.cancel_scope.cancel()

        nursery.start_soon(notice_end)
        await agent.hello.wait()
        nursery.cancel_scope.cancel()
    if not agent.hello.is_set():
        tail = ended[0].stderr_tail.strip()[-2000:]
        raise BornDead(f"{agent.path} ended before it said hello: {ended[0].reason}\n{tail}")


def write_spec(
    running: Running, agent: LiveAgent, memory: AgentMemory | None, gateway: Bound
) -> AgentSpec:
    """All that the new process may know."""
    plan, request = agent.plan, running.request
    tmp = make_private(running.places.tmp / plan.agent_id)
    history = memory.items if memory is not None else []
    open_calls = _calls_without_output(memory)
    ended = memory.ended_calls if memory is not None else {}
    return AgentSpec(
        run_id=running.run_id,
        agent_id=plan.agent_id,
        path=plan.path,
        epoch=agent.epoch,
        role=plan.role,
        limits=plan.limits,
        cwd=plan.cwd,
        endpoint=running.places.post,
        identity=agent.identity,
        secret=running.supervisor_proof(agent.identity),
        gateway_endpoint=gateway.endpoint,
        gateway_token=running.gateway_proof(agent.identity),
        tmp_dir=str(tmp),
        environment=_environment(request),
        shell_environment=request.shell_environment,
        resources=request.resources,
        run_began_s=running.began_s,
        sandbox_required=request.sandbox_required,
        allow_commit=request.allow_commit and not plan.slotless,
        model=plan.model,
        effort=plan.effort,
        depth=plan.depth,
        ca_bundle=str(running.places.authority / "bundle.pem")
        if opens_tunnels(request.network) and opens_tunnels(plan.limits.network)
        else "",
        hidden_paths=hidden_paths(running),
        hidden_folders=tuple(
            _marked(folder)
            for folder in (running.places.sockets.parent, running.places.folder.parent)
        ),
        history=tuple(msgspec.Raw(encode_item(item)) for item in history),
        output_schema=memory.output_schema if memory is not None else None,
        total_usage=memory.usage if memory is not None else TokenUsage(),
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
        user_instructions="" if plan.slotless else request.user_instructions,
        context=context_of(request.context, of_project=not plan.slotless),
        can_spawn=request.max_agents > 1,
        max_agents=request.max_agents,
        roles=request.roles.cards,
        children=tuple(ChildCard(path=path, nickname=name) for path, name in agent.brood().items()),
        job=plan.job,
        rules=Rules() if plan.slotless else rules_for(running, agent),
        granted=running.grants.permissions_of(plan.path),
        proxy_endpoint=running.places.proxy if plan.limits.network is not None else "",
        network_ticket=ticket_for(plan.path, plan.limits, running.run_key),
        summary=plan.summary,
        verbosity=plan.verbosity,
        paused=agent.paused,
    )


def hidden_paths(running: Running) -> tuple[str, ...]:
    """What no command of this run may see, and nothing is read of on an agent's behalf."""
    request, places = running.request, running.places
    return (
        str(places.sockets.parent),  # other runs have theirs beside this one's
        str(places.folder.parent),
        str(places.authority / "ca.key"),
        *(provider.key_file for provider in request.providers if provider.key_file),
        *request.deny_read,
    )


def _marked(folder: Path) -> FolderMark:
    """What is in it keeps its inode alive, wherever it may be moved to."""
    found = folder.stat()
    return FolderMark(path=str(folder), device=found.st_dev, inode=found.st_ino)


def _environment(request: RunRequest) -> dict[str, str]:
    """The address of another proxy may hold a password: where it is followed, by ours alone."""
    return without_proxies(request.environment) if request.goes_upstream else request.environment


def context_of(rules: ContextRules, *, of_project: bool) -> ContextRules:
    """The rules of one agent: a reviewer is told nothing of the project's words."""
    return rules if of_project else msgspec.structs.replace(rules, guidance_bytes=0)


def _calls_without_output(memory: AgentMemory | None) -> tuple[str, ...]:
    """Calls of the history that have no output yet."""
    if memory is None:
        return ()
    open_calls: dict[str, None] = {}
    for item in memory.items:
        if isinstance(item, FunctionCall | CustomToolCall):
            open_calls[item.call_id] = None
        elif isinstance(item, FunctionCallOutput | CustomToolCallOutput):
            open_calls.pop(item.call_id, None)
    return tuple(open_calls)
