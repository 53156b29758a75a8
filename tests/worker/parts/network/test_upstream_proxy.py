"""Which proxy of the environment is gone through for what, and that its password stays unsaid."""

import base64

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.proxy import NetworkTarget
from swarm.worker.parts.network.upstream_proxy import (
    InvalidUpstream,
    UpstreamFailed,
    UpstreamProxy,
    ask_for_tunnel,
    read_upstreams,
    upstream_for,
)

ONE, OTHER = UpstreamProxy(host="one.test", port=3128), UpstreamProxy(host="10.0.0.9", port=1080)


def way(host, exempt="", protocol="https", port=443):
    upstreams = read_upstreams({"ALL_PROXY": "http://one.test:3128", "no_proxy": exempt})
    return upstream_for(NetworkTarget(host=host, port=port, protocol=protocol), upstreams)


def test_each_kind_has_its_variable_the_lower_case_first_and_all_for_the_rest():
    read = read_upstreams(
        {"http_proxy": "one.test:3128", "HTTP_PROXY": "http://x:1", "ALL_PROXY": "HTTP://10.0.0.9/"}
    )
    assert (read.plain, read.secure, read.faults) == (ONE, OTHER, ())
    for protocol, expected in (("http", ONE), ("https", OTHER), ("socks5_tcp", OTHER)):
        assert (
            upstream_for(NetworkTarget(host="a.org", port=1, protocol=protocol), read) == expected
        )
    nothing = read_upstreams({"HTTPS_PROXY": " "})
    assert upstream_for(NetworkTarget(host="a.org", port=1, protocol="https"), nothing) is None


@pytest.mark.parametrize(
    ("host", "exempt", "through"),
    [
        ("a.org", "", True),
        ("a.org", "*", False),
        ("a.org", "b.org, a.org", False),
        ("x.a.org", "a.org", False),
        ("x.a.org", ".a.org", False),
        ("x.a.org", "*.a.org", False),
        ("xa.org", "a.org", True),
        ("a.org", "A.ORG.", False),
        ("a.org", "a.org:443", False),
        ("a.org", "a.org:80", True),
        ("10.1.2.3", "10.0.0.0/8", False),
        ("11.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.1.2.3", False),
        ("2606::1", "2606::/16", False),
        ("2606::1", "[2606::1]", False),
        ("10.1.2.3", "2.3", True),
        ("localhost", "", False),
        ("x.localhost", "", False),
        ("127.0.0.9", "", False),
        ("::1", "", False),
        ("a.org", ",,..,:,/", True),
    ],
)
def test_no_proxy_is_honoured_and_this_machine_never_goes_through_one(host, exempt, through):
    assert way(host, exempt) == (ONE if through else None)


@given(st.text(max_size=30), st.sampled_from(("a.org", "10.1.2.3", "2606::1")))
def test_no_words_of_no_proxy_break_anything(exempt, host):
    assert way(host, exempt) in (ONE, None)


@given(st.text(max_size=60))
def test_an_address_is_read_or_said_to_be_unreadable_without_its_words(url):
    read = read_upstreams({"HTTP_PROXY": url}).plain
    assert read is None or isinstance(read, UpstreamProxy) or read.why.startswith("HTTP_PROXY ")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("socks5://me:s3cret@one.test:1", "HTTPS_PROXY names another kind of proxy than http://"),
        ("https://me:s3cret@one.test:1", "HTTPS_PROXY names another kind of proxy than http://"),
        ("http://me:s3cret@one.test:99999", "HTTPS_PROXY holds no address of a proxy"),
        ("http://me:s3cret@:80", "HTTPS_PROXY holds no address of a proxy"),
    ],
)
def test_one_that_cannot_be_followed_is_refused_and_never_bypassed(url, why):
    read = read_upstreams({"HTTPS_PROXY": url})
    assert read.secure == InvalidUpstream(why=why)
    assert read.faults == (why,)
    with pytest.raises(UpstreamFailed, match=why):
        upstream_for(NetworkTarget(host="a.org", port=443, protocol="https"), read)


def test_a_login_is_decoded_and_sent_as_it_was_meant():
    read = read_upstreams({"HTTP_PROXY": "http://m%40e:p%3Aw%2F@one.test:8"}).plain
    assert base64.b64decode(read.authorization.removeprefix(b"Basic ")) == b"m@e:p:w/"


ANSWERS = [
    (b"HTTP/1.1 200 OK\r\nx: y\r\n\r\nSSH-2.0", None),
    (b"HTTP/1.0 200 \r\n\r\nSSH-2.0", None),
    (b"HTTP/1.1 407 no\r\n\r\n", "wants other credentials"),
    (b"HTTP/1.1 403 no\r\n\r\n", "refuses: 403"),
    (b"HTTP/1.1 20", "hung up"),
    (b"", "hung up"),
    (b"SSH-2.0 what\r\n\r\n", "cannot be read"),
    (b"x" * 70_000, "hung up"),
]


@pytest.mark.parametrize(("answer", "fault"), ANSWERS)
@pytest.mark.parametrize("at_once", [True, False])
async def test_after_the_tunnel_the_first_byte_is_the_targets(answer, fault, at_once):
    ours, theirs = trio.socket.socketpair()
    with ours, theirs, trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            received = []

            async def play():
                received.append(await theirs.recv(4096))
                for part in [answer] if at_once else [answer[i : i + 7] for i in range(0, 60, 7)]:
                    if part:
                        await theirs.send(part)
                if fault:
                    theirs.shutdown(trio.socket.SHUT_WR)

            if not at_once and len(answer) > 60:
                return
            nursery.start_soon(play)
            target = NetworkTarget(host="2606::1", port=22, protocol="https")
            upstream = UpstreamProxy(host="u", port=1, authorization=b"Basic eA==")
            if fault is None:
                await ask_for_tunnel(ours, target, upstream)
                got = b""
                while len(got) < 7:
                    got += await ours.recv(7)
                assert got == b"SSH-2.0"
            else:
                with pytest.raises(UpstreamFailed, match=fault):
                    await ask_for_tunnel(ours, target, upstream)
    assert received[0].split(b"\r\n")[:3] == [
        b"CONNECT [2606::1]:22 HTTP/1.1", b"Host: [2606::1]:22", b"Proxy-Authorization: Basic eA=="
    ]  # fmt: skip
