"""Runs whose agents use several providers, and providers that die in the middle of the work."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from conftest import ModelServer
from swarm.mailbox.protocol.events import ProviderFallback, TurnFailed
from swarm.mailbox.protocol.gateway import ResponseBilled
from swarm.mailbox.protocol.records import AgentSpawned, SettingsChanged

pytestmark = pytest.mark.live
LIMIT_S = 60
FAST = {"request_max_retries": 1, "stream_max_retries": 1}


@asynccontextmanager
async def mortal_server() -> AsyncIterator[tuple[ModelServer, trio.CancelScope]]:
    """A server on loopback; cancelling the scope closes its listener and all its connections."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = ModelServer(f"http://127.0.0.1:{listener.socket.getsockname()[1]}")
    life = trio.CancelScope()

    async def serve() -> None:
        with life:
            await trio.serve_listeners(server.serve_connection, [listener])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        yield server, life
        life.cancel()


def configure(rig, **providers: dict[str, Any]) -> None:
    """Write these providers, each with a key of its own, into the person's configuration."""
    lines: list[str] = []
    for name, told in providers.items():
        rig.environment[f"{name.upper()}_KEY"] = f"sk-{name}-0123456789abcdef"
        table = {"name": name, "env_key": f"{name.upper()}_KEY", **FAST, **told}
        lines.append(f"[model_providers.{name}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    (rig.home / "config.toml").write_text("\n".join(lines) + "\n")


def add_config(rig, text: str, *, first: bool = False) -> None:
    path = rig.home / "config.toml"
    have = path.read_text()
    path.write_text(text + have if first else have + text)


def is_child(seen: Any) -> bool:
    return b"/root/scout" in seen.body


def spawn(**more: str) -> dict[str, Any]:
    told = {"task_name": "scout", "message": "read note.txt", "agent_type": "explorer"}
    return ModelServer.function_call("spawn_agent", {**told, **more}, "call_1")


async def test_an_explorer_whose_server_dies_goes_on_with_its_fallback_and_nothing_is_lost(
    rig, model_server
):
    (rig.work / "note.txt").write_text("the answer is 42\n")
    async with mortal_server() as (small, death):
        configure(
            rig,
            main={"base_url": model_server.url},
            small={"base_url": small.url, "wire_api": "chat"},
        )
        add_config(rig, '[agents.explorer]\nmodel_provider = "small"\nmodel = "tiny"\n'
                        'fallback = ["main:big"]\n')  # fmt: skip
        command = {"name": "exec_command", "arguments": json.dumps({"cmd": "cat note.txt"})}
        small.add_chat(
            {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": command}]},
            finish="tool_calls",
        )

        def die(seen: Any) -> Any:
            if small.requests[1:]:
                death.cancel()
            return None

        small.choose = die
        turns = [
            model_server.responses(spawn()),
            model_server.responses(
                model_server.function_call("wait_agent", {"timeout_ms": 50_000}, "call_2")
            ),
            model_server.responses(model_server.message("the scout says 42")),
        ]

        def answer(seen: Any) -> Any:
            if seen.json["model"] == "big":
                return model_server.reply(model_server.responses(model_server.message("42")))
            return model_server.reply(turns.pop(0))

        model_server.choose = answer
        with trio.fail_after(LIMIT_S):
            ended = await (await rig.run("main", "-m", "large")).wait_end()
    assert (ended.code, ended.out) == (0, "the scout says 42\n"), ended.err
    (fallback,) = rig.bodies(ProviderFallback, agent="/root/scout")
    assert (fallback.failed_provider, fallback.failed_model) == ("small", "tiny")
    assert (fallback.provider, fallback.model, fallback.taken) == ("main", "big", 1)
    assert "provider small tiny failed" in ended.err
    assert "from now on main big answers" in ended.err
    (last,) = [seen for seen in model_server.requests if seen.json["model"] == "big"]
    assert b"the answer is 42" in last.body  # what its command had printed
    assert [seen.headers["authorization"] for seen in small.requests[:1]] == [
        "Bearer sk-small-0123456789abcdef"
    ]
    assert {seen.headers["authorization"] for seen in model_server.requests} == {
        "Bearer sk-main-0123456789abcdef"
    }
    (changed,) = rig.bodies(SettingsChanged, agent="/root/scout")
    assert (changed.settings.provider, changed.settings.fallbacks_taken) == ("main", 1)
    assert not rig.bodies(TurnFailed)
    assert rig.alive() == {}


async def test_a_spawn_names_a_provider_and_only_one_that_the_run_was_told_of(rig, model_server):
    async with mortal_server() as (other, _):
        configure(
            rig,
            main={"base_url": model_server.url},
            other={"base_url": other.url, "wire_api": "chat"},
            third={"base_url": "http://127.0.0.1:9/v1"},
        )
        other.add_chat({"content": "from the other one"})
        other.lists["/v1/models"] = b'{"data": [{"id": "m", "max_model_len": 16384}]}'
        turns = [
            spawn(model="third:m"),
            spawn(model="othr:m"),
            spawn(model="other:m"),
            model_server.function_call("wait_agent", {"timeout_ms": 50_000}, "call_2"),
            model_server.message("done"),
        ]
        for turn in turns:
            model_server.add_responses(turn)
        with trio.fail_after(LIMIT_S):
            words = ("-m", "large", "-c", 'agents.providers=["other"]')
            ended = await (await rig.run("main", *words)).wait_end()
    assert ended.code == 0, ended.err
    told = [seen.body.decode() for seen in model_server.requests]
    assert "provider `third` is not part of this run" in told[1]
    assert "did you mean `other`" in told[2]
    (scout,) = [one for one in rig.bodies(AgentSpawned) if one.path == "/root/scout"]
    assert (scout.provider, scout.model) == ("other", "m")
    billed = {one.provider for one in rig.bodies(ResponseBilled)}
    assert billed <= {"main", "other"}
    windows = [r.body.context_window for r in rig.records()
               if r.agent == "/root/scout" and type(r.body).__name__ == "TokenCount"]  # fmt: skip
    assert windows
    assert max(windows) <= 16_384  # what its server says, not a guess


async def test_a_fallback_that_is_down_too_fails_with_all_that_was_tried(rig, model_server):
    configure(
        rig,
        main={"base_url": "http://127.0.0.1:9/v1"},
        second={"base_url": "http://127.0.0.1:10/v1"},
    )
    add_config(rig, 'fallback = ["second:m"]\n', first=True)
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("main", "-m", "large")).wait_end()
    assert ended.code == 5, ended.err
    assert rig.completed.status == "provider"
    assert "cannot reach second" in rig.completed.message
    assert "no fallback is left (its list: second:m)" in rig.completed.message
    (fallback,) = rig.bodies(ProviderFallback)
    assert fallback.kind == "connection_failed"
    assert rig.alive() == {}


async def test_a_resumed_run_stays_with_the_fallback(rig, model_server):
    configure(
        rig, main={"base_url": "http://127.0.0.1:9/v1"}, second={"base_url": model_server.url}
    )
    add_config(rig, 'fallback = ["second:m"]\n', first=True)
    for text in ("one", "two"):
        model_server.add_responses(model_server.message(text))
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("main", "-m", "large")).wait_end()
        assert (ended.code, ended.out) == (0, "one\n"), ended.err
        again = await (await rig.resume("-p", "once more")).wait_end()
    assert (again.code, again.out) == (0, "two\n"), again.err
    assert len(rig.bodies(ProviderFallback)) == 1
    assert [seen.json["model"] for seen in model_server.requests] == ["m", "m"]


