"""Every client ends on a stop signal, whatever its stdin does: here it stays open."""

import json
import signal
import subprocess

import pytest
import trio

from support.paths import ROOT

pytestmark = pytest.mark.live
LIMIT_S = 40
HELLO = {
    "acp": {"protocolVersion": 1, "clientCapabilities": {}},
    "mcp-server": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


async def open_client(rig, *words):
    return rig.adopt(
        await trio.lowlevel.open_process(
            [str(ROOT / ".venv" / "bin" / "swarm"), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=rig.environment,
            cwd=rig.work,
        )
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("name", HELLO)
async def test_a_server_on_stdio_ends_on_a_signal_while_its_input_stays_open(rig, name, number):
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO[name]}
    with trio.fail_after(LIMIT_S):
        client = await open_client(rig, name)
        await client.stdin.send_all(json.dumps(request).encode() + b"\n")
        assert b'"id":1' in (await client.stdout.receive_some(65536)).replace(b" ", b"")
        client.send_signal(number)
        await client.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("words", [("exec", "-"), ("run", "--prompt-file=-"), ("send", "-")])
async def test_a_command_that_waits_for_its_input_ends_on_a_signal(rig, words, number):
    with trio.fail_after(LIMIT_S):
        client = await open_client(rig, *words)
        await rig.wait(lambda: b"swarm" in _command_of(client.pid))
        client.send_signal(number)
        await client.wait()


def _command_of(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
