"""Commands in the real sandbox reach what the proxy lets through, and nothing else."""

import os
import shutil
import ssl
import sys
import zipfile
from pathlib import Path

import pytest
import trio

from support.proxy_testbed import Page, local, open_proxy_testbed, serving
from swarm.mailbox.protocol.proxy import NetworkBlocked
from swarm.mailbox.protocol.values.limits import NetworkPolicy, WorkspaceWrite
from swarm.worker.gateway.wheel_fetch import find_installers
from swarm.worker.sandbox.sandbox_plan import SandboxUnavailable, plan_sandbox

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]
PEM = str(Path(__file__).with_name("index_test.pem"))
PYTHON = os.path.realpath(sys.executable)
PROXY = "curl -sS --noproxy '' -x http://127.0.0.1:3128"


def tls():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    return context


async def test_an_allowed_host_is_reached_by_http_and_socks_and_keeps_the_connection():
    async with open_proxy_testbed() as testbed:
        with serving() as server:
            port = server.server_address[1]
            testbed.names["index.test"] = ("127.0.0.1",)
            url = f"http://index.test:{port}"
            script = (
                f"curl -sSv {url}/a {url}/b -d body=1 2>&1 | grep -c 'Connected to 127'; "
                f"curl -sS --socks5-hostname 127.0.0.1:3128 --noproxy '' {url}/s"
            )
            code, said, blocked = await testbed.run(script, local("index.test"))
            assert (code, said, blocked) == (0, f"1\nGET /s host=index.test:{port}", [])
            assert server.received == ["POST /a", "POST /b", "GET /s"]


async def test_tls_goes_through_untouched_and_is_not_opened():
    async with open_proxy_testbed() as testbed:
        with serving(tls=tls()) as server:
            port = server.server_address[1]
            testbed.names["index.test"] = ("127.0.0.1",)
            shutil.copy(PEM, testbed.home / "work")
            script = f"curl -sS --cacert index_test.pem https://index.test:{port}/secret"
            code, said, _ = await testbed.run(script, local("index.test"))
            assert (code, said) == (0, f"GET /secret host=index.test:{port}")


async def test_a_body_streams_up_and_down_whole():
    async with open_proxy_testbed() as testbed:
        with serving() as server:
            port = server.server_address[1]
            testbed.names["index.test"] = ("127.0.0.1",)
            script = (
                "head -c 3000000 /dev/urandom | base64 >big; (printf 'POST '; cat big) >want; "
                f"curl -sS --data-binary @big http://index.test:{port}/ -o got && "
                f"cmp got want && curl -sS -H 'Expect: 100-continue' --data-binary @big "
                f"http://index.test:{port}/ | cmp - want && echo same"
            )
            code, said, _ = await testbed.run(script, local("index.test"))
            assert (code, said) == (0, "same\n")


REFUSALS = [
    ("curl -sSD - http://other.test/", "blocked-by-allowlist", "Domain not in allowlist.",
     ("other.test", "not_allowed")),
    ("curl -sSD - http://bad.test/", "blocked-by-denylist", "Domain denied by the sandbox policy.",
     ("bad.test", "denied")),
    ("curl -sSD - http://inside.test/", "blocked-by-allowlist",
     "Sandbox policy blocks local/private network addresses.",
     ("inside.test", "not_allowed_local")),
    ("curl -sSD - http://unknown.test/", "blocked-by-allowlist",
     "Sandbox policy blocks local/private network addresses.",
     ("unknown.test", "not_allowed_local")),
    (f"{PROXY} -D - http://127.0.0.1:80/", "blocked-by-allowlist",
     "Sandbox policy blocks local/private network addresses.", ("127.0.0.1", "not_allowed_local")),
    (f"{PROXY} -D - http://169.254.169.254/", "blocked-by-allowlist",
     "Sandbox policy blocks local/private network addresses.",
     ("169.254.169.254", "not_allowed_local")),
]  # fmt: skip


