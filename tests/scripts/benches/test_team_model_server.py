"""A team's model server lets a run stand still while it is looked at."""

import asyncio
import json

import pytest
from team_model_server import Cycles, TeamServer


class Writer:
    """Keeps what is written."""

    def __init__(self):
        self.text = b""

    def write(self, data):
        self.text += data


def asked(server, who, kind, name):
    """A request of this part of the play, as a task; and what it is answered."""
    words = f'{{"prompt_cache_key":"{who:0>36}","input":"bench:{kind} <{name}> Go."}}'
    return sent(server, words.encode())


def sent(server, body):
    writer = Writer()
    return asyncio.create_task(server.answer(0.0, body, writer)), writer


def pause(server, leaves):
    return sent(server, json.dumps({"pause": leaves}).encode())


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_run_stands_still_when_a_whole_batch_asks_and_goes_on_when_told():
    async def story():
        server = TeamServer(Cycles(1, 2, 2))
        early, _ = asked(server, "early", "leaf", "l0")
        paused, told = pause(server, 2)
        await settle()
        assert early.done()  # of a batch that was under way already
        assert not paused.done()
        head, _ = asked(server, "head", "head", "h0")
        await settle()
        leaves = [asked(server, name, "leaf", name)[0] for name in ("l1", "l2")]
        await paused
        assert b"true" in told.text
        assert head.done()
        assert [leaf.done() for leaf in leaves] == [False, False]
        await pause(server, 0)[0]
        await asyncio.gather(*leaves)

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["root", "leaf"])
def test_without_so_many_leaves_a_run_goes_on(kind, monkeypatch):
    async def story():
        server = TeamServer(Cycles(0, 0, 1))
        paused, told = pause(server, 2)
        one, _ = asked(server, "a", kind, "a")
        await asyncio.gather(paused, one)
        assert b"false" in told.text

    monkeypatch.setattr("team_model_server._PATIENCE_S", 0.0 if kind == "leaf" else 60.0)
    asyncio.run(asyncio.wait_for(story(), 30))
