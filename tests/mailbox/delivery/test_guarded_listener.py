"""The gate before a mailbox: a crowd of callers costs the listener nothing, a sandboxed one gets
no further."""

import os
import resource
import socket
import subprocess
import sys
from functools import partial

import pytest
import trio

from swarm.mailbox.delivery.dealer import open_dealer
from swarm.mailbox.delivery.guarded_listener import is_caller_allowed
from swarm.mailbox.delivery.router import open_router
from swarm.mailbox.delivery.zmq_context import EndpointUnavailable

# A listener with few descriptors. It says its letters, so that the test knows it lives.
LISTENER = """
import resource, sys, trio
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from swarm.mailbox.delivery.router import open_router
async def main():
    async with open_router(sys.argv[1], accept=lambda peer: 1) as server:
        print("up", flush=True)
        while True:
            message = await server.receive()
            server.acknowledge(message)
            print(message.body.decode(), flush=True)
trio.run(main)
"""


@pytest.fixture
def endpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return "ipc://mail"


async def line_of(stream):
    line = b""
    while not line.endswith(b"\n"):
        line += await stream.receive_some(1)
    return line


def half_open(path):
    """A connection whose other side is never heard of again."""
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    while caller.connect_ex(path) != 0:
        os.sched_yield()  # its line is full for a moment
    return caller


async def test_a_thousand_half_open_connections_do_not_end_a_listener_with_few_descriptors(
    endpoint,
):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    callers = []
    argv = [sys.executable, "-P", "-c", LISTENER, endpoint]
    try:
        async with trio.open_nursery() as nursery:
            run = partial(trio.run_process, argv, stdout=subprocess.PIPE, check=False)
            listener: trio.Process = await nursery.start(run)
            assert listener.stdout is not None
            assert await line_of(listener.stdout) == b"up\n"
            callers = [half_open("mail") for _ in range(1000)]
            with trio.fail_after(30):
                async with open_dealer(endpoint, b"honest", epoch=1) as mailbox:
                    await mailbox.post(b"still here")
                    await mailbox.flush()
                assert await line_of(listener.stdout) == b"still here\n"
            assert listener.poll() is None
            listener.kill()
    finally:
        for caller in callers:
            caller.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_the_listeners_own_socket_has_no_name_and_the_gates_is_gone_at_the_end(endpoint):
    async with open_router(endpoint):
        assert os.listdir() == ["mail"]
    assert os.listdir() == []


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1])
def test_a_caller_of_whom_nobody_knows_stays_outside(pid):
    assert not is_caller_allowed(pid, 0)


def test_a_caller_is_let_in_who_has_no_more_filters_than_the_listener():
    assert is_caller_allowed(os.getpid(), 99)
    assert not is_caller_allowed(os.getpid(), -1)
    assert not is_caller_allowed(os.getpid(), None)


async def test_who_is_not_let_in_is_told_and_waits_for_nothing(endpoint, monkeypatch):
    monkeypatch.setattr(
        "swarm.mailbox.delivery.guarded_listener.is_caller_allowed", lambda pid, ours: False
    )
    with trio.fail_after(10):
        async with open_router(endpoint):
            with pytest.raises(EndpointUnavailable, match="system-call filter"):
                async with open_dealer(endpoint, b"x", epoch=1):
                    raise AssertionError


@pytest.mark.parametrize(
    "title", ["swarm: launcher of /root [default] 01234567", "swarm: sandbox ls"]
)
def test_who_connects_for_sandboxed_commands_is_not_let_in(title):
    script = "import setproctitle, sys; setproctitle.setproctitle(sys.argv[1]); print(); input()"
    words = [sys.executable, "-c", script, title]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as between:
        assert between.stdout is not None
        between.stdout.readline()
        assert not is_caller_allowed(between.pid, 99)
