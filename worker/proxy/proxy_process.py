"""The network proxy's process: between commands that have no network and hosts that are allowed.

Towards the supervisor it is a child with a mailbox. It holds no key of a provider, reads no file
and keeps nothing of what passes through; what it may allow is written in agents' sealed tickets.
"""

import os
import signal
from pathlib import Path
from typing import assert_never

import msgspec
import trio

from swarm.mailbox.dealer import open_dealer
from swarm.mailbox.errors import SwarmError
from swarm.mailbox.interfaces import Mailbox
from swarm.mailbox.protocol.base import PROTOCOL_VERSION
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

from ..process.lifeline import watch_lifeline
from .connector import Connector, Resolve, system_resolver
from .http_proxy import TlsInterceptor
from .network_questions import NetworkQuestions
from .route_server import RouteServer
from .upstream_proxy import read_upstreams

HEARTBEAT_S = 2.0
_GOODBYE_LIMIT_S = 2.0
_MOST_WAITING = 1_000  # messages to the supervisor; questions beyond are never answered yes


def run_proxy(spec: ProxySpec, lifeline_fd: int | None) -> int:
    """Be the proxy until the supervisor says otherwise; return the exit code.

    Args:
        lifeline_fd: The life-line's reading end; None where nothing needs to be outlived.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to answer
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
    """The life of a proxy over any mailbox, from its Hello to its Goodbye.

    Args:
        supervisor: Owned by the caller.
        resolve: Looks names up; what it has not found after two seconds is not there.
    """
    await ProxyProcess(spec, supervisor, resolve).run()


class ProxyProcess:
    """What the tasks of one proxy share."""

    def __init__(self, spec: ProxySpec, supervisor: Mailbox, resolve: Resolve) -> None:
        self._spec, self._supervisor = spec, supervisor
        self._outgoing, self._to_send = trio.open_memory_channel[AnyProxyEvent](_MOST_WAITING)
        self._questions = NetworkQuestions(self._queue_event)
        self._upstreams = read_upstreams(spec.upstream)
        self._faults = list(self._upstreams.faults)
        opener = self._open_authority() if spec.authority else None
        gate = Connector(self._questions, resolve, self._upstreams, opens=opener is not None)
        self._routes = RouteServer(gate, spec.ticket_key, self._queue_event, opener)
        self._work = trio.CancelScope()
        self._grace_s = _GOODBYE_LIMIT_S

    def _open_authority(self) -> TlsInterceptor | None:
        """None: no tunnel is opened then, and none is let through unopened."""
        try:
            from .certificate_authority import (
                open_certificate_authority,  # heavy, and for runs that want it
            )
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
            letter = await self._supervisor.receive()
            self._supervisor.acknowledge(letter)
            try:
                order = decode_proxy_op(letter.body)
            except msgspec.DecodeError:
                continue  # an order of a newer supervisor
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
        except trio.WouldBlock:  # the supervisor is far behind: silence is no yes
            return

    async def _post(self, event: AnyProxyEvent) -> None:
        await self._supervisor.post(encode_proxy_event(event))