async def test_a_bad_request_is_not_carried_to_another_provider(rig, model_server):
    configure(
        rig, main={"base_url": model_server.url}, second={"base_url": "http://127.0.0.1:10/v1"}
    )
    add_config(rig, 'fallback = ["second:m"]\n', first=True)
    model_server.add_error(400, {"message": "no such parameter"})
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("main", "-m", "large")).wait_end()
    assert ended.code == 5, ended.err
    assert "no such parameter" in rig.completed.message
    assert not rig.bodies(ProviderFallback)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('fallback = ["nobody:m"]\n', "config.toml, line 1, fallback: no provider is called"),
        ('fallback = ["secnd:m"]\n', "did you mean `second`"),
        ('fallback = ["second:m", "second:m"]\n', "comes twice"),
        ('fallback = ["main:large"]\n', "that would be a loop"),
        ('fallback = ["second:"]\n', "is not `provider:model`"),
    ],
)
async def test_a_wrong_fallback_stops_the_run_before_it_starts(rig, model_server, text, words):
    configure(rig, main={"base_url": model_server.url}, second={"base_url": model_server.url})
    add_config(rig, text, first=True)
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("main", "-m", "large")).wait_end()
    assert ended.code == 2, ended.err
    assert words in ended.err
    assert not rig.has_run


async def test_a_role_of_a_provider_that_is_not_there_is_named_with_file_and_line(
    rig, model_server
):
    configure(rig, main={"base_url": model_server.url})
    (rig.home / "agents").mkdir()
    (rig.home / "agents" / "scout.toml").write_text(
        'name = "scout"\ndescription = "Looks."\ndeveloper_instructions = "Look."\n'
        'model_provider = "maine"\n'
    )
    model_server.add_responses(spawn(agent_type="scout"))
    model_server.add_responses(model_server.message("done"))
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("main", "-m", "large")).wait_end()
    assert ended.code == 0, ended.err
    assert "scout.toml, line 4, model_provider: no provider is called `maine`" in ended.err
    assert "did you mean `main`" in model_server.requests[1].body.decode()
