"""Mailboxes between real processes: forks, kills, and one I/O thread for all sockets."""

import os
import signal
import sys
from functools import partial

import pytest
import trio

from swarm.mailbox.delivery.router import open_router

pytestmark = pytest.mark.live

# Opens two mailboxes before and after a fork, and tells how many threads the process has.
_CHILD = """
import os, sys, trio
from contextlib import AsyncExitStack
from swarm.mailbox.delivery.dealer import open_dealer
endpoints, mode = sys.argv[1:3], sys.argv[3]

async def live(name):
    async with AsyncExitStack() as stack:
        boxes = [
            await stack.enter_async_context(open_dealer(endpoint, name, epoch=1))
            for endpoint in endpoints
        ]
        threads = len(os.listdir("/proc/self/task"))
        for box in boxes:
            await box.post(b"%d" % threads)
        for box in boxes:
            await box.flush()
        if mode == "stay":
            await trio.sleep_forever()

async def before_the_fork():
    async with open_dealer(endpoints[0], b"parent", epoch=1):
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-P", "-c", "pass"])
        os.wait()

if mode == "fork":
    trio.run(before_the_fork)
    if os.fork() == 0:
        trio.run(live, b"child")
        os._exit(0)
    os.wait()
else:
    trio.run(live, b"child")
"""


async def first_messages(endpoints, mode, *, after):
    """Run the child with two servers; call `after(process, servers)` when it has written."""
    argv = [sys.executable, "-P", "-c", _CHILD, *endpoints, mode]
    with trio.fail_after(30):
        async with (
            open_router(endpoints[0]) as one,
            open_router(endpoints[1]) as two,
            trio.open_nursery() as nursery,
        ):
            for server in (one, two):
                server.admit(b"child", epoch=1)
            process = await nursery.start(partial(trio.run_process, argv, check=False))
            bodies = []
            for server in (one, two):
                message = await server.receive()
                server.acknowledge(message)
                bodies.append(message.body)
            await after(process, (one, two))
            await process.wait()
    return process.returncode, bodies


@pytest.fixture
def endpoints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return ["ipc://one", "ipc://two"]


async def nothing(process, servers):
    pass


@pytest.mark.parametrize("mode", ["plain", "fork"])
async def test_a_process_with_two_mailboxes_has_one_context_also_after_a_fork(endpoints, mode):
    code, bodies = await first_messages(endpoints, mode, after=nothing)
    assert code == 0
    assert bodies == [b"3", b"3"]  # its own, libzmq's reaper and one I/O thread


async def test_mail_for_a_killed_process_comes_back(endpoints):
    async def kill(process, servers):
        one, _ = servers
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        for number in range(20):
            await one.post(b"child", b"%d" % number)
        assert one.dismiss(b"child") == tuple(b"%d" % number for number in range(20))
        assert one.statistics().unacknowledged == 0

    code, _ = await first_messages(endpoints, "stay", after=kill)
    assert code == -signal.SIGKILL


async def test_a_stopped_process_holds_no_more_than_the_window(endpoints):
    async def stop(process, servers):
        one, _ = servers
        os.kill(process.pid, signal.SIGSTOP)
        for _ in range(64):
            await one.post(b"child", b"x")
        with trio.move_on_after(0.1) as patience:
            await one.post(b"child", b"one too many")
        assert patience.cancelled_caught
        before = one.statistics().sent
        for _ in range(5000):
            one.send_transient(b"child", b"delta")
        assert one.statistics().sent == before
        os.kill(process.pid, signal.SIGKILL)

    await first_messages(endpoints, "stay", after=stop)
