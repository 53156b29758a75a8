"""The gateway's side of every agent: authentication, its requests, and the responses to it.

Four guarantees: the gateway dismisses a peer that does not prove its identity first; a new process
of an agent ends every request of the earlier process; a delta costs one encode and one send; a
failure of one request ends only that request.
"""

import logging
from collections import OrderedDict
from contextlib import aclosing
from pathlib import Path
from typing import assert_never

import msgspec
import trio

from swarm.mailbox.base.errors import MalformedMessage, PeerGone
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.contents.credentials import is_proof
from swarm.mailbox.delivery.interfaces import Mailbox, MailboxServer, ReceivedMessage
from swarm.mailbox.protocol.gateway import ResponseBilled
from swarm.mailbox.protocol.sampling import (
    AnySampleEvent,
    CancelSample,
    ConversationOpened,
    ConversationRefused,
    NeedHistory,
    OpenConversation,
    SampleAlive,
    SampleFailed,
    SampleRequest,
    SampleWaiting,
    decode_sample_op,
    encode_sample_event,
)
from swarm.mailbox.protocol.spec import GatewaySpec

from .app import GatewayApp
from .backend import (
    AnyResponseEvent,
    Failure,
    RenderedRequest,
    RequestWaiting,
    ResponseFinished,
    SampleError,
)
from .budget_reservations import BudgetReservations
from .conversation_opening import ConversationOpener, PendingOpenings, agent_of
from .failures import internal_failure
from .rate_limit_state import backoff_s
from .response_relay import AgentConnection, ResponseRelay, ResponseSender
from .stream_continuation import ResponseContinuation
from .token_usage import price_usd

_log = logging.getLogger("swarm.gateway")
_REFUSED_KEPT = 1024
_UNPROVED_KEPT = 256  # peers without a proof yet; at the limit the oldest is dismissed
# Far below an agent's silence timeout, even where its provider's idle timeout is 1 s.
KEEPALIVE_S = 5.0
IDLE_S = 600.0  # an idle conversation is dropped after this time; `NeedHistory` restores it


