"""Commands reach allowed hosts through the proxy of the supervisor's environment, where that is
allowed; its password reaches nobody else.
"""

import base64
import shutil
import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio

from support.proxy_testbed import RecordingServer, local, open_proxy_testbed, serving
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.values.limits import NetworkPolicy

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]
PEM = str(Path(__file__).with_name("index_test.pem"))
PASSWORD = "hush/hush"
LOGIN = "Basic " + base64.b64encode(f"me:{PASSWORD}".encode()).decode()


class Upstream(BaseHTTPRequestHandler):
    """A real forwarding proxy that takes every name for this machine."""

    server: RecordingServer

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.is_refused():
            return
        parts = urlsplit(self.path)
        with socket.create_connection(("127.0.0.1", parts.port)) as server:
            server.sendall(
                f"GET {parts.path} HTTP/1.1\r\nHost: {self.headers['host']}\r\n"
                "Connection: close\r\n\r\n".encode()
            )
            while data := server.recv(65536):
                self.wfile.write(data)
        self.close_connection = True

    def do_CONNECT(self):
        if self.is_refused():
            return
        server = socket.create_connection(("127.0.0.1", int(self.path.rpartition(":")[2])))
        self.wfile.write(b"HTTP/1.1 200 Fine\r\nVia: upstream\r\n\r\n")

        def up():
            with suppress(OSError):
                while data := self.connection.recv(65536):
                    server.sendall(data)
                server.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=up)
        thread.start()
        with server, suppress(OSError):
            while data := server.recv(65536):
                self.wfile.write(data)
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        thread.join()
        self.close_connection = True

    def is_refused(self):
        self.server.received.append(f"{self.command} {self.path}")
        if self.headers["proxy-authorization"] == LOGIN:
            return False
        self.send_response(407)
        self.send_header("proxy-authenticate", 'Basic realm="secret place"')
        self.send_header("content-length", "0")
        self.end_headers()
        return True

    def log_message(self, *args):
        pass


@contextmanager
def upstream(*, password=PASSWORD, **more):
    """The proxy, and the variables that name it."""
    server = RecordingServer(("127.0.0.1", 0), Upstream)
    server.received = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    secret = password.replace("/", "%2F")
    url = f"http://me:{secret}@127.0.0.1:{server.server_address[1]}"
    try:
        yield server.received, {"HTTP_PROXY": url, "https_proxy": url, **more}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def through(*allow, **more):
    return local(*allow, upstream=True, **more)


def tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


async def test_plain_requests_and_tunnels_go_through_it_and_the_password_stays_there():
    with upstream() as (heard, variables), serving() as server, serving(tls=tls()) as secure:
        port, other = server.server_address[1], secure.server_address[1]
        async with open_proxy_testbed(variables) as testbed:
            testbed.names["index.test"] = ("127.0.0.1",)
            shutil.copy(PEM, testbed.home / "work")
            script = (
                f"curl -sSv http://index.test:{port}/a 2>&1; env; "
                f"curl -sSv --cacert index_test.pem https://index.test:{other}/b 2>&1; "
                f"curl -sS --noproxy '' --socks5-hostname 127.0.0.1:3128 http://index.test:{port}/c"
            )
            code, said, blocked = await testbed.run(script, through("index.test"))
            events = repr(testbed.events)
    assert (code, blocked) == (0, [])
    assert heard == [
        f"GET http://index.test:{port}/a", f"CONNECT index.test:{other}",
        f"CONNECT index.test:{port}",
    ]  # fmt: skip
    for path, at in (("a", port), ("b", other), ("c", port)):
        assert f"GET /{path} host=index.test:{at}" in said
    for secret in (PASSWORD, PASSWORD.replace("/", "%2F"), LOGIN.split()[1]):
        assert secret not in said + events


async def test_a_name_that_only_it_knows_is_reached_if_it_is_allowed_and_not_otherwise():
    with upstream() as (heard, variables), serving() as server:
        url = f"http://far.test:{server.server_address[1]}/"
        async with open_proxy_testbed(variables) as testbed:
            policy = NetworkPolicy(allow=("far.test:*",), upstream=True)
            code, said, _ = await testbed.run(f"curl -sS {url}", policy)
            assert (code, said) == (0, f"GET / host=far.test:{server.server_address[1]}")
            del heard[:]
            for refused, name in (
                (NetworkPolicy(upstream=True), "far.test"),
                (
                    NetworkPolicy(allow=("far.test:*",), deny=("far.test",), upstream=True),
                    "far.test",
                ),
                (NetworkPolicy(allow=("far.test:*",)), "far.test"),  # not followed: nobody knows it
            ):
                _, _, blocked = await testbed.run(f"curl -sS {url}", refused)
                assert [host for host, _ in blocked] == [name]
            assert heard == []


