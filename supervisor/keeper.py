"""The gateway's keeper: starts it, hears it, starts it anew when it dies, tells the agents."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.ids import AgentId
from swarm.mailbox.post import Letter
from swarm.mailbox.protocol.control import Passed
from swarm.mailbox.protocol.events import Goodbye, Heartbeat, Hello, Warned
from swarm.mailbox.protocol.gateway import (
    AgentGone,
    AnyGatewayEvent,
    Drew,
    Fetching,
    GatewayReady,
    GatewayUnable,
    Lapsed,
    RateLimits,
    Reserve,
    SecretLearned,
    Throttled,
    decode_gateway_event,
    encode_gateway_op,
)
from swarm.mailbox.protocol.ops import Shutdown
from swarm.mailbox.protocol.records import GatewayEnded, ProviderChosen, Record
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import GatewaySpec

from .agents import Bound, LiveAgent
from .birth import tell_gateway
from .budget.treasury import Treasury
from .running import Running
from .spawner.base import Child, SpawnError, StartLost
from .spawner.ladder import end_child
from .spawner.restart import GiveUp, decide_restart

_log = logging.getLogger("swarm.keeper")
_TELL_LIMIT_S = 12.0  # more than the silence after which an agent counts as dead
_SILENT_S = 10.0
_BIRTH_S = 30.0


class Keeper:
    """Owns the gateway process. `failed` is set when there can be no gateway any more."""

    def __init__(
        self, running: Running, bound: Bound, treasury: Treasury, *, models_dir: str
    ) -> None:
        self._run, self._bound, self._models_dir = running, bound, models_dir
        self._treasury = treasury
        self._child: Child | None = None
        self._identity = b""
        self._trusted = False
        self._ending = False
        self._seen = ""  # its socket, if it was there
        self._deaths: list[float] = []
        self.last_beat = trio.current_time()
        self.ready = trio.Event()
        self.model: ModelInfo | None = None
        self.failed = trio.Event()
        self.failure = ""
        self.path_of: Callable[[str], str] = lambda agent_id: ""

    def is_gateway(self, peer: bytes) -> bool:
        """True for the present gateway's letters."""
        return peer == self._identity

    async def start(self, *, first: bool) -> None:
        """Start a gateway; return once its process exists. It listens a little later.

        Raises SpawnError: none could be started.
        """
        try:
            await self._start(first=first)
        except StartLost:  # once more, as a gateway of another epoch
            self._run.office.dismiss(self._identity)
            await self._start(first=False)

    async def _start(self, *, first: bool) -> None:
        self._bound.epoch += 1
        self._bound.endpoint = self._run.places.gateway(self._bound.epoch)
        self._identity = f"g/{self._run.run_id}/{self._bound.epoch}".encode()
        self._trusted = False
        self.last_beat = trio.current_time()
        self._run.office.admit(self._identity, epoch=self._bound.epoch)
        request = self._run.request
        spec = GatewaySpec(
            run_id=self._run.run_id,
            epoch=self._bound.epoch,
            endpoint=self._run.places.post,
            identity=self._identity,
            secret=self._run.supervisor_proof(self._identity),
            bind=self._bound.endpoint,
            run_key=self._run.run_key,
            blobs_dir=str(self._run.places.blobs),
            models_dir=self._models_dir,
            providers=request.providers,
            provider=request.provider,
            model=request.model,
            catalogue=request.catalogue,
            record=request.record,
            replay=request.replay,
            asks_first=self._treasury.meet_gateway(self._identity),
        )
        home = self._run.household
        if first:
            self._child = await home.first_gateway(spec, keys=request.keys)
        else:
            self._child = await home.start(spec, title="gateway", keys=request.keys)

    async def keep(self, live_agents: Callable[[], list[LiveAgent]]) -> None:
        """Watch the process until cancelled; a dead one is replaced by the restart rule."""
        while True:
            assert self._child is not None
            ended = await self._child.wait_ended()
            self._run.office.dismiss(self._identity)
            self._treasury.lose_gateway()
            if self._ending or self.failed.is_set():
                return
            self._run.note(
                GatewayEnded(
                    epoch=self._bound.epoch, reason=ended.reason, stderr_tail=ended.stderr_tail
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
            await self._tell(live_agents())

    async def _tell(self, agents: list[LiveAgent]) -> None:
        """All at once: who does not take the word is dead by the limit. Those being born are told
        by who bears them."""
        with trio.move_on_after(_TELL_LIMIT_S):
            async with trio.open_nursery() as nursery:
                for agent in agents:
                    nursery.start_soon(tell_gateway, self._run, agent, self._bound)

    async def forget_agent(self, agent_id: str, epoch: int) -> None:
        """Tell the gateway that nobody waits for this life's answers any more."""
        with trio.move_on_after(1):
            try:
                gone = AgentGone(agent_id=agent_id, epoch=epoch)
                await self._run.office.post(self._identity, encode_gateway_op(gone))
            except PeerGone:
                return

    def strike_if_silent(self) -> None:
        """SIGKILL a gateway whose loop has not beaten for 10 s; it is replaced.

        Before its Hello it imports and may be slow: then it has 30 s.
        """
        limit_s = _SILENT_S if self._trusted else _BIRTH_S
        if trio.current_time() - self.last_beat > limit_s and self._child:
            self.last_beat = trio.current_time()
            self._child.kill_group()

    def strike_if_unreachable(self) -> None:
        """SIGKILL a gateway whose socket was deleted: no new agent finds it; it is replaced."""
        socket = self._bound.endpoint.removeprefix("ipc://")
        if not self._trusted or self._ending or self._child is None:
            return
        if self._seen == socket and not Path(socket).exists():
            self._seen = ""
            self._run.note(Warned(message=f"{socket} was deleted; the gateway is started anew"))
            self._child.kill_group()

    async def end(self, *, grace_s: float) -> None:
        """Ask it to stop, then end it. Called once, last."""
        self._ending = True
        if self._child is not None:
            await end_child(self._child, partial(self._ask, grace_s), grace_s=grace_s)

    async def _ask(self, grace_s: float) -> None:
        try:
            body = encode_gateway_op(Shutdown(grace_s=grace_s))
            await self._run.office.post(self._identity, body)
        except PeerGone:
            return

    def on_letter(self, letter: Letter) -> None:
        """One letter of the gateway; never waits."""
        self.last_beat = trio.current_time()
        try:
            event = decode_gateway_event(letter.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            _log.warning("a message of the gateway could not be read: %s", error)
            self._run.office.handled(letter)
            return
        if isinstance(event, Hello):
            self._on_hello(event)
        elif self._trusted:
            self._on_event(event, letter)
            if isinstance(event, Reserve | Drew | Lapsed | Warned):
                return  # acknowledged once it is journaled
        self._run.office.handled(letter)

    def _on_hello(self, hello: Hello) -> None:
        if self._run.is_proven(self._identity, hello) and not self._trusted:
            self._trusted = True
        elif self._child is not None:
            self._child.kill_group()

    def _on_event(self, event: AnyGatewayEvent, letter: Letter) -> None:
        match event:
            case GatewayReady():
                socket = self._bound.endpoint.removeprefix("ipc://")
                self._seen = socket if Path(socket).exists() else ""
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
                done = partial(self._run.office.handled, letter)
                self._treasury.on_reserve(event, self.path_of(AgentId(event.agent_id)), done)
            case Drew() | Lapsed():
                path = self.path_of(AgentId(event.agent_id))
                journal = partial(self._journal, event, path, letter)
                if not self._treasury.on_bill(event, path, journal):
                    self._run.office.handled(letter)
            case Warned():
                self._journal(event, "", letter)
            case SecretLearned(secret=secret):
                self._run.journal.redactor.learn(secret)
            case RateLimits():
                self._run.note(event)
            case Throttled() | Fetching():
                self._run.showing.passing(Passed(agent="", event=event))
            case Hello() | Heartbeat() | Goodbye():
                return

    def _journal(self, event: Drew | Lapsed | Warned, path: str, letter: Letter) -> None:
        def written(record: Record) -> None:
            self._run.office.handled(letter, soon=False)
            self._run.showing.record(record)

        self._run.journal.write(event, agent=path, then=written)

    def _fail(self, message: str) -> None:
        self.failure = message
        self.failed.set()
