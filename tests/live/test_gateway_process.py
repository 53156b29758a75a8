"""The gateway as a real process, over real sockets: beginning, answer, silence, end."""

import os
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest
import trio

from support.nested_fields import with_fields
from swarm.mailbox.contents.credentials import make_proof
from swarm.mailbox.delivery.dealer import open_dealer
from swarm.mailbox.delivery.router import open_router
from swarm.mailbox.protocol.events import Goodbye, Hello
from swarm.mailbox.protocol.gateway import (
    GatewayReady,
    GatewayUnable,
    Heartbeat,
    ResponseBilled,
    decode_gateway_event,
    encode_gateway_op,
)
from swarm.mailbox.protocol.items import encode_item, text_message
from swarm.mailbox.protocol.ops import Shutdown
from swarm.mailbox.protocol.sampling import (
    ConversationOpened,
    OpenConversation,
    SampleCompleted,
    SampleFailed,
    SampleItemDone,
    SampleRequest,
    decode_sample_event,
    encode_sample_op,
)
from swarm.mailbox.protocol.spec import GatewaySettings, GatewaySpec, ProviderSpec, encode_spec

pytestmark = pytest.mark.live
RUN_KEY = b"k" * 32
KEY = "sk-live-0123456789abcdefgh"
BEGIN = """
import os, sys
from swarm.mailbox.protocol.spec import decode_spec
from swarm.worker.gateway.gateway_process import run_gateway
keys = {"TEST_KEY": sys.argv[1]} if sys.argv[1] else {}
sys.exit(run_gateway(decode_spec(sys.stdin.buffer.read()), keys, None))
"""


class Live:
    """A supervisor's view of the process, and a way in for agents."""

    def __init__(self, server, process, folder):
        self.server, self.process, self.folder = server, process, folder

    async def hear(self):
        """The next event that is no heartbeat."""
        while True:
            message = await self.server.receive()
            self.server.acknowledge(message)
            event = decode_gateway_event(message.body)
            if not isinstance(event, Heartbeat):
                return event

    async def shut_down(self):
        await self.server.post(b"g/1", encode_gateway_op(Shutdown(grace_s=2.0)))
        while await self.hear() != Goodbye():
            pass
        return await self.process.wait()

    @asynccontextmanager
    async def agent(self, agent_id="a1"):
        identity = f"a/{agent_id}/1".encode()
        endpoint = f"ipc://{self.folder}/agents"
        async with open_dealer(endpoint, identity, epoch=1) as mailbox:
            token = make_proof(RUN_KEY, identity, purpose="gateway")
            op = OpenConversation(token=token, agent_id=agent_id, agent_path="/root")
            await mailbox.post(encode_sample_op(op))
            yield mailbox


async def hear_agent(mailbox):
    message = await mailbox.receive()
    mailbox.acknowledge(message)
    return decode_sample_event(message.body)


def request(*texts, number=1):
    items = tuple(msgspec.Raw(encode_item(text_message("user", text))) for text in texts)
    return encode_sample_op(
        SampleRequest(request_id=number, turn_id="t", instructions="i", items=items)
    )


@asynccontextmanager
async def live_gateway(folder, *, key="", **settings):
    spec = GatewaySpec(
        run_id="r",
        epoch=1,
        endpoint=f"ipc://{folder}/supervisor",
        identity=b"g/1",
        secret=b"s3cret",
        bind=f"ipc://{folder}/agents",
        run_key=RUN_KEY,
        blobs_dir=str(folder),
        models_dir=str(folder),
        settings=GatewaySettings(),
    )
    spec = with_fields(spec, **settings)
    async with AsyncExitStack() as stack:
        stack.enter_context(trio.fail_after(20))
        server = await stack.enter_async_context(open_router(spec.endpoint))
        server.admit(b"g/1", epoch=1)
        argv = [sys.executable, "-P", "-c", BEGIN, key]
        environment = {"PATH": os.environ["PATH"], "OLLAMA_HOST": "127.0.0.1:9"}
        process = await trio.lowlevel.open_process(argv, stdin=subprocess.PIPE, env=environment)
        try:
            assert process.stdin is not None
            await process.stdin.send_all(encode_spec(spec))
            await process.stdin.aclose()
            yield Live(server, process, folder)
        finally:
            process.kill()
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                await process.wait()


