"""Manages the gateway process: writes its spec, handles its messages, tells agents its address."""

from functools import partial
from pathlib import Path

import trio
from msgspec.structs import replace

from swarm.mailbox.base.ids import AgentId
from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.mailbox.delivery.interfaces import ReceivedMessage
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
    TryNow,
    decode_gateway_event,
    encode_gateway_op,
)
from swarm.mailbox.protocol.ops import Shutdown
from swarm.mailbox.protocol.records import GatewayEnded, ProviderChosen, Record
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import GatewaySpec

from ..agents.agent_record import GatewayAddress
from ..agents.life.agent_start import send_gateway_address
from ..context.run_context import RunContext
from ..context.service_process import ServiceProcess
from ..parts.budget.budget_service import BudgetService
from ..processes.answer_caution import answer_caution
from ..processes.child_spec import ChildSpec
from ..processes.process_types import (
    Child,
    ProcessEnd,
    ProcessStarter,
    SpawnError,
    StartInterrupted,
)
from ..request.run_places import program_lookup, with_places
from .gateway_keys import gateway_keys

_SEND_TIMEOUT_S = 12.0  # longer than the silence after which an agent is killed
_STOP_GRACE_S = 2.0
_TRY_NOW_LIMIT_S = 2.0


class GatewayManager:
    """Owns the gateway process. `failed` is set when there can be no gateway any more."""

    def __init__(
        self,
        running: RunContext,
        address: GatewayAddress,
        budget: BudgetService,
        processes: ProcessStarter,
        *,
        places: WritablePlaces,
        models_dir: str,
        former: ProviderChosen | None = None,
    ) -> None:
        """`places`: where agents may write. `former`: who answered before this start of the run."""
        self._run, self._address, self._models_dir = running, address, models_dir
        self._budget = budget
        self._former = former
        self._processes = processes
        self._places = places
        child = ChildSpec(
            start=self._start,
            after_start=self._send_address,
            on_end=self._on_end,
            on_crash=self._on_crash,
            on_give_up=self._on_give_up,
            ask_to_stop=self._ask_to_stop,
            grace_s=_STOP_GRACE_S,
        )
        self.process = ServiceProcess(running, "gateway", child, prefix="g")
        self._known_socket = ""  # its socket, if the file existed
        self.ready = trio.Event()
        self.model: ModelInfo | None = None
        self.failed = trio.Event()
        self.failure = ""

    async def _start(self) -> Child:
        """Return once its process exists. It listens a little later."""
        try:
            return await self._start_process()
        except StartInterrupted:  # once more, as a gateway of another epoch
            self.process.dismiss()
            return await self._start_process()

    async def _start_process(self) -> Child:
        self._address.move(self._run.paths.gateway_endpoint)
        self._run.hosts.move_gateway(self._address.endpoint)
        identity = self.process.admit(self._address.epoch)
        request = self._run.request
        lookup = program_lookup(request)._replace(places=self._places)
        providers = with_places(request.gateway.providers, lookup)
        spec = GatewaySpec(
            run_id=self._run.run_id,
            epoch=self._address.epoch,
            endpoint=self._run.paths.mailbox_endpoint,
            identity=identity,
            secret=self._run.supervisor_proof(identity),
            bind=self._address.endpoint,
            run_key=self._run.run_key,
            blobs_dir=str(self._run.paths.blobs),
            models_dir=self._models_dir,
            settings=replace(request.gateway, providers=providers),
            provider=request.model_settings.provider,
            model=request.model_settings.model,
            asks_first=self._budget.on_gateway_start(identity),
            places=self._places,
        )
        return await self._processes.start(spec, title="gateway", keys=gateway_keys(request))

    async def _send_address(self) -> None:
        """Send all agents the gateway's address in parallel.

        An agent that does not take it within the limit has been killed by then. An agent that is
        starting gets the address from its start.
        """
        with trio.move_on_after(_SEND_TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                for agent in list(self._run.agents.live.values()):
                    nursery.start_soon(send_gateway_address, self._run, agent, self._address)

    def _on_end(self) -> None:
        self.process.dismiss()
        self._budget.on_gateway_end()

    def _on_crash(self, ended: ProcessEnd) -> None:
        self._run.note(
            GatewayEnded(
                epoch=self._address.epoch, reason=ended.reason, stderr_tail=ended.stderr_tail
            )
        )

    def _on_give_up(self, cause: ProcessEnd | SpawnError) -> None:
        if isinstance(cause, SpawnError):
            self._fail(f"no gateway could be started: {cause}")
        else:
            self._fail(f"the gateway keeps ending: {cause.reason}\n{cause.stderr_tail[-2000:]}")

    async def forget_agent(self, agent_id: str, epoch: int) -> None:
        """Tell the gateway that nobody waits for this process's responses any more."""
        with trio.move_on_after(1):
            await self.process.send(encode_gateway_op(AgentGone(agent_id=agent_id, epoch=epoch)))

    async def try_now(self) -> None:
        """The gateway forgets the limits that it knows of; it has done so on return."""
        with trio.move_on_after(_TRY_NOW_LIMIT_S):
            await self.process.send_and_wait(encode_gateway_op(TryNow()))

    def check_alive(self) -> None:
        """SIGKILL a gateway that is silent or whose socket was deleted; it is replaced."""
        self.process.kill_if_silent()
        socket = self._address.endpoint.removeprefix("ipc://")
        if not self.process.trusted or self.process.loop.end_expected:
            return
        if self._known_socket == socket and not Path(socket).exists():
            self._known_socket = ""
            self._run.note(Warned(message=f"{socket} was deleted; the gateway is started again"))
            self.process.loop.kill()

    async def _ask_to_stop(self) -> None:
        await self.process.send(encode_gateway_op(Shutdown(grace_s=_STOP_GRACE_S)))

    def on_message(self, message: ReceivedMessage) -> None:
        """Handle one message of the gateway; never waits."""
        event = self.process.read(message, decode_gateway_event)
        if event is None:
            return
        self._on_event(event, message)
        if not isinstance(event, Reserve | ResponseBilled | ReservationReleased | Warned):
            self._run.mailbox.acknowledge(message)  # the others once they are journaled

    def _on_event(self, event: AnyGatewayEvent, message: ReceivedMessage) -> None:
        match event:
            case GatewayReady():
                socket = self._address.endpoint.removeprefix("ipc://")
                self._known_socket = socket if Path(socket).exists() else ""
                if not self.ready.is_set():
                    self.model = event.model
                    self._note_chosen(
                        ProviderChosen(
                            provider=event.provider,
                            model=event.model.slug,
                            why=event.why,
                            caution=answer_caution(event.model),
                        )
                    )
                    self.ready.set()
            case GatewayUnable():
                self._fail(event.message)
            case Reserve():
                done = partial(self._run.mailbox.acknowledge, message)
                self._budget.on_reserve(
                    event, self._run.agents.path_of(AgentId(event.agent_id)), done
                )
            case ResponseBilled() | ReservationReleased():
                path = self._run.agents.path_of(AgentId(event.agent_id))
                journal = partial(self._journal, event, path, message)
                if not self._budget.on_bill(event, path, journal):
                    self._run.mailbox.acknowledge(message)
            case Warned():
                self._journal(event, "", message)
            case SecretLearned(secret=secret):
                self._run.journal.redactor.add_secrets(secret)
            case RateLimits():
                self._run.note(event)
            case Throttled() | Fetching():
                self._run.broadcast.publish_transient(TransientEvent(agent="", event=event))
            case Hello() | Heartbeat() | Goodbye():
                return

    def _note_chosen(self, chosen: ProviderChosen) -> None:
        """Journal who answers, and say so if it is not who answered before."""
        self._run.note(chosen)
        if text := describe_new_model(self._former, chosen):
            self._run.note(Warned(message=text))

    def _journal(
        self,
        event: ResponseBilled | ReservationReleased | Warned,
        path: str,
        message: ReceivedMessage,
    ) -> None:
        def written(record: Record) -> None:
            self._run.mailbox.acknowledge(message, soon=False)
            self._run.broadcast.publish_record(record)

        self._run.journal.write(event, agent=path, then=written)

    def _fail(self, message: str) -> None:
        self.process.loop.expect_end()
        self.failure = message
        self.failed.set()


def describe_new_model(former: ProviderChosen | None, chosen: ProviderChosen) -> str:
    """What is said where a run goes on with another model than before; "" if it does not."""
    if former is None or (former.provider, former.model) == (chosen.provider, chosen.model):
        return ""
    why = f" ({chosen.why})" if chosen.why else ""
    return (
        f"until now {former.provider}:{former.model} answered in this run, and from here on "
        f"{chosen.provider}:{chosen.model}{why}; "
        f"`swarm resume -m {former.provider}:{former.model}` goes back to it"
    )
