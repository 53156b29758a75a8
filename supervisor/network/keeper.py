"""The network proxy's keeper: starts it, hears it, starts it anew when it dies, answers it.

Guards: a run without a network policy never has a proxy. While there is none, commands' connections
are refused; a new one knows nothing of the old one's answers and asks again.
"""

import logging
from collections import deque
from collections.abc import Callable

import msgspec
import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.post import Letter
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
from swarm.mailbox.proxies import proxies_of
from swarm.mailbox.tickets import ticket_key

from ..agents import LiveAgent
from ..approvals.base import Decider
from ..running import Running
from ..spawner.base import Child, Ended, SpawnError
from ..spawner.restart import GiveUp, decide_restart
from .questions import answer_of, approval_of

MOST_BLOCKED_KEPT = 200
_ROUND_S, _SILENT_S, _BIRTH_S, _READY_S = 1.0, 10.0, 30.0, 10.0
_log = logging.getLogger("swarm.network")


class ProxyKeeper:
    """Owns the proxy process, if the run has one."""

    def __init__(
        self, running: Running, nursery: trio.Nursery, decider: Decider, *, first_epoch: int
    ) -> None:
        """`life` is to be set: whoever is alive at a path."""
        self._run, self._nursery, self._decider = running, nursery, decider
        self._epoch = first_epoch
        self._child: Child | None = None
        self._identity = b""
        self._trusted = self._ending = False
        self._deaths: list[float] = []
        self._asking: dict[int, trio.CancelScope] = {}
        self.last_beat = trio.current_time()
        self.ready = trio.Event()
        self.blocked = deque[NetworkBlocked](maxlen=MOST_BLOCKED_KEPT)
        self.life: Callable[[str], LiveAgent | None] = lambda path: None

    def is_proxy(self, peer: bytes) -> bool:
        """True for the present proxy's letters."""
        return bool(self._identity) and peer == self._identity

    async def keep(self) -> None:
        """Start it and watch it until cancelled or ended. Returns at once if none is needed."""
        if self._run.request.network is None:
            return
        while not self._ending:
            try:
                await self._start()
            except SpawnError as error:
                self._forget()
                self._warn(f"no network proxy could be started: {error}")
                return
            assert self._child is not None
            ended = await self._child.wait_ended()
            self._forget()
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
        self.last_beat = trio.current_time()
        self._run.office.admit(self._identity, epoch=self._epoch)
        request = self._run.request
        spec = ProxySpec(
            run_id=self._run.run_id,
            epoch=self._epoch,
            endpoint=self._run.places.post,
            identity=self._identity,
            secret=self._run.supervisor_proof(self._identity),
            bind=self._run.places.proxy,
            ticket_key=ticket_key(self._run.run_key),
            authority=str(self._run.places.authority) if opens_tunnels(request.network) else "",
            upstream=proxies_of(request.environment) if request.goes_upstream else {},
        )
        self._child = await self._run.household.start(spec, title="network proxy")

    def _forget(self) -> None:
        """Its process has ended: whoever waits for its questions need not."""
        self._run.office.dismiss(self._identity)
        self._identity, self._child = b"", None
        for scope in self._asking.values():
            scope.cancel()
        self._asking.clear()  # a new proxy counts its questions from the beginning

    async def wait_trusted(self) -> None:
        """Until commands can know the certificates of a proxy that looks into tunnels; bounded."""
        if opens_tunnels(self._run.request.network):
            with trio.move_on_after(_READY_S):
                await self.ready.wait()

    async def watch(self) -> None:
        """SIGKILL a proxy whose loop has not beaten for 10 s (30 s before its Hello)."""
        if self._run.request.network is None:
            return
        last_round = trio.current_time()
        while True:
            await trio.sleep(_ROUND_S)
            now = trio.current_time()
            if now - last_round > _ROUND_S + 2:  # this process was held up itself
                self.last_beat = now
            last_round = now
            limit_s = _SILENT_S if self._trusted else _BIRTH_S
            if self._child is not None and now - self.last_beat > limit_s:
                self.last_beat = now
                self._child.kill_group()

    def let_go(self) -> None:
        """The run ends: the household ends the proxy with all else, and that is no event."""
        self._ending = True

    def on_letter(self, letter: Letter) -> None:
        """One letter of the proxy; never waits."""
        self.last_beat = trio.current_time()
        self._run.office.handled(letter)
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
                scope = self._asking[event.question] = trio.CancelScope()
                self._nursery.start_soon(self._ask, event, scope)
            case NetworkWithdrawn():
                if (asking := self._asking.get(event.question)) is not None:
                    asking.cancel()
            case NetworkBlocked():
                self._on_blocked(event)
            case Warned():
                self._warn(event.message)
            case Hello() | Heartbeat() | Goodbye():
                return

    async def _ask(self, asked: NetworkAsked, scope: trio.CancelScope) -> None:
        """One question until it is answered or nobody waits for the answer."""
        try:
            with scope:
                decided = await self._decider.decide(asked.agent, approval_of(asked))
                await self._post(answer_of(asked, decided))
        finally:
            if self._asking.get(asked.question) is scope:
                del self._asking[asked.question]

    async def _post(self, op: AnyProxyOp) -> None:
        try:
            await self._run.office.post(self._identity, encode_proxy_op(op))
        except PeerGone:
            return  # it has died; its commands' connections with it

    def _on_blocked(self, event: NetworkBlocked) -> None:
        self.blocked.append(event)
        target = event.target
        what = f"{target.protocol}://{target.host}:{target.port}"
        message = f"network access to {what} was blocked ({event.reason})"
        if (agent := self.life(event.agent)) is not None:
            file = agent.plan.agent_id
            self._run.note(Warned(message=message), agent=event.agent, file=file)
        else:
            self._run.note(Warned(message=f"{event.agent}: {message}"))

    def _note_end(self, ended: Ended) -> bool:
        """False if its end was meant."""
        if self._ending:
            return False
        _log.warning("the network proxy ended: %s\n%s", ended.reason, ended.stderr_tail)
        self._warn(f"the network proxy ended and is started anew: {ended.reason}")
        return True

    def _warn(self, message: str) -> None:
        self._run.note(Warned(message=message))
