"""Manages the gateway process: starts it, handles its messages, replaces it when it dies."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.ids import AgentId
from swarm.mailbox.interfaces import ReceivedMessage
from swarm.mailbox.protocol.control import TransientEvent
from swarm.mailbox.protocol.events import Goodbye, Heartbeat, Hello, Warned
from swarm.mailbox.protocol.gateway import (
    AgentGone,
    AnyGatewayEvent,
    Fetching,
    GatewayReady,
    GatewayUnable,
    RateLimits,
    ReservationReleased,
    Reserve,
    ResponseBilled,
    SecretLearned,
    Throttled,
    decode_gateway_event,
    encode_gateway_op,
)
from swarm.mailbox.protocol.ops import Shutdown
from swarm.mailbox.protocol.records import GatewayEnded, ProviderChosen, Record
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import GatewaySpec

from ..agents.agent_start import send_gateway_address
from ..agents.live_agent import GatewayAddress, LiveAgent
from ..budget.budget_service import BudgetService
from ..run_context import RunContext
from .graceful_stop import stop_child
from .process_types import Child, SpawnError, StartInterrupted
from .restart_policy import GiveUp, decide_restart

_log = logging.getLogger("swarm.keeper")
_SEND_TIMEOUT_S = 12.0  # longer than the silence after which an agent is killed
_HEARTBEAT_TIMEOUT_S = 10.0
_START_TIMEOUT_S = 30.0


class GatewayManager:
    """Owns the gateway process. `failed` is set when there can be no gateway any more."""

    def __init__(
        self,
        running: RunContext,
        bound: GatewayAddress,
        treasury: BudgetService,
        *,
        models_dir: str,
    ) -> None:
        self._run, self._address, self._models_dir = running, bound, models_dir
        self._budget = treasury
        self._child: Child | None = None
        self._identity = b""
        self._trusted = False
        self._ending = False
        self._known_socket = ""  # its socket, if the file existed
        self._deaths: list[float] = []
        self.last_heartbeat = trio.current_time()
        self.ready = trio.Event()
        self.model: ModelInfo | None = None
        self.failed = trio.Event()
        self.failure = ""
        self.path_of: Callable[[str], str] = lambda agent_id: ""

    def is_gateway(self, peer: bytes) -> bool:
        """True for messages of the present gateway."""
        return peer == self._identity

    async def start(self, *, first: bool) -> None:
        """Start a gateway; return once its process exists. It listens a little later.

        Raises SpawnError: none could be started.
        """
        try:
            await self._start(first=first)
        except StartInterrupted:  # once more, as a gateway of another epoch
            self._run.mailbox.dismiss(self._identity)
            await self._start(first=False)

    async def _start(self, *, first: bool) -> None:
        self._address.epoch += 1
        self._address.endpoint = self._run.paths.gateway_endpoint(self._address.epoch)
        self._identity = f"g/{self._run.run_id}/{self._address.epoch}".encode()
        self._trusted = False
        self.last_heartbeat = trio.current_time()
        self._run.mailbox.admit(self._identity, epoch=self._address.epoch)
        request = self._run.request
        spec = GatewaySpec(
            run_id=self._run.run_id,
            epoch=self._address.epoch,
            endpoint=self._run.paths.mailbox_endpoint,
            identity=self._identity,
            secret=self._run.supervisor_proof(self._identity),
            bind=self._address.endpoint,
            run_key=self._run.run_key,
            blobs_dir=str(self._run.paths.blobs),
            models_dir=self._models_dir,
            providers=request.providers,
            provider=request.provider,
            model=request.model,
            catalogue=request.catalogue,
            record=request.record,
            replay=request.replay,
            asks_first=self._budget.on_gateway_start(self._identity),
        )
        home = self._run.processes
        if first:
            self._child = await home.start_first_gateway(spec, keys=request.keys)
        else:
            self._child = await home.start(spec, title="gateway", keys=request.keys)

    async def supervise(self, live_agents: Callable[[], list[LiveAgent]]) -> None:
        """Watch the process until cancelled; replace a dead one by the restart policy."""
        while True:
            assert self._child is not None
            ended = await self._child.wait_ended()
            self._run.mailbox.dismiss(self._identity)
            self._budget.on_gateway_end()
            if self._ending or self.failed.is_set():
                return
            self._run.note(
                GatewayEnded(
                    epoch=self._address.epoch, reason=ended.reason, stderr_tail=ended.stderr_tail
                )
            )
            self._deaths.append(trio.current_time())
            verdict = decide_restart(self._deaths, now=trio.current_time())
            if isinstance(verdict, GiveUp):
                self._fail(f"the gateway keeps ending: {ended.reason}\n{ended.stderr_tail[-2000:]}")
                return
            await trio.sleep(verdict.after_s)
            try:
                await self.start(first=False)
            except SpawnError as error:
                self._fail(f"no gateway could be started: {error}")
                return
            await self._send_address(live_agents())

    async def _send_address(self, agents: list[LiveAgent]) -> None:
        """Send all agents the gateway's address in parallel.

        An agent that does not take it within the limit has been killed by then. An agent that is
        starting gets the address from its start.
        """
        with trio.move_on_after(_SEND_TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                for agent in agents:
                    nursery.start_soon(send_gateway_address, self._run, agent, self._address)

    async def forget_agent(self, agent_id: str, epoch: int) -> None:
        """Tell the gateway that nobody waits for this process's responses any more."""
        with trio.move_on_after(1):
            try:
                gone = AgentGone(agent_id=agent_id, epoch=epoch)
                await self._run.mailbox.post(self._identity, encode_gateway_op(gone))
            except PeerGone:
                return

    def kill_if_silent(self) -> None:
        """SIGKILL a gateway that sent no heartbeat for 10 s; it is replaced.

        Before its Hello it is importing and may be slow: then the limit is 30 s.
        """
        limit_s = _HEARTBEAT_TIMEOUT_S if self._trusted else _START_TIMEOUT_S
        if trio.current_time() - self.last_heartbeat > limit_s and self._child:
            self.last_heartbeat = trio.current_time()
            self._child.kill_group()

    def kill_if_unreachable(self) -> None:
        """SIGKILL a gateway whose socket was deleted (no agent could reach it); it is replaced."""
        socket = self._address.endpoint.removeprefix("ipc://")
        if not self._trusted or self._ending or self._child is None:
            return
        if self._known_socket == socket and not Path(socket).exists():
            self._known_socket = ""
            self._run.note(Warned(message=f"{socket} was deleted; the gateway is started anew"))
            self._child.kill_group()

    async def end(self, *, grace_s: float) -> None:
        """Ask it to stop, then end it. Called once, last."""
        self._ending = True
        if self._child is not None:
            await stop_child(self._child, partial(self._ask_to_stop, grace_s), grace_s=grace_s)

    async def _ask_to_stop(self, grace_s: float) -> None:
        try:
            body = encode_gateway_op(Shutdown(grace_s=grace_s))
            await self._run.mailbox.post(self._identity, body)
        except PeerGone:
            return

    def on_message(self, letter: ReceivedMessage) -> None:
        """Handle one message of the gateway; never waits."""
        self.last_heartbeat = trio.current_time()
        try:
            event = decode_gateway_event(letter.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            _log.warning("a message of the gateway could not be read: %s", error)
            self._run.mailbox.acknowledge(letter)
            return
        if isinstance(event, Hello):
            self._on_hello(event)
        elif self._trusted:
            self._on_event(event, letter)
            if isinstance(event, Reserve | ResponseBilled | ReservationReleased | Warned):
                return  # acknowledged once it is journaled
        self._run.mailbox.acknowledge(letter)

    def _on_hello(self, hello: Hello) -> None:
        if self._run.is_proven(self._identity, hello) and not self._trusted:
            self._trusted = True
        elif self._child is not None:
            self._child.kill_group()

    def _on_event(self, event: AnyGatewayEvent, letter: ReceivedMessage) -> None:
        match event:
            case GatewayReady():
                socket = self._address.endpoint.removeprefix("ipc://")
                self._known_socket = socket if Path(socket).exists() else ""
                if not self.ready.is_set():
                    self.model = event.model
                    self._run.note(
                        ProviderChosen(
                            provider=event.provider, model=event.model.slug, why=event.why
                        )
                    )
                    self.ready.set()
            case GatewayUnable():
                self._fail(event.message)
            case Reserve():
                done = partial(self._run.mailbox.acknowledge, letter)
                self._budget.on_reserve(event, self.path_of(AgentId(event.agent_id)), done)
            case ResponseBilled() | ReservationReleased():
                path = self.path_of(AgentId(event.agent_id))
                journal = partial(self._journal, event, path, letter)
                if not self._budget.on_bill(event, path, journal):
                    self._run.mailbox.acknowledge(letter)
            case Warned():
                self._journal(event, "", letter)
            case SecretLearned(secret=secret):
                self._run.journal.redactor.add_secrets(secret)
            case RateLimits():
                self._run.note(event)
            case Throttled() | Fetching():
                self._run.broadcast.publish_transient(TransientEvent(agent="", event=event))
            case Hello() | Heartbeat() | Goodbye():
                return

    def _journal(
        self,
        event: ResponseBilled | ReservationReleased | Warned,
        path: str,
        letter: ReceivedMessage,
    ) -> None:
        def written(record: Record) -> None:
            self._run.mailbox.acknowledge(letter, soon=False)
            self._run.broadcast.publish_record(record)

        self._run.journal.write(event, agent=path, then=written)

    def _fail(self, message: str) -> None:
        self.failure = message
        self.failed.set()