class AgentSessions:
    """All agents of the run."""

    def __init__(
        self, app: GatewayApp, spec: GatewaySpec, supervisor: Mailbox, redactor: Redactor
    ) -> None:
        self._app, self._redactor = app, redactor
        self.reservations = BudgetReservations(supervisor, epoch=spec.epoch, asks=spec.asks_first)
        self._run_key = spec.run_key
        self._opener = ConversationOpener(app, Path(spec.blobs_dir), redactor)
        self._connections: dict[bytes, AgentConnection] = {}  # by peer
        self._peer_of: dict[str, bytes] = {}  # agent id → the peer of its current process
        self._openings = PendingOpenings()
        self._ordinals: dict[str, int] = {}  # agent path → number of requests so far
        self._refused: OrderedDict[bytes, None] = OrderedDict()
        self._unproved: OrderedDict[bytes, None] = OrderedDict()
        self._sender: ResponseSender | None = None
        self.refusals = 0  # rejected peers, and undecodable messages
        self.progress = 0  # grows with every event that is forwarded

    @property
    def is_busy(self) -> bool:
        """True while any request runs."""
        return any(connection.running for connection in self._connections.values())

    def accept(self, peer: bytes) -> int | None:
        """The epoch to expect from a new peer. None: drop its frames."""
        found = agent_of(peer)
        if found is None or peer in self._refused:
            return None
        self._unproved[peer] = None
        if len(self._unproved) > _UNPROVED_KEPT and self._sender is not None:
            oldest, _ = self._unproved.popitem(last=False)
            self._sender.server.dismiss(oldest)
        return found[1]

    async def serve(self, server: MailboxServer) -> None:
        """Receive messages until cancelled."""
        async with trio.open_nursery() as nursery:
            sender = self._sender = ResponseSender(server, nursery)
            nursery.start_soon(self._drop_idle)
            nursery.start_soon(self._send_keepalives, sender)
            nursery.start_soon(self.reservations.run)
            while True:
                message = await server.receive()
                await self._handle_message(sender, message)
                server.acknowledge(message, soon=False)

    async def _handle_message(self, sender: ResponseSender, message: ReceivedMessage) -> None:
        if message.peer in self._refused:
            return  # the message arrived before the peer was rejected
        connection = self._connections.get(message.peer)
        try:
            op = decode_sample_op(message.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.refusals += 1
            if connection is None:
                self._reject(sender, message.peer)
            return
        match op:
            case OpenConversation():
                await self._open(sender, message.peer, op)
            case _ if connection is None:
                if not self._openings.has(message.peer):
                    self._reject(sender, message.peer)
            case SampleRequest():
                self._begin(sender, connection, op)
            case CancelSample(request_id=request_id):
                if (scope := connection.running.get(request_id)) is not None:
                    scope.cancel()
            case _:
                assert_never(op)

    # --- authentication --------------------------------------------------------------------

    async def _open(self, sender: ResponseSender, peer: bytes, op: OpenConversation) -> None:
        found = agent_of(peer)
        is_known = is_proof(op.token, self._run_key, peer, purpose="gateway")
        if found is None or not is_known or found[0] != op.agent_id:
            self._reject(sender, peer)
            return
        epoch = found[1]
        before = self._connections.get(self._peer_of.get(op.agent_id, b""))
        if max(0 if before is None else before.epoch, self._openings.epoch(op.agent_id)) > epoch:
            self._reject(sender, peer)  # an old process that should have ended
            return
        if before is not None:
            self._forget(sender, before, dismiss=before.peer != peer)
        self._unproved.pop(peer, None)
        opened = self._opener.open_now(peer, op)
        if opened is None:
            self._openings.add(peer, op)
            sender.nursery.start_soon(self._open_later, sender, peer, op)
        else:
            await self._take(sender, peer, op.agent_id, opened)

    async def _open_later(self, sender: ResponseSender, peer: bytes, op: OpenConversation) -> None:
        """Opening a provider may take seconds, for which other agents do not wait."""
        opened = await self._opener.open_later(peer, op)
        if self._openings.end(peer, op):
            await self._take(sender, peer, op.agent_id, opened)

    async def _take(
        self,
        sender: ResponseSender,
        peer: bytes,
        agent_id: str,
        opened: AgentConnection | ConversationRefused,
    ) -> None:
        if isinstance(opened, ConversationRefused):
            await sender.post(peer, opened)
            return
        self._connections[peer], self._peer_of[agent_id] = opened, peer
        model = opened.conversation.owner.model
        await sender.post(peer, ConversationOpened(model=model))  # the first post never waits

    def forget_agent(self, agent_id: str, epoch: int) -> None:
        """The agent's process of this epoch has ended: nobody waits for its responses. 0: any
        epoch.
        """
        if (opening := self._openings.forget(agent_id, epoch)) is not None and self._sender:
            self._sender.server.dismiss(opening)
        connection = self._connections.get(self._peer_of.get(agent_id, b""))
        if connection is not None and epoch and connection.epoch > epoch:
            return  # the agent's next process connected before this notification arrived
        self.reservations.forget_agent(agent_id)
        if connection is not None and self._sender is not None:
            self._forget(self._sender, connection, dismiss=True)
            if not self._app.keeps_ordinals:
                self._ordinals.pop(connection.conversation.owner.agent_path, None)

    def _reject(self, sender: ResponseSender, peer: bytes) -> None:
        """Ignore a peer from now on: it did not prove its identity, or it is an outdated
        process.
        """
        self.refusals += 1
        self._unproved.pop(peer, None)
        self._refused[peer] = None
        if len(self._refused) > _REFUSED_KEPT:
            self._refused.popitem(last=False)
        if (connection := self._connections.get(peer)) is not None:
            self._forget(sender, connection, dismiss=True)
        else:
            sender.server.dismiss(peer)

    def _forget(
        self, sender: ResponseSender, connection: AgentConnection, *, dismiss: bool
    ) -> None:
        """End one process's connection: cancel its requests and drop its conversation."""
        connection.cancel_all()
        self._connections.pop(connection.peer, None)
        agent_id = connection.conversation.owner.agent_id
        if self._peer_of.get(agent_id) == connection.peer:
            del self._peer_of[agent_id]
        if dismiss:
            sender.server.dismiss(connection.peer)

    async def _drop_idle(self) -> None:
        """Free the memory of agents that are idle, or that ended without notice."""
        while True:
            await trio.sleep(IDLE_S / 10)
            before = trio.current_time() - IDLE_S
            for connection in self._connections.values():
                if not connection.running and connection.used_at < before:
                    connection.conversation.clear()

    async def _send_keepalives(self, sender: ResponseSender) -> None:
        """Send `SampleAlive` for each running request. A wait in the gateway, or between two
        attempts, is then not mistaken for silence.
        """
        while True:
            await trio.sleep(KEEPALIVE_S)
            for connection in self._connections.values():
                for number in connection.running:
                    heartbeat = encode_sample_event(SampleAlive(request_id=number))
                    sender.server.send_transient(connection.peer, heartbeat)

    # --- requests --------------------------------------------------------------------------

    def _begin(
        self, sender: ResponseSender, connection: AgentConnection, op: SampleRequest
    ) -> None:
        """Bring the conversation up to date and start the response, without waiting in between."""
        try:
            self._start(sender, connection, op)
        except Exception as error:  # a failure ends only this request
            connection.running.pop(op.request_id, None)
            connection.conversation.clear()
            failure = _log_internal_failure(error)
            reply = SampleFailed(
                request_id=op.request_id, kind=failure.kind, message=failure.message
            )
            sender.nursery.start_soon(sender.post, connection.peer, reply)

    def _start(
        self, sender: ResponseSender, connection: AgentConnection, op: SampleRequest
    ) -> None:
        connection.used_at = trio.current_time()
        reply: AnySampleEvent
        try:
            is_held = connection.conversation.accept(op)
        except MalformedMessage as error:
            reply = SampleFailed(request_id=op.request_id, kind="bad_request", message=str(error))
            sender.nursery.start_soon(sender.post, connection.peer, reply)
            return
        if not is_held:
            reply = NeedHistory(request_id=op.request_id)
            sender.nursery.start_soon(sender.post, connection.peer, reply)
            return
        owner = connection.conversation.owner
        if op.compacts and not owner.model.remote_compaction:
            text = f"{owner.model.provider} has no compaction of its own"
            reply = SampleFailed(request_id=op.request_id, kind="bad_request", message=text)
            sender.nursery.start_soon(sender.post, connection.peer, reply)
            return
        path = owner.agent_path
        ordinal = self._ordinals[path] = self._ordinals.get(path, 0) + 1
        rendered = connection.conversation.render(op, ordinal=ordinal)
        scope = connection.running[op.request_id] = trio.CancelScope()
        answer = ResponseRelay(sender, connection, op, self._redactor.redact_error)
        answer.reservation = self.reservations.open(owner.agent_id, owner.model, op)
        sender.nursery.start_soon(self._run_request, answer, rendered, scope)

    async def _run_request(
        self, answer: ResponseRelay, request: RenderedRequest, scope: trio.CancelScope
    ) -> None:
        try:
            with scope:
                try:
                    await self._sample(answer, request)
                except SampleError as error:
                    if answer.reservation is not None:
                        answer.reservation.failed = True
                    await answer.fail(error.failure)
                except PeerGone:
                    raise
                except Exception as error:  # a failure ends only this request
                    if answer.reservation is not None:
                        answer.reservation.failed = True
                    await answer.fail(_log_internal_failure(error))
        except PeerGone:
            self._forget(answer.sender, answer.connection, dismiss=False)
        except Exception as error:  # the request was cancelled: nobody waits for its failure
            _log_internal_failure(error)
        finally:
            answer.connection.running.pop(answer.request_id, None)
            if answer.reservation is not None:
                self.reservations.close(answer.reservation)

    async def _sample(self, answer: ResponseRelay, request: RenderedRequest) -> None:
        """Run one response. If its text breaks off and can be continued, use several requests;
        each one is granted and billed separately. Raises SampleError.
        """
        provider = answer.connection.provider
        continuation, broken = ResponseContinuation(request), Failure(kind="other", message="")
        while True:
            try:
                await self._wait_granted(answer)
                with answer.shown_silence(sum(map(len, request.body))):
                    await self._relay(answer, request, continuation)
                return
            except SampleError as error:
                failure = error.failure
                if broken.retryable and failure.kind == "bad_request":
                    provider.stop_continuing()
                    raise SampleError(broken) from error  # the agent sends its request again
                rest = None
                if self._app.continues_text(provider):
                    rest = continuation.continuation_request(failure)
                if rest is None:
                    raise
                broken, request = failure, rest
            held = RequestWaiting(reason=f"{broken.message}; it goes on from there", delay_s=0.0)
            await self._forward(answer, request, held)
            await trio.sleep(backoff_s(continuation.continuations, 0.5))
            self._renew_reservation(answer)

    async def _relay(
        self, answer: ResponseRelay, request: RenderedRequest, continuation: ResponseContinuation
    ) -> None:
        backend = answer.connection.provider.backend
        async with aclosing(backend.sample(request)) as events:
            async for event in events:
                self.progress += 1
                for forwarded in continuation.filter_event(event):
                    await self._forward(answer, request, forwarded)

    def _renew_reservation(self, answer: ResponseRelay) -> None:
        """The provider counts the next request separately, so it needs its own reservation."""
        if (before := answer.reservation) is not None:
            before.failed = True
            self.reservations.close(before)
            owner = answer.connection.conversation.owner
            answer.reservation = self.reservations.open(owner.agent_id, owner.model, answer.request)

    async def _wait_granted(self, answer: ResponseRelay) -> None:
        """Where a budget limit holds, wait until the supervisor has granted the request."""
        if (reservation := answer.reservation) is None:
            return
        number = answer.request_id

        def notify(held: RequestWaiting) -> None:
            answer.send_transient(
                SampleWaiting(request_id=number, reason=held.reason, delay_s=held.delay_s)
            )

        if not await self.reservations.wait_granted(reservation, notify):
            self.reservations.close(reservation)
            answer.reservation = None

    async def _forward(
        self, answer: ResponseRelay, request: RenderedRequest, event: AnyResponseEvent
    ) -> None:
        if answer.reservation is not None:
            answer.reservation.note_event(event)
        if isinstance(event, ResponseFinished):
            self._bill(answer, request, event)  # first, because the next request depends on it
        await answer.forward(event)

    def _bill(
        self, answer: ResponseRelay, request: RenderedRequest, event: ResponseFinished
    ) -> None:
        """Report the usage to the supervisor."""
        if event.usage is None:
            return
        billed = ResponseBilled(
            agent_id=request.agent_id,
            provider=request.model.provider,
            model=request.model.slug,
            usage=event.usage,
            usd=price_usd(event.usage, request.model),
            reservation="" if answer.reservation is None else answer.reservation.name,
        )
        self.reservations.bill(answer.reservation, billed)


def _log_internal_failure(error: Exception) -> Failure:
    failure = internal_failure(error)
    _log.error("%s", failure.message)
    return failure