async def test_a_gateway_proves_itself_serves_a_provider_and_leaves_in_order(
    tmp_path, model_server
):
    provider = ProviderSpec(id="test", name="Test", base_url=model_server.url, env_key="TEST_KEY")
    model_server.add_responses(model_server.message("hello"))
    async with live_gateway(tmp_path, key=KEY, providers=(provider,), model="m") as live:
        hello = await live.hear()
        assert isinstance(hello, Hello)
        assert (hello.secret, hello.pid, hello.kind) == (b"s3cret", live.process.pid, "gateway")
        ready = await live.hear()
        assert isinstance(ready, GatewayReady)
        assert (ready.provider, ready.model.slug) == ("test", "m")
        assert ready.why == "TEST_KEY is set"
        async with live.agent() as mailbox:
            assert await hear_agent(mailbox) == ConversationOpened(model=ready.model)
            await mailbox.post(request("hi"))
            events = []
            while not isinstance(events and events[-1], SampleCompleted):
                events.append(await hear_agent(mailbox))
            assert any(isinstance(event, SampleItemDone) for event in events)
        drew = await live.hear()
        assert isinstance(drew, ResponseBilled) and drew.usage.total_tokens == 15
        assert await live.shut_down() == 0
    assert model_server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_no_provider_is_told_with_the_three_ways_to_get_one(tmp_path):
    async with live_gateway(tmp_path, model="no-such-model") as live:
        assert isinstance(await live.hear(), Hello)
        unable = await live.hear()
        assert isinstance(unable, GatewayUnable)
        for way in ("OPENAI_API_KEY", "Ollama", "swarm models pull smollm2"):
            assert way in unable.message
        assert await live.hear() == Goodbye()
        assert await live.process.wait() == 5


async def test_a_provider_without_its_key_names_the_variable(tmp_path):
    async with live_gateway(tmp_path, provider="openai") as live:
        assert isinstance(await live.hear(), Hello)
        unable = await live.hear()
        assert isinstance(unable, GatewayUnable)
        assert "OPENAI_API_KEY" in unable.message


async def test_a_recorded_run_can_be_replayed_without_a_provider(tmp_path):
    script = tmp_path / "script.yaml"
    script.write_text("turns:\n  - text: one\n  - text: two\n")
    tape = tmp_path / "tape.jsonl"

    async def run(**settings):
        heard = []
        async with live_gateway(tmp_path, **settings) as live:
            await live.hear()
            ready = await live.hear()
            assert isinstance(ready, GatewayReady), ready
            async with live.agent() as mailbox:
                for number in (1, 2, 3):
                    await mailbox.post(request("hi", number=number))
                    while not isinstance(heard and heard[-1], SampleCompleted | SampleFailed) or (
                        heard[-1].request_id < number
                    ):
                        heard.append(await hear_agent(mailbox))
            assert await live.shut_down() == 0
        return [event for event in heard if isinstance(event, SampleItemDone)], heard[-1], ready

    said, last, _ = await run(provider=f"scripted:{script}", record=str(tape))
    assert [item.item.content[0].text for item in said] == ["one", "two"]
    said_again, last_again, ready = await run(replay=str(tape))
    assert said_again == said
    assert last_again == last
    assert ready.model.slug == "scripted" and tape.name in ready.why


async def test_an_error_in_a_script_names_file_line_and_key(tmp_path):
    script = tmp_path / "script.yaml"
    script.write_text("turns:\n  - text: one\n  - txt: two\n")
    async with live_gateway(tmp_path, provider=f"scripted:{script}") as live:
        await live.hear()
        unable = await live.hear()
        assert isinstance(unable, GatewayUnable)
        assert f"{script}:3: turns[1].txt: unknown key" in unable.message
