"""Starts, monitors and restarts the network proxy, and answers its questions.

A run without a network policy never has a proxy. While the proxy is down, commands' connections are
refused. A restarted proxy has no earlier answers and asks again.
"""

import logging

import trio

from swarm.mailbox.base.proxy_environment import proxy_variables
from swarm.mailbox.contents.credentials import ticket_key
from swarm.mailbox.delivery.interfaces import ReceivedMessage
from swarm.mailbox.protocol.events import Goodbye, Heartbeat, Hello, Warned
from swarm.mailbox.protocol.proxy import (
    AnyProxyEvent,
    NetworkAsked,
    NetworkBlocked,
    NetworkWithdrawn,
    ProxyReady,
    decode_proxy_event,
    encode_proxy_op,
)
from swarm.mailbox.protocol.spec import ProxySpec
from swarm.mailbox.protocol.values.limits import opens_tunnels

from ...approvals.approval_types import Decider
from ...context.run_context import RunContext
from ...context.service_process import ServiceProcess
from ...processes.child_spec import ChildSpec
from ...processes.process_types import Child, ProcessEnd, ProcessStarter, SpawnError
from .network_policy import approval_request, network_answer

_READY_TIMEOUT_S = 10.0
_log = logging.getLogger("swarm.network")


class ProxyManager:
    """Owns the proxy process, if the run has one."""

    def __init__(
        self,
        running: RunContext,
        nursery: trio.Nursery,
        decider: Decider,
        processes: ProcessStarter,
        *,
        first_epoch: int,
    ) -> None:
        self._run, self._nursery, self._decider = running, nursery, decider
        self._processes = processes
        self._epoch = first_epoch
        child = ChildSpec(
            start=self._start,
            on_end=self._on_end,
            on_crash=self._on_crash,
            on_give_up=self._on_give_up,
        )
        self.process = ServiceProcess(running, "network proxy", child, prefix="n")
        self._open_questions: dict[int, trio.CancelScope] = {}
        self.ready = trio.Event()

    async def run(self) -> None:
        """Keep a proxy running until cancelled, ended or given up; return if none is needed."""
        if self._run.request.network is not None:
            await self.process.loop.run()

    async def _start(self) -> Child:
        self._epoch += 1
        identity = self.process.admit(self._epoch)
        request = self._run.request
        spec = ProxySpec(
            run_id=self._run.run_id,
            epoch=self._epoch,
            endpoint=self._run.paths.mailbox_endpoint,
            identity=identity,
            secret=self._run.supervisor_proof(identity),
            bind=self._run.paths.proxy_socket,
            ticket_key=ticket_key(self._run.run_key),
            authority=str(self._run.paths.ca_folder) if opens_tunnels(request.network) else "",
            upstream=proxy_variables(request.environment) if request.goes_upstream else {},
        )
        return await self._processes.start(spec, title="network proxy")

    def _on_end(self) -> None:
        self.process.dismiss()
        for scope in self._open_questions.values():
            scope.cancel()
        self._open_questions.clear()  # a new proxy numbers its questions from the start

    def _on_crash(self, ended: ProcessEnd) -> None:
        _log.warning("the network proxy ended: %s\n%s", ended.reason, ended.stderr_tail)
        self._warn(f"the network proxy ended and is started again: {ended.reason}")

    def _on_give_up(self, cause: ProcessEnd | SpawnError) -> None:
        if isinstance(cause, SpawnError):
            self._warn(f"no network proxy could be started: {cause}")
        else:
            self._warn("the network proxy keeps ending; commands have no network any more")

    async def wait_ready(self) -> None:
        """Wait until the certificates of a proxy that opens tunnels are ready; at most 10 s."""
        if opens_tunnels(self._run.request.network):
            with trio.move_on_after(_READY_TIMEOUT_S):
                await self.ready.wait()

    def check_alive(self) -> None:
        """SIGKILL a proxy that is silent; it is replaced."""
        self.process.kill_if_silent()

    def on_message(self, message: ReceivedMessage) -> None:
        """Handle one message of the proxy; never waits."""
        event = self.process.read(message, decode_proxy_event)
        if event is not None:
            self._run.mailbox.acknowledge(message)
            self._on_event(event)

    def _on_event(self, event: AnyProxyEvent) -> None:
        match event:
            case ProxyReady():
                self.ready.set()
            case NetworkAsked():
                scope = self._open_questions[event.question] = trio.CancelScope()
                self._nursery.start_soon(self._serve_question, event, scope)
            case NetworkWithdrawn():
                if (asking := self._open_questions.get(event.question)) is not None:
                    asking.cancel()
            case NetworkBlocked():
                self._on_blocked(event)
            case Warned():
                self._warn(event.message)
            case Hello() | Heartbeat() | Goodbye():
                return

    async def _serve_question(self, asked: NetworkAsked, scope: trio.CancelScope) -> None:
        """Serve one question until it is answered or withdrawn."""
        try:
            with scope:
                decided = await self._decider.decide(asked.agent, approval_request(asked))
                await self.process.send(encode_proxy_op(network_answer(asked, decided)))
        finally:
            if self._open_questions.get(asked.question) is scope:
                del self._open_questions[asked.question]

    def _on_blocked(self, event: NetworkBlocked) -> None:
        target = event.target
        what = f"{target.protocol}://{target.host}:{target.port}"
        message = f"network access to {what} was blocked ({event.reason})"
        if (agent := self._run.agents.live.get(event.agent)) is not None:
            file = agent.plan.agent_id
            self._run.note(Warned(message=message), agent=event.agent, file=file)
        else:
            self._run.note(Warned(message=f"{event.agent}: {message}"))

    def _warn(self, message: str) -> None:
        self._run.note(Warned(message=message))
