"""Every client ends on a stop signal, whatever its stdin does: here it stays open."""

import json
import signal
import sys
from pathlib import Path

import pytest
import trio

from support.forked_programs import PipedCommand, Setting

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


def open_client(rig, *words):
    program = str(Path(sys.executable).with_name("swarm"))
    return rig.adopt(PipedCommand([program, *words], Setting(rig.environment, rig.work)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("name", HELLO)
async def test_a_server_on_stdio_ends_on_a_signal_while_its_input_stays_open(rig, name, number):
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO[name]}
    with trio.fail_after(LIMIT_S):
        client = open_client(rig, name)
        await client.stdin.send_all(json.dumps(request).encode() + b"\n")
        assert b'"id":1' in (await client.stdout.receive_some(65536)).replace(b" ", b"")
        client.send_signal(number)
        await client.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("words", [("exec", "-"), ("run", "--prompt-file=-"), ("send", "-")])
async def test_a_command_that_waits_for_its_input_ends_on_a_signal(rig, words, number):
    with trio.fail_after(LIMIT_S):
        client = open_client(rig, *words)
        await rig.wait(lambda: client.returncode is not None or has_begun(client.pid, words))
        client.send_signal(number)
        await client.wait()


def has_begun(pid, words):
    """Before that it is not yet a command, and ignores Ctrl-C."""
    return words[-1].encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
