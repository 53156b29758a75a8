"""Limited mode over HTTPS: what is in a tunnel is held to the same methods, and nothing else is
loosened: the server's certificate is checked, and no command can read the authority's key.
"""

import shutil
import ssl
import tempfile
from pathlib import Path

import pytest
import trio

from support.proxy_testbed import Page, local, open_proxy_testbed, serving
from swarm.mailbox.protocol.events import Warned

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]
PEM = str(Path(__file__).with_name("index_test.pem"))


SETTINGS = ("enabled=true", 'mode="limited"', "mitm=true", "allow_local_binding=true")


def tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


@pytest.fixture
def trusted(monkeypatch):
    """The test server's certificate is one of those that this machine trusts."""
    monkeypatch.setenv("SSL_CERT_FILE", PEM)


def limited(*allow, **more):
    return local(*allow, mode="limited", mitm=True, **more)


async def test_reading_goes_through_an_opened_tunnel_and_writing_does_not(trusted):
    async with open_proxy_testbed(opens=True) as testbed:
        with serving(tls=tls()) as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            url = f"https://index.test:{server.server_address[1]}"
            script = (
                f"curl -sSv {url}/a {url}/b 2>&1 | grep -E 'issuer|GET|subject:'; "
                f"curl -sSD - -d x=1 {url}/c; echo; curl -sS -X DELETE {url}/d; echo; "
                f"curl -sSI {url}/e | head -1; cat /proc/self/status | grep -c Name"
            )
            code, said, blocked = await testbed.run(script, limited("index.test"))
    assert code == 0, said
    assert "issuer: CN=swarm network proxy" in said
    assert said.count("GET /a host=index.test") == said.count("GET /b host=index.test") == 1
    assert "HTTP/1.1 403 Forbidden" in said
    assert "x-proxy-error: blocked-by-method-policy" in said
    assert said.count("Method not allowed in limited mode.") == 2
    assert blocked == [("index.test", "method_not_allowed")]
    assert server.received == ["GET /a", "GET /b"]


async def test_a_body_comes_down_whole_and_an_early_end_is_an_error(trusted):
    class Big(Page):
        def do_GET(self):
            self.send_response(200)
            whole = self.path == "/whole"
            self.send_header("content-length", "3000000")
            self.end_headers()
            self.wfile.write(b"x" * (3_000_000 if whole else 1_000_000))
            self.close_connection = True

    async with open_proxy_testbed(opens=True) as testbed:
        with serving(Big, tls=tls()) as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            url = f"https://index.test:{server.server_address[1]}"
            script = f"curl -sS {url}/whole | wc -c; curl -sS {url}/cut -o /dev/null 2>&1; echo $?"
            _, said, _ = await testbed.run(script, limited("index.test"))
    lines = said.split("\n")
    assert lines[0] == "3000000"
    assert lines[-2] != "0"


