"""The gateway process: the only process that holds keys and talks to model providers.

It is the mailbox server of the agents and a mailbox client of the supervisor. Each request runs as
its own task under one nursery. The requests of an agent end when the agent's process ends.
"""

import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, assert_never

import msgspec
import trio

from swarm.mailbox.base.entropy import SYSTEM_ENTROPY, EntropySources
from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.process_tree import resident_bytes
from swarm.mailbox.delivery.dealer import open_dealer
from swarm.mailbox.delivery.interfaces import Mailbox, MailboxServer
from swarm.mailbox.delivery.router import Accept, open_router
from swarm.mailbox.protocol.events import Goodbye, Heartbeat, Hello, Warned
from swarm.mailbox.protocol.gateway import (
    AgentGone,
    AnyGatewayEvent,
    GatewayReady,
    GatewayUnable,
    Granted,
    NotGranted,
    RequireReservations,
    SecretLearned,
    TryNow,
    decode_gateway_op,
    encode_gateway_event,
)
from swarm.mailbox.protocol.ops import Shutdown
from swarm.mailbox.protocol.spec import GatewaySpec
from swarm.mailbox.protocol.values.base import PROTOCOL_VERSION

from ..base.lifeline import watch_lifeline
from .agent_sessions import AgentSessions
from .app import GatewayApp, GatewayDependencies, open_gateway_app

HEARTBEAT_S = 2.0
IDLE_HEARTBEAT_S = 3.0  # an idle run is to cost next to nothing; 10 s of silence are a death
GOODBYE_LIMIT_S = 5.0
EXIT_NO_PROVIDER = 5