async def test_what_is_private_here_is_refused_before_it_is_asked():
    with upstream() as (heard, variables):
        async with open_proxy_testbed(variables) as testbed:
            testbed.names["inside.test"] = ("10.0.0.7",)
            policy = NetworkPolicy(allow=("*",), upstream=True)
            curl = "curl -sS --noproxy '' -x http://127.0.0.1:3128"
            script = f"{curl} http://inside.test/; {curl} http://169.254.169.254/; "
            script += f"{curl} https://10.0.0.1/; {curl} http://localhost/"
            _, _, blocked = await testbed.run(script, policy)
    assert [reason for _, reason in blocked] == ["not_allowed_local"] * 4
    assert heard == []


async def test_without_the_policys_word_and_for_no_proxy_the_way_is_direct():
    with upstream(NO_PROXY="index.test") as (heard, variables), serving() as server:
        url = f"http://index.test:{server.server_address[1]}/"
        async with open_proxy_testbed(variables) as testbed:
            testbed.names["index.test"] = ("127.0.0.1",)
            for policy in (local("index.test"), through("index.test")):
                _, said, _ = await testbed.run(f"curl -sS {url}", policy)
                assert said.startswith("GET / host=index.test")
    assert heard == []


async def test_its_refusal_is_told_in_our_words_and_nothing_goes_around_it():
    with upstream(password="wrong") as (heard, variables), serving() as server:
        port = server.server_address[1]
        async with open_proxy_testbed(variables) as testbed:
            testbed.names["index.test"] = ("127.0.0.1",)
            script = (
                f"curl -sSD - http://index.test:{port}/; echo; "
                f"curl -sS https://index.test:{port}/ 2>&1"
            )
            _, said, _ = await testbed.run(script, through("index.test"))
    assert len(heard) == 2
    assert server.received == []
    assert said.startswith("HTTP/1.1 502")
    assert "the upstream proxy wants other credentials than the environment's" in said
    assert "secret place" not in said
    assert "response 502" in said


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("socks5://me:hush@127.0.0.1:1", "another kind of proxy"),
        ("http://me:hush@127.0.0.1:1", "the upstream proxy cannot be reached"),
    ],
)
async def test_one_that_cannot_be_used_closes_the_way(url, words):
    with serving() as server:
        async with open_proxy_testbed({"ALL_PROXY": url}) as testbed:
            testbed.names["index.test"] = ("127.0.0.1",)
            at = f"http://index.test:{server.server_address[1]}/"
            _, said, _ = await testbed.run(f"curl -sS {at}", through("index.test"))
            warned = [one.message for one in testbed.events if isinstance(one, Warned)]
    assert words in said
    assert server.received == []
    assert bool(warned) == url.startswith("socks5")
    assert "hush" not in said + "".join(warned)


async def test_in_a_run_it_is_followed_and_neither_agent_nor_record_holds_the_password(rig):
    with trio.fail_after(60), upstream() as (heard, variables), serving() as server:
        url = f"http://index.test:{server.server_address[1]}/"
        seen = "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; env"
        arguments = {"cmd": f"curl -sS -m 20 {url}; {seen}", "yield_time_ms": 30_000}
        script = rig.script(
            {"calls": [{"name": "exec_command", "arguments": arguments}]}, {"text": "done"}
        )
        rig.environment |= variables
        words = ("-c", "network.enabled=true", "-c", "network.allow_upstream_proxy=true")
        started = await rig.run(
            script, *words, "--allow-domain", "index.test:*",
            sandbox="workspace-write",
        )  # fmt: skip
        ended = await started.wait_end()
    assert ended.code == 0, ended.err
    assert heard == [f"GET {url}"]
    assert "GET / host=index.test" in rig.outputs()[0]
    kept = "".join(
        path.read_text("utf-8", "replace") for path in rig.places.folder.rglob("*.json*")
    )
    assert kept
    for secret in ("hush%2Fhush", LOGIN.split()[1]):
        assert secret not in kept + rig.outputs()[0] + ended.err + ended.out


async def test_no_agent_has_the_password_even_where_nothing_is_sandboxed(rig):
    with trio.fail_after(60):
        script = rig.script(
            {"calls": [{"name": "exec_command", "arguments": {"cmd": "env"}}]}, {"text": "done"}
        )
        rig.environment |= {"HTTP_PROXY": "http://me:hush@127.0.0.1:9", "no_proxy": "a.test"}
        words = ("-c", "network.enabled=true", "-c", "network.allow_upstream_proxy=true")
        ended = await (await rig.run(script, *words)).wait_end()
    assert ended.code == 0, ended.err
    assert "SWARM_COMMAND=" in rig.outputs()[0]
    assert "hush" not in rig.outputs()[0]
    assert "no_proxy" not in rig.outputs()[0]
