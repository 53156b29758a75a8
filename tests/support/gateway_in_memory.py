"""A gateway and agents in one process, joined by in-memory mailboxes."""

from contextlib import asynccontextmanager

import msgspec
import trio

from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.contents.credentials import make_proof
from swarm.mailbox.delivery.pair import open_pair_server
from swarm.mailbox.protocol.items import TokenUsage, encode_item, text_message
from swarm.mailbox.protocol.sampling import (
    ModelInfo,
    OpenConversation,
    SampleAlive,
    SampleCompleted,
    SampleFailed,
    SampleRequest,
    chain_digest,
    decode_sample_event,
    encode_sample_op,
)
from swarm.mailbox.protocol.spec import GatewaySettings, GatewaySpec, ProviderSpec
from swarm.worker.gateway.agent_sessions import AgentSessions
from swarm.worker.gateway.app import GatewayApp
from swarm.worker.gateway.model_catalogue import load_catalogue
from swarm.worker.gateway.provider_choice import ProviderChoice

RUN_KEY = b"k" * 32
KEY = "sk-secret-0123456789abcdef"
MODEL = ModelInfo(
    slug="m", provider="p", wire="scripted", input_usd_per_million=2.0, output_usd_per_million=8.0
)
USAGE = TokenUsage(input_tokens=1000, output_tokens=500, total_tokens=1500)


class ScriptedBackend:
    """A backend that yields the events it was given, and remembers its requests."""

    def __init__(self):
        self.requests = []
        self.answers = []  # lists of events, seconds and exceptions
        self.ended = []

    async def sample(self, request):
        self.requests.append(request)
        try:
            for step in self.answers.pop(0):
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, float):
                    await trio.sleep(step)
                else:
                    yield step
        finally:
            self.ended.append(request.ordinal)


class Agent:
    """An agent's end, with its own idea of the history."""

    def __init__(self, server, agent_id="a1", epoch=1):
        self.identity = f"a/{agent_id}/{epoch}".encode()
        server.admit(self.identity, epoch=epoch)
        self.mailbox = server.connect(self.identity, epoch=epoch)
        self.agent_id, self.numbers, self.beats = agent_id, 0, 0

    async def send(self, op):
        await self.mailbox.post(encode_sample_op(op))

    async def open(self, *, token=None, model=None):
        token = token or make_proof(RUN_KEY, self.identity, purpose="gateway")
        path = f"/root/{self.agent_id}"
        await self.send(
            OpenConversation(token=token, agent_id=self.agent_id, agent_path=path, model=model)
        )

    async def ask(self, *texts, count=0, digest=b""):
        self.numbers += 1
        items = tuple(msgspec.Raw(encode_item(text_message("user", text))) for text in texts)
        await self.send(
            SampleRequest(
                request_id=self.numbers,
                turn_id="t",
                instructions="i",
                items=items,
                base_count=count,
                base_digest=digest,
            )
        )
        for item in items:
            digest = chain_digest(digest, bytes(item))
        return digest

    async def receive_event(self):
        while True:
            message = await self.mailbox.receive()
            self.mailbox.acknowledge(message)
            event = decode_sample_event(message.body)
            if not isinstance(event, SampleAlive):
                return event
            self.beats += 1

    async def receive_answer(self):
        events = []
        while not events or not isinstance(events[-1], SampleCompleted | SampleFailed):
            events.append(await self.receive_event())
        return events


class GatewayInMemory:
    """All that a test needs."""

    def __init__(self, server, supervisor_server, sessions, backend):
        self.server, self.supervisor = server, supervisor_server
        self.sessions, self.backend = sessions, backend


@asynccontextmanager
async def open_gateway(model=MODEL):
    backend = ScriptedBackend()
    provider = ProviderSpec(id="p", name="P", wire_api=model.wire)
    choice = ProviderChoice(provider=provider, model=model, why="")
    app = GatewayApp(choice, backend, load_catalogue())
    spec = GatewaySpec(
        run_id="r",
        epoch=1,
        endpoint="",
        identity=b"g/1",
        secret=b"",
        bind="",
        run_key=RUN_KEY,
        blobs_dir="/nowhere",
        models_dir="/nowhere",
        settings=GatewaySettings(),
    )
    async with open_pair_server() as server, open_pair_server() as above:
        above.admit(b"g/1", epoch=1)
        mailbox = above.connect(b"g/1", epoch=1)
        sessions = AgentSessions(app, spec, mailbox, Redactor([KEY]))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sessions.serve, server)
            yield GatewayInMemory(server, above, sessions, backend)
            nursery.cancel_scope.cancel()
