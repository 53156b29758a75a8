"""Starts, monitors and restarts the process that drives nodes, and carries orders to it."""

import logging
from collections.abc import Awaitable, Callable

import trio

from swarm.mailbox.delivery.interfaces import ReceivedMessage
from swarm.mailbox.protocol.events import Goodbye, Heartbeat, Hello, Warned
from swarm.mailbox.protocol.host_records import HostDrained, HostJoined, HostLeft, HostPrepared
from swarm.mailbox.protocol.hosts import (
    AnyHostsEvent,
    CopyShipped,
    HostUnusable,
    LayersStored,
    NodeJoined,
    NodeLost,
    NodeUsage,
    RemoteEnded,
    RemotePrepared,
    RemoteRefused,
    RemoteStarted,
    decode_hosts_event,
    encode_hosts_op,
)
from swarm.mailbox.protocol.ops import Shutdown
from swarm.mailbox.protocol.spec import HostsSpec

from ...agents.life.agent_start import StartServices
from ...base.version import VERSION
from ...context.run_context import RunContext
from ...context.service_process import ServiceProcess
from ...processes.child_spec import ChildSpec
from ...processes.process_types import Child, ProcessEnd, SpawnError

_END_LIMIT_S = 30.0
_log = logging.getLogger("swarm.hosts")


class HostManager:
    """Owns the process, if the run uses hosts."""

    def __init__(self, running: RunContext, starts: StartServices, *, first_epoch: int) -> None:
        self._run = running
        self._gateway = starts.gateway
        self._epoch = first_epoch
        self._processes = starts.processes
        child = ChildSpec(
            start=self._start,
            on_end=self._on_end,
            on_crash=self._on_crash,
            on_give_up=self._on_give_up,
            ask_to_stop=self._ask_to_stop,
            grace_s=_END_LIMIT_S,
        )
        self.process = ServiceProcess(running, "hosts", child, prefix="o")
        self._told: set[str] = set()  # agents whose changes could not be brought

    async def run(self) -> None:
        """Keep the process running until cancelled, ended or given up."""
        if not self._run.hosts.tables:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send_orders)
            await self.process.loop.run()
            nursery.cancel_scope.cancel()

    async def stop_before(self, stop_others: Callable[[], Awaitable[None]]) -> None:
        """End all nodes and the process that drives them, then what their agents used."""
        if self._run.hosts.tables:
            await self.process.loop.stop()
        await stop_others()

    async def _send_orders(self) -> None:
        async for op in self._run.hosts.orders:
            await self.process.send(encode_hosts_op(op))

    async def _start(self) -> Child:
        self._epoch += 1
        identity = self.process.admit(self._epoch)
        spec = HostsSpec(
            run_id=self._run.run_id,
            epoch=self._epoch,
            endpoint=self._run.paths.mailbox_endpoint,
            identity=identity,
            secret=self._run.supervisor_proof(identity),
            hosts=tuple(self._run.hosts.tables.values()),
            copies=str(self._run.paths.copies),
            cwd=self._run.request.cwd,
            gateway_endpoint=self._gateway.endpoint,
            version=VERSION,
        )
        return await self._processes.start(spec, title="hosts")

    async def _ask_to_stop(self) -> None:
        await self.process.send(encode_hosts_op(Shutdown(grace_s=_END_LIMIT_S)))

    def _on_end(self) -> None:
        self.process.dismiss()
        self._run.hosts.lose_all("the process that drives other machines has ended")

    def _on_crash(self, ended: ProcessEnd) -> None:
        _log.warning("the process that drives hosts ended: %s\n%s", ended.reason, ended.stderr_tail)
        self._warn(f"the process that drives other machines is started again: {ended.reason}")

    def _on_give_up(self, cause: ProcessEnd | SpawnError) -> None:
        why = str(cause) if isinstance(cause, SpawnError) else f"it keeps ending: {cause.reason}"
        self._run.hosts.lose_all(f"no other machine can be used any more: {why}", for_good=True)
        self._warn(f"no other machine can be used any more: {why}")

    def check_alive(self) -> None:
        """SIGKILL a process that is silent; it is replaced."""
        self.process.kill_if_silent()

    def on_message(self, message: ReceivedMessage) -> None:
        """Handle one message of the process; never waits."""
        event = self.process.read(message, decode_hosts_event)
        if event is not None:
            self._run.mailbox.acknowledge(message)
            self._on_event(event)

    def _on_event(self, event: AnyHostsEvent) -> None:
        hosts = self._run.hosts
        match event:
            case NodeJoined(node=facts):
                hosts.on_joined(facts)
                self._run.note(
                    HostJoined(
                        node=facts.name, host=facts.host, slots=facts.slots,
                        version=facts.card.version, sandbox=facts.card.sandbox,
                        copies=facts.card.copies,
                    )
                )  # fmt: skip
            case NodeLost(node=node, reason=reason):
                if hosts.on_lost(node, reason):
                    self._run.note(HostLeft(node=node, reason=reason))
                else:
                    self._warn(f"{node} cannot be used: {reason}")
            case HostUnusable(host=host, reason=reason):
                hosts.on_unusable(host, reason)
                self._warn(f"hosts.{host}: {reason}")
            case NodeUsage():
                self._note_drained(event.node, hosts.on_usage(event))
            case RemotePrepared():
                self._on_prepared(event)
            case RemoteRefused():
                self._note_drained(event.broken_node, hosts.on_refused(event))
            case RemoteStarted() | CopyShipped():
                hosts.on_reply(event)
            case RemoteEnded():
                hosts.on_ended(event)
            case LayersStored(agent_id=agent_id, problem=problem):
                if problem and hosts.node_of(agent_id) is not None:  # else HostLeft says it
                    self._warn_of_layers(agent_id, problem)
                hosts.on_stored(event)
            case Warned():
                self._warn(event.message)
            case Hello() | Heartbeat() | Goodbye():
                return

    def _on_prepared(self, event: RemotePrepared) -> None:
        why = self._run.hosts.on_prepared(event)
        if event.is_lost:
            return
        self._run.note(HostPrepared(node=event.node, seconds=event.seconds, problem=event.problem))
        self._note_drained(event.node, why)

    def _warn_of_layers(self, agent_id: str, problem: str) -> None:
        """Once for each agent: what it changed is brought again and again."""
        if agent_id not in self._told:
            self._told.add(agent_id)
            path = self._run.agents.path_of(agent_id) or agent_id
            self._warn(f"what {path} changed could not be brought here: {problem}")

    def _note_drained(self, node: str, why: str) -> None:
        """`why` is "" unless the node is drained now."""
        if why:
            self._run.note(HostDrained(node=node, reason=why))

    def _warn(self, message: str) -> None:
        self._run.note(Warned(message=message))