async def test_a_server_that_this_machine_does_not_trust_is_not_reached(monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    async with open_proxy_testbed(opens=True) as testbed:
        with serving(tls=tls()) as server:
            testbed.names |= {"index.test": ("127.0.0.1",), "wrong.test": ("127.0.0.1",)}
            port = server.server_address[1]
            script = (
                f"curl -sSk https://index.test:{port}/; echo; curl -sSk https://wrong.test:{port}/"
            )
            _, said, _ = await testbed.run(script, limited("**.test"))
    assert said.count("its certificate cannot be trusted") == 2
    assert server.received == []


async def test_a_certificate_for_another_name_is_not_enough(trusted):
    async with open_proxy_testbed(opens=True) as testbed:
        with serving(tls=tls()) as server:
            testbed.names["wrong.test"] = ("127.0.0.1",)
            url = f"https://wrong.test:{server.server_address[1]}/"
            _, said, _ = await testbed.run(f"curl -sS {url}", limited("**.test"))
    assert "its certificate cannot be trusted: Hostname mismatch" in said
    assert server.received == []


async def test_a_host_that_is_not_allowed_is_refused_before_the_tunnel_and_once_approved_open(
    trusted,
):
    async with open_proxy_testbed(opens=True) as testbed:
        with serving(tls=tls()) as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            url = f"https://index.test:{server.server_address[1]}/"
            _, said, blocked = await testbed.run(f"curl -sS {url} 2>&1", limited())
            assert "403" in said
            assert blocked == [("index.test", "not_allowed")]
            testbed.answers["index.test"] = {"allow": True}
            _, said, _ = await testbed.run(f"curl -sS {url} {url}", limited(), asks=True)
            assert said.count("GET / host=index.test") == 2
            assert len(testbed.asked) == 1


async def test_a_request_for_another_server_than_the_tunnels_is_refused(trusted):
    async with open_proxy_testbed(opens=True) as testbed:
        with serving(tls=tls()) as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            url = f"https://index.test:{server.server_address[1]}/"
            script = f"curl -sS -H 'Host: other.test' {url}; curl -sS -H 'Host:' --http1.0 {url}"
            _, said, _ = await testbed.run(script, limited("index.test"))
    assert "this tunnel leads to index.test" in said
    assert server.received == []


async def test_what_is_no_tls_is_not_let_through(trusted):
    async with open_proxy_testbed(opens=True) as testbed:
        with serving() as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            port = server.server_address[1]
            script = (
                "exec 3<>/dev/tcp/127.0.0.1/3128; "
                f"printf 'CONNECT index.test:{port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; "
                "printf 'POST /out HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 0\\r\\n\\r\\n' >&3; "
                "timeout 5 cat <&3"
            )
            await testbed.run(script, limited("index.test"))
    assert server.received == []


async def test_in_full_mode_tunnels_stay_closed(trusted):
    async with open_proxy_testbed(opens=True) as testbed:
        with serving(tls=tls()) as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            shutil.copy(PEM, testbed.home / "work")
            url = f"https://index.test:{server.server_address[1]}/"
            script = f"curl -sSv --cacert index_test.pem {url} -d x 2>&1"
            _, said, _ = await testbed.run(script, local("index.test", mitm=True))
    assert "POST x" in said
    assert "swarm network proxy" not in said


async def test_without_an_authority_no_tunnel_is_let_through(trusted):
    async with open_proxy_testbed() as testbed:
        testbed.names["index.test"] = ("127.0.0.1",)
        _, _, blocked = await testbed.run("curl -sS https://index.test/", limited("index.test"))
    assert blocked == [("index.test", "mitm_required")]


@pytest.fixture
def home(rig):
    """The run's home outside of what a sandbox covers: all of it but what is hidden can be read."""
    rig.home = Path(tempfile.mkdtemp(prefix="swarm-home-", dir="/var/tmp"))
    rig.environment["SWARM_HOME"] = str(rig.home)
    yield rig.home
    shutil.rmtree(rig.home)


async def test_in_a_run_it_is_set_up_told_to_programs_and_its_key_is_out_of_sight(rig, home):
    with trio.fail_after(60), serving(tls=tls()) as server:
        url = f"https://127.0.0.1:{server.server_address[1]}"
        key, curl = home / "state/proxy/ca.key", "curl -sS --noproxy ''"
        cmd = (
            f"{curl} {url}/a; echo; {curl} -d x {url}/b; echo; "
            f"cat {key}; ls $SSL_CERT_FILE; echo x >>$SSL_CERT_FILE"
        )
        turns = [{"calls": [{"name": "exec_command", "arguments": {"cmd": cmd}}]}, {"text": "done"}]
        rig.environment["SSL_CERT_FILE"] = PEM
        words = [word for one in SETTINGS for word in ("-c", f"network.{one}")]
        words += ["--allow-domain", "127.0.0.1:*"]
        started = await rig.run(rig.script(*turns), *words, sandbox="workspace-write")
        ended = await started.wait_end()
    assert ended.code == 0, ended.err
    said = rig.outputs()[0].split("Output:\n")[-1].split("\n")
    assert said[0].startswith("GET /a host=127.0.0.1")
    assert said[1] == "Method not allowed in limited mode."
    assert said[2].endswith("ca.key: Permission denied")
    assert said[3] == str(home / "state/proxy/bundle.pem")
    assert "Read-only file system" in said[4]
    assert key.stat().st_mode & 0o777 == 0o600
    with trio.fail_after(30):
        looked = await (await rig.start("sandbox", "--", "cat", str(key))).wait_end()
    assert (looked.out, "Permission denied" in looked.err) == ("", True)
    assert server.received == ["GET /a"]
    assert not [one for one in rig.bodies(Warned) if "tunnels" in one.message]
