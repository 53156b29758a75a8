"""Providers that fail: the run says what to do; and a recording that stands in for one."""

import re
import socket

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.events import CallBegan, CallEnded, TurnFailed
from swarm.mailbox.protocol.records import ItemRecorded

pytestmark = pytest.mark.live
LIMIT_S = 30


def http(url: str, **settings: object) -> tuple[str, ...]:
    """The options that make `url` the provider `bench`."""
    told = {"base_url": url, "name": "bench", **settings}
    pairs = [f"model_providers.bench.{key}={msgspec.json.encode(value).decode()}"
             for key, value in told.items()]  # fmt: skip
    return tuple(word for pair in pairs for word in ("-c", pair))


async def start(rig, url: str, **settings: object):
    return await rig.run("bench", "-m", "some-model", *http(url, **settings))


async def test_a_wrong_key_ends_the_run_and_names_the_variable(rig, model_server):
    rig.environment["BENCH_KEY"] = "sk-wrong-and-secret"
    for _ in range(3):
        model_server.add_error(401, {"message": "bad key sk-wrong-and-secret"})
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url, env_key="BENCH_KEY")
        ended = await run.wait_end()
    assert ended.code == 5, ended.err
    assert rig.completed.status == "provider"
    assert "BENCH_KEY" in rig.completed.message
    assert model_server.requests[0].headers["authorization"] == "Bearer sk-wrong-and-secret"
    assert len(model_server.requests) == 1  # a wrong key is not tried again
    written = b"".join(path.read_bytes() for path in rig.places.folder.rglob("*") if path.is_file())
    assert b"sk-wrong-and-secret" not in written
    assert "sk-wrong-and-secret" not in ended.err
    assert rig.alive() == {}


async def test_the_configuration_moves_openai_though_the_gateway_was_started_before_it_was_read(
    rig, model_server
):
    rig.environment["OPENAI_API_KEY"] = "sk-of-the-environment"
    (rig.home / "config.toml").write_text(f'openai_base_url = "{model_server.url}"\n')
    model_server.add_responses(model_server.message("from there"))
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("openai", "-m", "some-model")).wait_end()
    assert (ended.code, ended.out) == (0, "from there\n"), ended.err
    assert model_server.requests[0].headers["authorization"] == "Bearer sk-of-the-environment"


async def test_nobody_listening_ends_the_run_and_names_the_address(rig):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: refuses
        port = taken.getsockname()[1]
        with trio.fail_after(LIMIT_S):
            retries = {"request_max_retries": 1, "stream_max_retries": 0}
            run = await start(rig, f"http://127.0.0.1:{port}/v1", **retries)
            ended = await run.wait_end()
    assert ended.code == 5, ended.err
    assert f"127.0.0.1:{port}" in rig.completed.message
    assert rig.alive() == {}


async def test_a_server_that_talks_nonsense_ends_the_run(rig, model_server):
    for _ in range(8):
        model_server.add(b"\x00\xff<html>not a model</html>\n\n" * 20)
    with trio.fail_after(LIMIT_S):
        retries = {"request_max_retries": 1, "stream_max_retries": 1}
        ended = await (await start(rig, model_server.url, **retries)).wait_end()
    assert ended.code == 5, ended.err
    (failed,) = rig.bodies(TurnFailed)
    assert failed.kind in {"bad_response", "stream_disconnected"}
    assert "127.0.0.1" in rig.completed.message
    assert rig.alive() == {}


async def test_a_hung_stream_is_cut_and_asked_again(rig, model_server):
    model_server.add(
        model_server.sse({"type": "response.created", "response": {"id": "r"}}), "hang"
    )
    model_server.add_responses(model_server.message("whole"))
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url, stream_idle_timeout_ms=300)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert ended.out == "whole\n"
    assert len(model_server.requests) == 2


async def test_a_recording_replays_the_same_tree_twice_without_its_provider(rig):
    tape = rig.folder / "tape.jsonl"
    calls = [
        {"name": "exec_command", "arguments": {"cmd": cmd}} for cmd in ("echo one", "echo two")
    ]
    (rig.work / "task.md").write_text(
        "---\nfan_out:\n  role: default\n  each: {lines: \"printf 'a\\\\nb\\\\n'\"}\n"
        "  prompt: 'Explain {item}.'\n---\nSum it up.\n"
    )
    provider = rig.script(
        {"agent": "/root/*", "calls": calls},
        {"agent": "/root/*", "text": "seen by {agent}", "repeat": "forever"},
        {"agent": "/root", "text": "sum: {last_user}"},
    )
    run = ("run", "task.md", "-s", "danger-full-access", "--plain")
    trees = []
    with trio.fail_after(LIMIT_S):
        for source in (
            ("--provider", provider, "--record", str(tape)),
            *[("--replay", str(tape))] * 2,
        ):
            ended = await (await rig.start(*run, *source)).wait_end()
            assert ended.code == 0, ended.err
            assert "differs" not in ended.err
            trees.append((ended.out, tree_of(rig)))
            (rig.folder / "script.yaml").unlink(missing_ok=True)
            rig.forget_run()
    assert trees[0] == trees[1] == trees[2]
    assert set(trees[0][1]) == {"/root", "/root/a", "/root/b"}


def tree_of(rig) -> dict[str, tuple[list[object], list[str]]]:
    """Each agent's items in order and its calls in any, without ids and times."""
    found: dict[str, tuple[list[object], list[str]]] = {}
    for record in rig.records():
        items, calls = found.setdefault(record.agent, ([], [])) if record.agent else ([], [])
        match record.body:
            case ItemRecorded(item=item, source=source):
                plain = re.sub(rb"Wall time: [\d.]+", b"", msgspec.json.encode(item))
                items.append((source, msgspec.json.decode(plain) | {"id": None}))
            case CallBegan(tool=tool, detail=detail):
                calls.append(f"{tool} {detail}")
            case CallEnded(status=status, output=output):
                calls.append(f"{status} {output}")
            case _:
                pass
    for _, calls in found.values():
        calls.sort()
    return found
