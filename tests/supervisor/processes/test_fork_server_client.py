"""When a fork-server counts as dead. The test is the server; the clock is its own."""

import os
import socket
import subprocess
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from swarm.mailbox.protocol.forking import (
    ProcessStarted,
    ServerReady,
    StartFailed,
    StartProcess,
    decode_fork_order,
    encode_fork,
)
from swarm.supervisor.processes.early_start import LaunchedProcess
from swarm.supervisor.processes.fork_server_client import ForkServerClient, ForkServerGone
from swarm.supervisor.processes.process_types import SpawnError

ORDER = StartProcess(request=0, title="swarm: /root [default] 01234567")
SILENCE_S = 3.0


class Server:
    """The other end of the channel."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel

    def take_order(self) -> int:
        order = decode_fork_order(self.channel.recv(65536))
        assert isinstance(order, StartProcess)
        return order.request

    async def say(self, report: ProcessStarted | ServerReady | StartFailed, *fds: int) -> None:
        socket.send_fds(self.channel, [encode_fork(report)], fds)
        await wait_all_tasks_blocked()


@pytest.fixture
def process():
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


@asynccontextmanager
async def opened_link(process):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.close(writer)
    pidfd = os.pidfd_open(process.pid)
    link = ForkServerClient(
        LaunchedProcess(pid=process.pid, pidfd=pidfd, channel=ours, stderr_fd=reader)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run)
        with theirs:
            yield link, Server(theirs)
        nursery.cancel_scope.cancel()
    os.close(pidfd)


async def ask(link, outcomes):
    try:
        outcomes.append(await link.start(ORDER, (), silence_s=SILENCE_S))
    except SpawnError as error:
        outcomes.append(error)


async def test_one_that_answers_others_is_busy_and_not_dead(process, mock_clock):
    first, second = [], []
    async with opened_link(process) as (link, server), trio.open_nursery() as nursery:
        nursery.start_soon(ask, link, first)
        await wait_all_tasks_blocked()
        nursery.start_soon(ask, link, second)
        await wait_all_tasks_blocked()
        one, two = server.take_order(), server.take_order()
        mock_clock.jump(SILENCE_S - 1)
        await server.say(StartFailed(request=one, reason="no"))
        assert [str(error) for error in first] != []
        mock_clock.jump(SILENCE_S - 1)  # longer ago than it may be silent, but it spoke since
        await wait_all_tasks_blocked()
        assert second == []
        handle = os.pidfd_open(process.pid)
        await server.say(ProcessStarted(request=two, pid=process.pid), handle)
        os.close(handle)
        assert second[0].pid == process.pid
        os.close(second[0].pidfd)


async def test_one_that_says_nothing_at_all_is_dead(process, mock_clock):
    outcomes = []
    async with opened_link(process) as (link, server), trio.open_nursery() as nursery:
        nursery.start_soon(ask, link, outcomes)
        await wait_all_tasks_blocked()
        server.take_order()
        mock_clock.jump(SILENCE_S - 0.1)
        await wait_all_tasks_blocked()
        assert outcomes == []
        mock_clock.jump(0.2)
        await wait_all_tasks_blocked()
        assert isinstance(outcomes[0], ForkServerGone)
        assert "said nothing for 3 s" in str(outcomes[0])


async def test_it_takes_no_orders_before_it_says_that_it_is_ready(process):
    async with opened_link(process) as (link, server):
        await wait_all_tasks_blocked()
        assert not link.ready.is_set()
        await server.say(ServerReady(preload_s=0.1))
        assert link.ready.is_set()


async def test_what_it_reports_after_nobody_waits_any_more_is_killed(process, mock_clock):
    outcomes = []
    async with opened_link(process) as (link, server), trio.open_nursery() as nursery:
        nursery.start_soon(ask, link, outcomes)
        await wait_all_tasks_blocked()
        number = server.take_order()
        mock_clock.jump(SILENCE_S + 1)
        await wait_all_tasks_blocked()
        handle = os.pidfd_open(process.pid)
        await server.say(ProcessStarted(request=number, pid=process.pid), handle)
        os.close(handle)
        assert await trio.to_thread.run_sync(process.wait) == -9
