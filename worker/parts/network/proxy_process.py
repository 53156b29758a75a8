"""The network proxy's process, between commands without a network and the allowed hosts.

It is a mailbox client of the supervisor. It holds no provider key, and records nothing of the data
that passes through. The agents' sealed tickets say what it may allow.
"""

import os
import signal
from pathlib import Path
from typing import assert_never

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.delivery.dealer import open_dealer
from swarm.mailbox.delivery.interfaces import Mailbox
from swarm.mailbox.protocol.events import Goodbye, Heartbeat, Hello, Warned
from swarm.mailbox.protocol.ops import Shutdown
from swarm.mailbox.protocol.proxy import (
    AnyProxyEvent,
    NetworkAnswered,
    ProxyReady,
    decode_proxy_op,
    encode_proxy_event,
)
from swarm.mailbox.protocol.spec import ProxySpec
from swarm.mailbox.protocol.values.base import PROTOCOL_VERSION

from ...base.lifeline import watch_lifeline
from .connector import Connector, Resolve, TlsInterceptor, system_resolver
from .network_questions import NetworkQuestions
from .route_server import RouteServer
from .upstream_proxy import read_upstreams

HEARTBEAT_S = 2.0
_GOODBYE_LIMIT_S = 2.0
_MOST_WAITING = 1_000  # limit of queued events; a question beyond it is never answered with yes


def run_proxy(spec: ProxySpec, lifeline_fd: int | None) -> int:
    """Run the proxy until the supervisor shuts it down; return the exit code.

    Args:
        lifeline_fd: The reading end of the lifeline pipe; None if the proxy needs none.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor handles Ctrl-C
    return trio.run(_run, spec, lifeline_fd)


async def _run(spec: ProxySpec, lifeline_fd: int | None) -> int:
    async with (
        open_dealer(spec.endpoint, spec.identity, epoch=spec.epoch) as supervisor,
        trio.open_nursery() as nursery,
    ):
        if lifeline_fd is not None:
            nursery.start_soon(watch_lifeline, lifeline_fd)
        await serve_proxy(spec, supervisor, system_resolver())
        nursery.cancel_scope.cancel()
    return 0


async def serve_proxy(spec: ProxySpec, supervisor: Mailbox, resolve: Resolve) -> None:
    """Run a proxy over any mailbox, from its Hello to its Goodbye.

    Args:
        supervisor: The caller closes it.
        resolve: Resolves names; after two seconds a name counts as unknown.
    """
    await ProxyProcess(spec, supervisor, resolve).run()


class ProxyProcess:
    """The state that the tasks of one proxy share."""

    def __init__(self, spec: ProxySpec, supervisor: Mailbox, resolve: Resolve) -> None:
        self._spec, self._supervisor = spec, supervisor
        self._outgoing, self._to_send = trio.open_memory_channel[AnyProxyEvent](_MOST_WAITING)
        self._questions = NetworkQuestions(self._queue_event)
        self._upstreams = read_upstreams(spec.upstream)
        self._faults = list(self._upstreams.faults)
        interceptor = self._open_authority() if spec.authority else None
        connector = Connector(self._questions, resolve, self._upstreams, interceptor)
        self._routes = RouteServer(connector, spec.ticket_key, self._queue_event)
        self._work = trio.CancelScope()
        self._grace_s = _GOODBYE_LIMIT_S

    def _open_authority(self) -> TlsInterceptor | None:
        """None if the authority cannot be opened: then tunnels that need inspection are refused."""
        try:
            # Heavy; only for runs that need it.
            from .certificate_authority import open_certificate_authority
            from .tls_interception import CaTlsInterceptor

            return CaTlsInterceptor(open_certificate_authority(Path(self._spec.authority)))
        except (ImportError, SwarmError, OSError) as error:
            self._faults.append(f"tunnels cannot be looked into: {error}")
            return None

    async def run(self) -> None:
        """Serve until a Shutdown."""
        hello = Hello(
            secret=self._spec.secret,
            pid=os.getpid(),
            protocol_version=PROTOCOL_VERSION,
            kind="proxy",
        )
        await self._post(hello)
        for fault in self._faults:
            await self._post(Warned(message=f"network proxy: {fault}"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._handle_ops)
            nursery.start_soon(self._send_heartbeats)
            nursery.start_soon(self._deliver)
            with self._work:
                async with trio.open_nursery() as working:
                    await working.start(self._routes.serve, self._spec.bind)
                    await self._post(ProxyReady())
            nursery.cancel_scope.cancel()
        with trio.move_on_after(self._grace_s):
            await self._post(Goodbye())
            await self._supervisor.flush()

    async def _handle_ops(self) -> None:
        while True:
            message = await self._supervisor.receive()
            self._supervisor.acknowledge(message)
            try:
                order = decode_proxy_op(message.body)
            except msgspec.DecodeError:
                continue  # an op of a newer supervisor
            match order:
                case Shutdown():
                    self._grace_s = min(order.grace_s, _GOODBYE_LIMIT_S)
                    self._work.cancel()
                case NetworkAnswered():
                    self._questions.answer(order)
                case _:
                    assert_never(order)

    async def _send_heartbeats(self) -> None:
        while True:
            beat = Heartbeat(progress=self._routes.progress, busy=self._routes.is_busy)
            self._supervisor.send_transient(encode_proxy_event(beat))
            await trio.sleep(HEARTBEAT_S)

    async def _deliver(self) -> None:
        async for event in self._to_send:
            await self._post(event)

    def _queue_event(self, event: AnyProxyEvent) -> None:
        try:
            self._outgoing.send_nowait(event)
        except trio.WouldBlock:  # the supervisor is far behind; an unanswered question is no yes
            return

    async def _post(self, event: AnyProxyEvent) -> None:
        await self._supervisor.post(encode_proxy_event(event))