@pytest.mark.parametrize(("script", "header", "body", "blocked"), REFUSALS)
async def test_a_refusal_says_why_to_the_client_the_agent_and_the_supervisor(
    script, header, body, blocked
):
    policy = NetworkPolicy(allow=("inside.test", "unknown.test"), deny=("bad.test",))
    async with open_proxy_testbed() as testbed:
        testbed.names["inside.test"] = ("10.0.0.7",)
        code, said, told = await testbed.run(script, policy)
        assert code == 0
        lines = said.split("\r\n")
        assert lines[0] == "HTTP/1.1 403 Forbidden"
        assert "content-type: text/plain" in lines
        assert f"x-proxy-error: {header}" in lines
        assert lines[-1] == body
        assert told == [blocked]
        reported = [one for one in testbed.events if isinstance(one, NetworkBlocked)]
        assert [(one.agent, one.target.host, one.reason) for one in reported] == [
            ("/root", *blocked)
        ]


async def test_limited_mode_reads_and_does_nothing_else():
    async with open_proxy_testbed() as testbed:
        with serving() as server:
            port = server.server_address[1]
            testbed.names["index.test"] = ("127.0.0.1",)
            url = f"http://index.test:{port}/"
            script = (
                f"curl -sS {url}; echo; curl -sS -d x {url}; echo; curl -sS https://index.test/; "
                f"curl -sS --socks5-hostname 127.0.0.1:3128 --noproxy '' {url}"
            )
            _, said, blocked = await testbed.run(script, local("index.test", mode="limited"))
            assert said.startswith(f"GET / host=index.test:{port}\nMethod not allowed in limited")
            assert [reason for _, reason in blocked] == [
                "method_not_allowed", "mitm_required", "method_not_allowed"
            ]  # fmt: skip
            assert server.received == ["GET /"]


async def test_without_the_proxy_nothing_gets_out():
    async with open_proxy_testbed() as testbed:
        with serving() as server:
            port = server.server_address[1]
            script = (
                "unset ${!http*} ${!HTTP*} ${!ALL*} ${!all*}; "
                f"curl -sS -m 3 --noproxy '*' http://127.0.0.1:{port}/; echo $?; "
                "curl -sS -m 3 --noproxy '*' http://1.1.1.1/; echo $?; "
                "echo x >/dev/udp/1.1.1.1/53; echo $?; "
                "getent hosts example.com; echo $?; ls /sys/class/net 2>/dev/null | wc -w"
            )
            _, said, _ = await testbed.run(script, local("index.test"))
            codes = [line for line in said.splitlines() if line.isdigit()]
            assert codes[:4] == ["7", "7", "1", "2"], said
            assert server.received == []


SOCKETS = """
import socket, errno
def attempt(*args, pair=False):
    try:
        (socket.socketpair if pair else socket.socket)(*args)
        return "ok"
    except OSError as error:
        return errno.errorcode[error.errno]
print(attempt(1, 1), attempt(1, 2), attempt(16, 3), attempt(17, 3), attempt(2, 1), attempt(10, 2))
print(attempt(1, 1, pair=True), attempt(1, 2, pair=True), attempt(1, 5 | 0o4000, pair=True))
"""


async def test_only_internet_sockets_and_connected_unix_ones_can_be_made():
    async with open_proxy_testbed() as testbed:
        argv = ("/usr/bin/python3", "-I", "-S", "-c", SOCKETS)
        _, said, _ = await testbed.run("", local("index.test"), argv=argv)
        assert said == "ok EPERM EPERM EPERM ok ok\nok ok ok\n"  # a pair of datagrams has no names


async def test_the_stage_leaves_no_trace_in_the_command():
    script = (
        "trap -p; ls /proc/self/fd | wc -l; grep -E 'SigIgn|Seccomp:' /proc/self/status; "
        "echo $HTTPS_PROXY $ALL_PROXY $NO_PROXY; ls {sock} | wc -l"
    )
    async with open_proxy_testbed() as testbed:
        _, said, _ = await testbed.run(
            script.format(sock=testbed.home / "sock"), local("index.test"), tty=False
        )
        files, ignored, seccomp, variables, sockets, _ = said.split("\n")
        assert files == "4"  # three, and the one that lists them
        assert not int(ignored.split()[1], 16) & 0x7FFF_FFFF  # Python ignores SIGPIPE
        assert seccomp == "Seccomp:\t2"
        assert variables.startswith("http://127.0.0.1:3128 socks5h://127.0.0.1:3128 localhost,")
        assert sockets == "0"  # the proxy's own is out of sight


