"""What the proxy promises of requests holds to the byte: heads, bodies, methods, ports."""

import shutil
import ssl
from pathlib import Path

import pytest

from support.proxy_testbed import local, open_proxy_testbed, serving
from swarm.mailbox.protocol.values.limits import NetworkPolicy

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]
PEM = str(Path(__file__).with_name("index_test.pem"))
CODE = "curl -sS -o /dev/null -w '%{http_code}\\n'"
LONG = "$(head -c {size} /dev/zero | tr '\\0' a)"


def tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


@pytest.mark.parametrize(
    "how", ['-H "X-Pad: {long}" {url}/', "{url}/{long}", '-p --proxy-header "X-Pad: {long}" {url}/']
)
async def test_a_head_over_64_kib_is_refused_wherever_its_bytes_stand(how):
    async with open_proxy_testbed() as testbed:
        with serving() as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            url = f"http://index.test:{server.server_address[1]}"
            for size, reached in ((60_000, True), (100_000, False)):
                script = f"{CODE} {how.format(long=LONG.format(size=size), url=url)} 2>&1"
                _, said, _ = await testbed.run(script, local("index.test"))
                assert bool(server.received) is reached, (size, said)
                assert reached or "431" in said
                del server.received[:]


async def test_blanks_count_for_a_head_as_much_as_letters():
    async with open_proxy_testbed() as testbed:
        script = (
            r"exec 9<>/dev/tcp/127.0.0.1/3128; "
            r"printf 'GET http://a.test/ HTTP/1.1\r\nhost: a.test\r\nx:' >&9; "
            r"head -c 100000 /dev/zero | tr '\0' ' ' >&9; printf 'y\r\n\r\n' >&9; head -c 12 <&9"
        )
        _, said, _ = await testbed.run(script, NetworkPolicy(allow=("*",)))
        assert said == "HTTP/1.1 431"


async def test_after_an_answer_the_next_head_has_its_whole_64_kib():
    async with open_proxy_testbed() as testbed:
        with serving() as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            url = f"http://index.test:{server.server_address[1]}"
            pad = LONG.format(size=60_000)
            script = f'{CODE} -H "X-Pad: {pad}" {url}/a --next {CODE[5:]} -H "X-Pad: {pad}" {url}/b'
            _, said, _ = await testbed.run(script, local("index.test"))
    assert said.split() == ["200", "200"]
    assert server.received == ["GET /a", "GET /b"]


BODIES = [
    ("-X GET -d secret", "Request body not allowed in limited mode."),
    ("-X OPTIONS -H 'Transfer-Encoding: chunked' -d secret", "Request body not allowed"),
    ("-X GET -H 'X-HTTP-Method-Override: DELETE'", "Method not allowed in limited mode."),
    ("-X DELETE -H 'X-HTTP-Method-Override: GET'", "Method not allowed in limited mode."),
    (
        "-X GET -H 'X-HTTP-Method-Override: GET' -H 'X-Method-Override: DELETE'",
        "Method not allowed in limited mode.",
    ),
]


@pytest.mark.parametrize(("words", "answer"), BODIES)
async def test_limited_mode_carries_no_body_and_no_method_in_disguise(words, answer):
    async with open_proxy_testbed() as testbed:
        with serving() as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            url = f"http://index.test:{server.server_address[1]}"
            script = f"curl -sS {words} {url}/a; echo; curl -sS {url}/b"
            _, said, blocked = await testbed.run(script, local("index.test", mode="limited"))
    assert answer in said
    assert server.received == ["GET /b"]
    assert len(blocked) == 1


@pytest.mark.parametrize(("words", "answer"), BODIES)
async def test_within_an_opened_tunnel_it_carries_none_either(words, answer, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", PEM)
    async with open_proxy_testbed(opens=True) as testbed:
        with serving(tls=tls()) as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            url = f"https://index.test:{server.server_address[1]}"
            policy = local("index.test", mode="limited", mitm=True)
            pad = LONG.format(size=100_000)
            script = (
                f'curl -sS {words} {url}/a; echo; {CODE} -H "X-Pad: {pad}" {url}/; curl -sS {url}/b'
            )
            _, said, _ = await testbed.run(script, policy)
    assert answer in said
    assert "431" in said
    assert server.received == ["GET /b"]


async def test_an_allowed_host_is_asked_about_again_for_a_port_that_nobody_named():
    async with open_proxy_testbed() as testbed:
        with serving() as server, serving() as other:
            testbed.names["index.test"] = ("127.0.0.1",)
            testbed.answers["index.test"] = {"allow": False}
            ports = [one.server_address[1] for one in (server, other)]
            policy = NetworkPolicy(allow=(f"index.test:{ports[0]}",), allow_local_binding=True)
            script = "; ".join(f"curl -sS http://index.test:{port}/" for port in ports)
            _, _, blocked = await testbed.run(script, policy, asks=True)
            assert testbed.asked == [("/root", "index.test")]
            assert blocked == [("index.test", "not_allowed")]
    assert (server.received, other.received) == (["GET /"], [])
