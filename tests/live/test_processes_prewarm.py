"""The fork-server prepares itself in steps, beside its work: nobody waits for all of it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from swarm.mailbox.protocol.forking import (
    ProcessExited,
    ProcessStarted,
    ServerReady,
    StartProcess,
    decode_fork_report,
    encode_fork,
)

pytestmark = pytest.mark.live
LIMIT_S = 20
SERVER = """
import os, socket, sys
from swarm.worker.process import fork_server

channel_fd, lifeline_fd, told_fd = map(int, sys.argv[1:])
done = 0

def steps():
    global done
    while True:
        done += 1
        if done < 100:
            os.write(told_fd, b".")
        yield

fork_server.serve_orders(
    socket.socket(fileno=channel_fd),
    fork_server.ForkedChild(lambda *_: done, lifeline_fd),
    prepare=fork_server.PrewarmSteps(lambda: None, steps),
)
"""


class Server:
    """A fork-server whose preparation never ends; its children end with the steps done so far."""

    def __init__(self, channel: socket.socket, told_fd: int) -> None:
        self.channel, self.told_fd = channel, told_fd

    def order(self, *, is_service: bool = False) -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        order = StartProcess(request=1, title="swarm: x", is_service=is_service)
        socket.send_fds(self.channel, [encode_fork(order)], [nothing, nothing])
        os.close(nothing)

    def codes(self, count: int) -> list[int]:
        """With how many steps the next children have ended, in the order of their start."""
        started: list[int] = []
        ended: dict[int, int] = {}
        while len(ended) < count:
            packet, fds, _, _ = socket.recv_fds(self.channel, 4096, 1)
            for fd in fds:
                os.close(fd)
            report = decode_fork_report(packet)
            if isinstance(report, ProcessStarted):
                started.append(report.pid)
            elif isinstance(report, ProcessExited):
                ended[report.pid] = os.waitstatus_to_exitcode(report.status)
        return [ended[pid] for pid in started]


@contextmanager
def serving(orders: list[bool]) -> Iterator[Server]:
    """A server that finds these orders waiting: True is a service's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(LIMIT_S)
    reader, writer = os.pipe()
    told, tell = os.pipe()
    given = [theirs.fileno(), reader, tell]
    server = Server(ours, told)
    for is_service in orders:
        server.order(is_service=is_service)
    command = [sys.executable, "-P", "-c", SERVER, *map(str, given)]
    with ours, subprocess.Popen(command, pass_fds=given) as process:
        theirs.close()
        for fd in (reader, tell):
            os.close(fd)
        try:
            assert isinstance(decode_fork_report(ours.recv(4096)), ServerReady)
            yield server
            ours.shutdown(socket.SHUT_RDWR)
            assert process.wait(LIMIT_S) == 0
        finally:
            process.kill()
            for fd in (writer, told):
                os.close(fd)


def test_a_burst_waits_for_the_first_step_alone_and_each_of_a_long_row_for_one():
    with serving([True, *[False] * 43]) as server:
        assert server.codes(44) == [*[0] * 3, *[1] * 39, 2, 3]


def test_steps_go_on_while_nothing_is_ordered_and_an_order_does_not_wait_for_their_end():
    with serving([False]) as server:
        assert server.codes(1) == [0]
        assert os.read(server.told_fd, 1) == b"."
        server.order()
        (code,) = server.codes(1)
        assert code > 0
