"""PolledSocket against the traps of ZMQ_FD, with real sockets."""

import itertools
import select
from contextlib import ExitStack, contextmanager

import pytest
import trio
import zmq

from swarm.mailbox.delivery.polled import PolledSocket, bind, connect, open_socket
from swarm.mailbox.delivery.zmq_context import EndpointUnavailable


@contextmanager
def two_ends(folder):
    endpoint = f"ipc://{folder}/s"
    with ExitStack() as stack:
        router = stack.enter_context(open_socket("router"))
        dealer = stack.enter_context(open_socket("dealer"))
        router.raw.router_mandatory = 1
        dealer.raw.set(zmq.ROUTING_ID, b"d")
        bind(router, endpoint)
        connect(dealer, endpoint)
        yield router, dealer


def wait_edge(sock: PolledSocket) -> None:
    """Block the whole loop until the I/O thread has signalled the fd."""
    poller = select.poll()
    poller.register(sock.raw.get(zmq.FD), select.POLLIN)
    assert poller.poll(5000)


def has_edge(sock: PolledSocket) -> bool:
    poller = select.poll()
    poller.register(sock.raw.get(zmq.FD), select.POLLIN)
    return bool(poller.poll(0))


def swallow_edge(router: PolledSocket, dealer: PolledSocket) -> None:
    """The trap: mail is there, and no edge will tell."""
    while dealer.has_message() or has_edge(dealer):
        pass  # nothing is left to announce
    router.send(b"d", b"mail")
    wait_edge(dealer)
    dealer.raw.send(b"a bare send, without the waking")
    assert dealer.has_message()
    assert not has_edge(dealer)


async def test_a_send_swallows_the_edge_and_so_must_wake_the_receiver(tmp_path):
    with two_ends(tmp_path) as (router, dealer), trio.fail_after(10):
        dealer.send(b"hello")
        assert await router.receive() == [b"d", b"hello"]
        got = []

        async def read():
            got.append(await dealer.receive())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            swallow_edge(router, dealer)
            dealer.send(b"ours")
        assert got == [[b"mail"]]


async def test_a_send_swallows_the_edge_and_a_pump_takes_the_mail_all_the_same(tmp_path):
    with two_ends(tmp_path) as (router, dealer), trio.fail_after(10):
        dealer.send(b"hello")
        await router.receive()
        got = []
        async with trio.open_nursery() as nursery:
            dealer.start_pump(nursery, got.append)
            await trio.testing.wait_all_tasks_blocked()
            swallow_edge(router, dealer)
            dealer.send(b"ours")
            await trio.testing.wait_all_tasks_blocked()
            assert got == [[b"mail"]]
            nursery.cancel_scope.cancel()


async def test_a_pump_answers_from_within_and_lets_others_run_under_a_flood(tmp_path):
    count = 3000
    with two_ends(tmp_path) as (router, dealer), trio.fail_after(30):
        dealer.send(b"hello")
        await router.receive()
        taken, answers, turns, done = [], [], [], trio.Event()

        def answer(message):
            taken.append(message)
            dealer.send(b"answer to " + message[0])

        def count_answers(message):
            answers.append(message)
            if len(answers) == count:
                done.set()

        async def others():
            while not done.is_set():
                turns.append(len(taken))
                await trio.lowlevel.checkpoint()

        for number in range(count):
            router.send(b"d", b"%d" % number)
        async with trio.open_nursery() as nursery:
            dealer.start_pump(nursery, answer)
            router.start_pump(nursery, count_answers)
            nursery.start_soon(others)
            await done.wait()
            nursery.cancel_scope.cancel()
    assert taken == [[b"%d" % number] for number in range(count)]
    assert answers == [[b"d", b"answer to %d" % number] for number in range(count)]
    at_once = max(later - now for now, later in itertools.pairwise(turns))
    assert at_once <= 128  # two batches: the tasks of a tick run in any order


async def test_a_busy_two_way_exchange_never_stalls(tmp_path):
    count = 2000
    with two_ends(tmp_path) as (router, dealer), trio.fail_after(30):
        dealer.send(b"hello")
        await router.receive()

        async def read(sock):
            for _ in range(count):
                await sock.receive()

        async def write(sock, *frames):
            for number in range(count):
                assert sock.send(*frames)
                if number % 7 == 0:
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, router)
            nursery.start_soon(read, dealer)
            nursery.start_soon(write, router, b"d", b"x" * 50)
            nursery.start_soon(write, dealer, b"y" * 50)


async def test_a_message_after_a_cancelled_receive_is_not_lost(tmp_path):
    with two_ends(tmp_path) as (router, dealer), trio.fail_after(10):
        for number in range(20):
            with trio.move_on_after(0.001):
                await router.receive()
                pytest.fail("nothing was sent yet")
            dealer.send(b"%d" % number)
            assert await router.receive() == [b"d", b"%d" % number]


async def test_a_receive_cancelled_while_mail_is_there_leaves_it_there(tmp_path):
    with two_ends(tmp_path) as (router, dealer), trio.fail_after(10):
        dealer.send(b"mail")
        await router.wait_message()
        with trio.CancelScope() as scope:
            scope.cancel()
            await router.receive()
        assert scope.cancelled_caught
        assert await router.receive() == [b"d", b"mail"]
        assert not router.has_message()


async def test_a_send_to_a_peer_that_is_not_connected_says_so(tmp_path):
    with two_ends(tmp_path) as (router, _):
        assert not router.send(b"nobody", b"mail")


def test_all_sockets_of_a_process_share_one_context_which_ends_with_the_last():
    with open_socket("dealer") as first, open_socket("dealer") as second:
        context = first.raw.context
        assert second.raw.context is context
    assert context.closed
    with open_socket("dealer") as third:
        assert third.raw.context is not context


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("ipc:///" + "x" * 108, "over 107 bytes"),
        ("ipc:///no/such/folder/s", "No such file"),
        ("nonsense", "nonsense"),
    ],
)
def test_an_endpoint_that_cannot_be_bound_is_named_in_the_error(endpoint, words):
    with open_socket("router") as sock, pytest.raises(EndpointUnavailable, match=words):
        bind(sock, endpoint)


async def test_a_pump_that_runs_once_more_after_its_socket_is_closed_ends_without_an_error(
    tmp_path,
):
    for round_ in range(20):  # which of two tasks that can run runs first is chance
        folder = tmp_path / str(round_)
        folder.mkdir()
        with two_ends(folder) as (router, dealer), trio.fail_after(10):
            dealer.send(b"hello")
            await router.receive()
            async with trio.open_nursery() as nursery:
                dealer.start_pump(nursery, list)
                await trio.testing.wait_all_tasks_blocked()
                router.send(b"d", b"mail")
                wait_edge(dealer)
                await trio.lowlevel.checkpoint()  # the pump can run now
                nursery.cancel_scope.cancel()
                dealer.raw.close()
