"""Starts, monitors and restarts the network proxy, and answers its questions.

A run without a network policy never has a proxy. While the proxy is down, commands' connections are
refused. A restarted proxy has no earlier answers and asks again.
"""

import logging
from collections import deque
from collections.abc import Callable

import msgspec
import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.interfaces import ReceivedMessage
from swarm.mailbox.network_tickets import ticket_key
from swarm.mailbox.protocol.events import Goodbye, Heartbeat, Hello, Warned
from swarm.mailbox.protocol.limits import opens_tunnels
from swarm.mailbox.protocol.proxy import (
    AnyProxyEvent,
    AnyProxyOp,
    NetworkAsked,
    NetworkBlocked,
    NetworkWithdrawn,
    ProxyReady,
    decode_proxy_event,
    encode_proxy_op,
)
from swarm.mailbox.protocol.spec import ProxySpec
from swarm.mailbox.proxy_environment import proxy_variables

from ..agents.live_agent import LiveAgent
from ..approvals.approval_types import Decider
from ..processes.process_types import Child, ProcessEnd, SpawnError
from ..processes.restart_policy import GiveUp, decide_restart
from ..run_context import RunContext
from .network_approvals import approval_request, network_answer

MAX_BLOCKED_KEPT = 200
_POLL_S, _HEARTBEAT_TIMEOUT_S, _START_TIMEOUT_S, _READY_TIMEOUT_S = 1.0, 10.0, 30.0, 10.0
_log = logging.getLogger("swarm.network")


class ProxyManager:
    """Owns the proxy process, if the run has one."""

    def __init__(
        self, running: RunContext, nursery: trio.Nursery, decider: Decider, *, first_epoch: int
    ) -> None:
        """`find_agent` is to be set by the owner: it returns the live agent at a path."""
        self._run, self._nursery, self._decider = running, nursery, decider
        self._epoch = first_epoch
        self._child: Child | None = None
        self._identity = b""
        self._trusted = self._ending = False
        self._deaths: list[float] = []
        self._open_questions: dict[int, trio.CancelScope] = {}
        self.last_heartbeat = trio.current_time()
        self.ready = trio.Event()
        self.blocked = deque[NetworkBlocked](maxlen=MAX_BLOCKED_KEPT)
        self.find_agent: Callable[[str], LiveAgent | None] = lambda path: None

    def is_proxy(self, peer: bytes) -> bool:
        """True if the peer is the present proxy."""
        return bool(self._identity) and peer == self._identity

    async def supervise(self) -> None:
        """Start the proxy and restart it until cancelled, ended or given up; return if none is
        needed.
        """
        if self._run.request.network is None:
            return
        while not self._ending:
            try:
                await self._start()
            except SpawnError as error:
                self._on_ended()
                self._warn(f"no network proxy could be started: {error}")
                return
            assert self._child is not None
            ended = await self._child.wait_ended()
            self._on_ended()
            if not self._note_end(ended):
                return
            self._deaths.append(trio.current_time())
            verdict = decide_restart(self._deaths, now=trio.current_time())
            if isinstance(verdict, GiveUp):
                self._warn("the network proxy keeps ending; commands have no network any more")
                return
            await trio.sleep(verdict.after_s)

    async def _start(self) -> None:
        self._epoch += 1
        self._identity = f"n/{self._run.run_id}/{self._epoch}".encode()
        self._trusted = False
        self.last_heartbeat = trio.current_time()
        self._run.mailbox.admit(self._identity, epoch=self._epoch)
        request = self._run.request
        spec = ProxySpec(
            run_id=self._run.run_id,
            epoch=self._epoch,
            endpoint=self._run.paths.mailbox_endpoint,
            identity=self._identity,
            secret=self._run.supervisor_proof(self._identity),
            bind=self._run.paths.proxy_socket,
            ticket_key=ticket_key(self._run.run_key),
            authority=str(self._run.paths.ca_folder) if opens_tunnels(request.network) else "",
            upstream=proxy_variables(request.environment) if request.goes_upstream else {},
        )
        self._child = await self._run.processes.start(spec, title="network proxy")

    def _on_ended(self) -> None:
        """The proxy process has ended: dismiss the peer and cancel its open questions."""
        self._run.mailbox.dismiss(self._identity)
        self._identity, self._child = b"", None
        for scope in self._open_questions.values():
            scope.cancel()
        self._open_questions.clear()  # a new proxy numbers its questions from the start

    async def wait_ready(self) -> None:
        """Wait until the certificates of a proxy that opens tunnels are ready; at most 10 s."""
        if opens_tunnels(self._run.request.network):
            with trio.move_on_after(_READY_TIMEOUT_S):
                await self.ready.wait()

    async def monitor_heartbeat(self) -> None:
        """Send SIGKILL to a proxy that sent no message for 10 s (30 s before its Hello)."""
        if self._run.request.network is None:
            return
        last_round = trio.current_time()
        while True:
            await trio.sleep(_POLL_S)
            now = trio.current_time()
            if now - last_round > _POLL_S + 2:  # this process itself was delayed
                self.last_heartbeat = now
            last_round = now
            limit_s = _HEARTBEAT_TIMEOUT_S if self._trusted else _START_TIMEOUT_S
            if self._child is not None and now - self.last_heartbeat > limit_s:
                self.last_heartbeat = now
                self._child.kill_group()

    def expect_end(self) -> None:
        """The run ends: the process manager will end the proxy too, and that end is expected."""
        self._ending = True

    def on_message(self, letter: ReceivedMessage) -> None:
        """Handle one message of the proxy; never waits."""
        self.last_heartbeat = trio.current_time()
        self._run.mailbox.acknowledge(letter)
        try:
            event = decode_proxy_event(letter.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            _log.warning("a message of the network proxy could not be read: %s", error)
            return
        if isinstance(event, Hello):
            self._on_hello(event)
        elif self._trusted:
            self._on_event(event)

    def _on_hello(self, hello: Hello) -> None:
        if self._run.is_proven(self._identity, hello) and not self._trusted:
            self._trusted = True
        elif self._child is not None:
            self._child.kill_group()

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
                await self._send(network_answer(asked, decided))
        finally:
            if self._open_questions.get(asked.question) is scope:
                del self._open_questions[asked.question]

    async def _send(self, op: AnyProxyOp) -> None:
        try:
            await self._run.mailbox.post(self._identity, encode_proxy_op(op))
        except PeerGone:
            return  # the proxy has died, and its commands' connections with it

    def _on_blocked(self, event: NetworkBlocked) -> None:
        self.blocked.append(event)
        target = event.target
        what = f"{target.protocol}://{target.host}:{target.port}"
        message = f"network access to {what} was blocked ({event.reason})"
        if (agent := self.find_agent(event.agent)) is not None:
            file = agent.plan.agent_id
            self._run.note(Warned(message=message), agent=event.agent, file=file)
        else:
            self._run.note(Warned(message=f"{event.agent}: {message}"))

    def _note_end(self, ended: ProcessEnd) -> bool:
        """False if the end was expected."""
        if self._ending:
            return False
        _log.warning("the network proxy ended: %s\n%s", ended.reason, ended.stderr_tail)
        self._warn(f"the network proxy ended and is started anew: {ended.reason}")
        return True

    def _warn(self, message: str) -> None:
        self._run.note(Warned(message=message))