def run_gateway(spec: GatewaySpec, keys: dict[str, str], lifeline_fd: int | None) -> int:
    """Run the gateway until the supervisor shuts it down; return the exit code.

    Args:
        keys: Values by variable name, as received through the pipe. Never from `os.environ`.
        lifeline_fd: The reading end of the lifeline pipe; None if the gateway needs none.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor handles Ctrl-C
    return trio.run(_run, spec, keys, lifeline_fd)


async def _run(spec: GatewaySpec, keys: Mapping[str, str], lifeline_fd: int | None) -> int:
    async with (
        open_dealer(spec.endpoint, spec.identity, epoch=spec.epoch) as supervisor,
        trio.open_nursery() as nursery,
    ):
        if lifeline_fd is not None:
            nursery.start_soon(watch_lifeline, lifeline_fd)
        process = GatewayProcess(spec, keys, supervisor)
        exit_code = await process.run()
        nursery.cancel_scope.cancel()
    return exit_code


def _open_agent_router(
    spec: GatewaySpec, accept: Accept
) -> AbstractAsyncContextManager[MailboxServer]:
    return open_router(spec.bind, epoch=spec.epoch, accept=accept)


class GatewayFactories(NamedTuple):
    """How a gateway opens its parts, and its sources of entropy; tests pass others."""

    open_app: Callable[
        [GatewaySpec, GatewayDependencies], AbstractAsyncContextManager[GatewayApp]
    ] = open_gateway_app
    open_server: Callable[[GatewaySpec, Accept], AbstractAsyncContextManager[MailboxServer]] = (
        _open_agent_router
    )
    entropy: EntropySources = SYSTEM_ENTROPY


class GatewayProcess:
    """A gateway process from its Hello to its Goodbye.

    Args:
        keys: Values by variable name.
        supervisor: The mailbox to the supervisor; the caller closes it.
    """

    def __init__(
        self,
        spec: GatewaySpec,
        keys: Mapping[str, str],
        supervisor: Mailbox,
        factories: GatewayFactories | None = None,
    ) -> None:
        self._spec, self._supervisor = spec, supervisor
        self._factories = factories = factories or GatewayFactories()
        self._dependencies = GatewayDependencies(
            keys,
            on_secret=self._post_secret,
            announce=self._send_transient,
            warn=self._warn_soon,
            noise=factories.entropy.noise,
            unix_s=factories.entropy.unix_s,
        )
        self._work = trio.CancelScope()
        self._grace_s = GOODBYE_LIMIT_S
        self._agent_sessions: AgentSessions | None = None
        self._requires_grants = spec.asks_first
        self._warnings: list[str] = []
        self._has_warning = trio.Event()

    async def run(self) -> int:
        """Serve until a Shutdown; return the exit code."""
        await self._post(
            Hello(
                secret=self._spec.secret,
                pid=self._factories.entropy.pid(),
                protocol_version=PROTOCOL_VERSION,
                kind="gateway",
            )
        )
        exit_code = 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._handle_ops)
            nursery.start_soon(self._send_heartbeats)
            nursery.start_soon(self._deliver_warnings)
            with self._work:
                exit_code = await self._serve()
            nursery.cancel_scope.cancel()
        with trio.move_on_after(self._grace_s):
            if self._agent_sessions is not None:
                await self._agent_sessions.reservations.flush()  # those that ended now
            await self._post(Goodbye())
            await self._supervisor.flush()
        return exit_code

    async def _serve(self) -> int:
        """Returns only if no provider can be used; otherwise it is cancelled from outside."""
        try:
            async with self._factories.open_app(self._spec, self._dependencies) as app:
                sessions = AgentSessions(
                    app, self._spec, self._supervisor, self._dependencies.redactor
                )
                async with self._factories.open_server(self._spec, sessions.accept) as server:
                    self._agent_sessions = sessions
                    if self._requires_grants:
                        sessions.reservations.ask_first()  # ordered during the choice
                    choice = app.choice
                    await self._post(
                        GatewayReady(
                            provider=choice.provider.id, model=choice.model, why=choice.why
                        )
                    )
                    await sessions.serve(server)
        except* SwarmError as group:
            text = "; ".join(str(error) for error in _leaf_errors(group))
            await self._post(GatewayUnable(message=self._dependencies.redactor.redact_error(text)))
        return EXIT_NO_PROVIDER

    async def _handle_ops(self) -> None:
        while True:
            message = await self._supervisor.receive()
            self._supervisor.acknowledge(message)
            try:
                op = decode_gateway_op(message.body)
            except msgspec.DecodeError:
                continue  # an op of a newer supervisor
            match op:
                case Shutdown():
                    self._grace_s = op.grace_s
                    self._work.cancel()
                case AgentGone():
                    if self._agent_sessions is not None:
                        self._agent_sessions.forget_agent(op.agent_id, op.epoch)
                case RequireReservations():
                    self._requires_grants = True
                    if self._agent_sessions is not None:
                        self._agent_sessions.reservations.ask_first()
                case TryNow():
                    self._dependencies.try_now()
                case Granted() | NotGranted():
                    if self._agent_sessions is not None:
                        self._agent_sessions.reservations.decide(op)
                case _:
                    assert_never(op)

    async def _send_heartbeats(self) -> None:
        while True:
            sessions = self._agent_sessions
            heartbeat = Heartbeat(
                progress=0 if sessions is None else sessions.progress,
                busy=sessions is not None and sessions.is_busy,
                rss_bytes=resident_bytes("self"),
            )
            self._send_transient(heartbeat)
            await trio.sleep(HEARTBEAT_S if heartbeat.busy else IDLE_HEARTBEAT_S)

    async def _deliver_warnings(self) -> None:
        while True:
            await self._has_warning.wait()
            self._has_warning = trio.Event()
            while self._warnings:
                text = self._dependencies.redactor.redact_error(self._warnings.pop(0))
                await self._post(Warned(message=text))

    def _warn_soon(self, text: str) -> None:
        if len(self._warnings) < 100:
            self._warnings.append(text)
        self._has_warning.set()

    async def _post_secret(self, secret: str) -> None:
        await self._post(SecretLearned(secret=secret))

    async def _post(self, event: AnyGatewayEvent) -> None:
        await self._supervisor.post(encode_gateway_event(event))

    def _send_transient(self, event: AnyGatewayEvent) -> None:
        self._supervisor.send_transient(encode_gateway_event(event))


def _leaf_errors(group: BaseExceptionGroup[SwarmError]) -> list[SwarmError]:
    """The errors of nested groups as a flat list."""
    found: list[SwarmError] = []
    for error in group.exceptions:
        found += _leaf_errors(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
