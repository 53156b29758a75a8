"""A conversation whose run ended and was resumed in another terminal goes on with it."""

import asyncio

import pytest

from support.mcp_clients import under_asyncio
from swarm.mailbox.protocol.records import InputPosted
from swarm.supervisor.clients.chat.current_run import CurrentRun
from swarm.supervisor.clients.chat.run_launch import RunLauncher

pytestmark = pytest.mark.live
LIMIT_S = 60


async def test_words_reach_a_run_that_was_resumed_elsewhere(rig):
    provider = rig.script(
        {"text": "heard: {last_user}"}, {"text": "heard: {last_user}"}, {"text": "so"}
    )
    said = []

    async def until(fact):
        while not fact():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)

    async def conversation():
        launcher = RunLauncher(
            ("--provider", provider, "-C", str(rig.work), "--reviewer", "nobody"), rig.environment
        )
        talk = CurrentRun(
            launcher, rig.work, print_parts=lambda parts: None, say=said.append,
            changed=lambda: None,
        )  # fmt: skip
        await talk.send("first")
        run = talk.attached.run
        await until(lambda: talk.live is not None and talk.live.view().status == "idle")
        await talk.end()
        await until(lambda: talk.live is None and not run.is_alive)
        resumed = await launcher.resume(run.run_id, "second", ())
        assert resumed.run_id == run.run_id
        await talk.send("third")
        assert [text for text in said if "goes on in another terminal" in text]
        await until(lambda: len(rig.bodies(InputPosted)) == 3)
        await until(lambda: talk.live is not None and talk.live.view().status == "idle")
        await talk.end()
        await until(lambda: not run.is_alive)
        talk.close()

    await under_asyncio(lambda: asyncio.wait_for(conversation(), LIMIT_S))