async def test_a_terminal_and_the_proxy_go_together():
    async with open_proxy_testbed() as testbed:
        with serving() as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            url = f"http://index.test:{server.server_address[1]}/t"
            code, said, _ = await testbed.run(f"tty; curl -sS {url}", local("**.test"), tty=True)
            assert code == 0
            assert said.startswith("/dev/")
            assert "GET /t" in said


async def test_two_agents_who_want_a_host_ask_once():
    async with open_proxy_testbed() as testbed:
        with serving() as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            testbed.answers["index.test"] = {"allow": True, "remember": True}
            url = f"http://index.test:{server.server_address[1]}/"
            got = []

            async def fetch(agent):
                got.append(await testbed.run(f"curl -sS {url}", local(), agent=agent, asks=True))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(fetch, "/root/a")
                nursery.start_soon(fetch, "/root/b")
            assert [code for code, _, _ in got] == [0, 0]
            assert len(server.received) == 2
            assert len(testbed.asked) == 1


async def test_who_may_not_ask_is_refused_at_once_and_a_no_is_told():
    async with open_proxy_testbed() as testbed:
        _, said, blocked = await testbed.run("curl -sS http://index.test/", local())
        assert (said, blocked) == ("Domain not in allowlist.", [("index.test", "not_allowed")])
        assert testbed.asked == []
        _, said, blocked = await testbed.run("curl -sS http://index.test/", local(), asks=True)
        assert (said, blocked) == ("Domain not in allowlist.", [("index.test", "not_allowed")])
        assert testbed.asked == [("/root", "index.test")]


def wheel(folder):
    path = folder / "tiny_thing-1.0-py3-none-any.whl"
    info = "tiny_thing-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tiny_thing.py", "")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return path


def download(installer, index):
    """A script that has the installer fetch tiny-thing, and lists what came."""
    if installer.name == "pip":
        import pip

        shutil.copytree(Path(pip.__file__).parent, Path("site/pip"))
        return (
            "PYTHONPATH=$PWD/site PIP_CONFIG_FILE=/dev/null PIP_NO_CACHE_DIR=1 "
            f"PIP_DISABLE_PIP_VERSION_CHECK=1 {PYTHON} -m pip download -q --no-deps "
            f"--cert index_test.pem --index-url {index} tiny-thing 2>&1; ls *.whl"
        )
    shutil.copy(installer.command[0], "uv")  # wherever it is: a command has a /tmp of its own
    return (
        "UV_NO_CONFIG=1 UV_CACHE_DIR=$PWD/cache ./uv pip install -q --no-deps --target got "
        f"--allow-insecure-host index.test --python {PYTHON} "  # its certificate is its own issuer
        f"--default-index {index} tiny-thing 2>&1; ls got | grep py$"
    )


@pytest.mark.parametrize("installer", find_installers(os.environ), ids=lambda one: one.name)
async def test_an_installer_downloads_from_an_allowed_index(tmp_path, monkeypatch, installer):
    data = wheel(tmp_path).read_bytes()
    name = "tiny_thing-1.0-py3-none-any.whl"

    class Index(Page):
        def do_GET(self):
            if self.path.endswith(".whl"):
                self.answer(data)
            else:
                self.page()

        def page(self):
            body = f'<a href="/{name}">{name}</a>'.encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    async with open_proxy_testbed() as testbed:
        with serving(Index, tls=tls()) as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            shutil.copy(PEM, testbed.home / "work")
            monkeypatch.chdir(testbed.home / "work")
            index = f"https://index.test:{server.server_address[1]}/simple"
            script = download(installer, index)
            code, said, _ = await testbed.run(script, local("index.test"))
            assert (code, said) == (0, f"{name if installer.name == 'pip' else 'tiny_thing.py'}\n")


def test_without_namespaces_a_run_with_a_proxy_runs_no_command(tmp_path):
    with pytest.raises(SandboxUnavailable, match="needs bubblewrap"):
        plan_sandbox(
            WorkspaceWrite(), cwd=str(tmp_path), tmp_dir=None, stack="landlock",
            proxied=NetworkPolicy(),
        )  # fmt: skip
