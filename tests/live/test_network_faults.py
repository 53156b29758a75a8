"""Servers and clients that misbehave at the network proxy harm themselves alone."""

import shutil
import socket
import threading
from contextlib import contextmanager

import pytest
import trio

from support.proxy_testbed import local, open_proxy_testbed, serving
from swarm.mailbox.protocol.values.limits import NetworkPolicy

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


@contextmanager
def raw_server(answer):
    """Sends one fixed answer to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with listener.accept()[0] as sock:
                sock.recv(65536)
                sock.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", "200 until the end"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "200 abc"),
        (b"nonsense\r\n\r\n", "502 the server's answer cannot be read"),
        (b"", "502 the server's answer cannot be read"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", None),
    ],
)
async def test_an_answer_is_whole_or_visibly_cut(answer, said):
    async with open_proxy_testbed() as testbed:
        with raw_server(answer) as port:
            testbed.names["index.test"] = ("127.0.0.1",)
            script = f"curl -sS -w ' %{{http_code}}' http://index.test:{port}/"
            code, got, _ = await testbed.run(script, local("index.test"))
            if said is None:
                assert code == 18  # curl: a partial file
            else:
                status, _, body = said.partition(" ")
                assert (code, got) == (0, f"{body} {status}")


NONSENSE = [
    rb"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
    rb"GET http://a.test/ HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n"
    rb"transfer-encoding: chunked\r\n\r\n",
    rb"POST http://a.test/ HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
    rb"GET http://a.test/ HTTP/1.1\r\nhost: a\r\nx : y\r\n\r\n",
    rb"CONNECT a.test HTTP/1.1\r\nhost: a\r\n\r\n",
    rb"CONNECT a.test:1 HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc",
    rb"\x00\x01\x02\r\n\r\n",
]


async def test_malformed_traffic_is_refused_and_harms_nobody():
    async with open_proxy_testbed() as testbed:
        for text in NONSENSE:
            script = (
                "exec 9<>/dev/tcp/127.0.0.1/3128; printf '" + text.decode() + "' >&9; "
                "head -c 12 <&9"
            )
            _, said, _ = await testbed.run(script, NetworkPolicy(allow=("*",)))
            assert said in ("HTTP/1.1 400", "HTTP/1.1 501"), text
        with serving() as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            script = f"curl -sS http://index.test:{server.server_address[1]}/"
            assert (await testbed.run(script, local("index.test")))[0] == 0


async def test_udp_associate_and_other_socks_are_refused():
    async with open_proxy_testbed() as testbed:
        script = (
            r"exec 9<>/dev/tcp/127.0.0.1/3128;"
            r"printf '\005\001\000\005\003\000\001\0\0\0\0\0\0' >&9;"
            r"head -c 4 <&9 | od -An -tu1; exec 8<>/dev/tcp/127.0.0.1/3128;"
            r"printf '\005\001\002' >&8; head -c 2 <&8 | od -An -tu1"
        )
        _, said, _ = await testbed.run(script, NetworkPolicy(allow=("*",)))
        assert [line.split() for line in said.splitlines()] == [
            ["5", "0", "5", "7"], ["5", "255"]
        ]  # fmt: skip


CROWD = """
import select, socket
held = [socket.create_connection(("127.0.0.1", 3128)) for _ in range(140)]
ended = set()
while len(ended) < 12:
    for sock in select.select([one for one in held if one not in ended], [], [])[0]:
        assert sock.recv(1) == b""
        ended.add(sock)
print(len(select.select([one for one in held if one not in ended], [], [], 0.2)[0]))
"""


async def test_one_agents_crowd_is_bounded_and_leaves_room_for_others():
    async with open_proxy_testbed() as testbed:
        with serving() as server:
            testbed.names["index.test"] = ("127.0.0.1",)
            argv = ("/usr/bin/python3", "-I", "-S", "-c", CROWD + "input()")
            crowd = await testbed.start(
                "", local("index.test"), argv=argv, agent="/root/a", tty=True
            )
            said = b""
            while b"0" not in said:
                said += await crowd.receive()
            url = f"http://index.test:{server.server_address[1]}/"
            mine = await testbed.run(f"curl -sS {url}", local("index.test"), agent="/root/b")
            same = await testbed.run(f"curl -sS {url}", local("index.test"), agent="/root/a")
            await crowd.kill_tree()
            await crowd.wait()
            crowd.close()
            assert mine[0] == 0
            assert same[0] != 0
            while (await testbed.run(f"curl -sS {url}", local("index.test"), agent="/root/a"))[0]:
                await trio.lowlevel.checkpoint()  # with its command the crowd ends


PAIRS = """
import socket
def attempt(act):
    try:
        act()
        return "done"
    except OSError:
        return "refused"
a, b = socket.socketpair()
print(attempt(lambda: a.connect("door")))
b.close()
print(attempt(lambda: a.connect("door")))
c, d = socket.socketpair()
c.shutdown(2)
print(attempt(lambda: c.connect("door")), attempt(lambda: c.listen(1)))
"""


async def test_a_connected_pair_cannot_be_turned_to_another_socket():
    async with open_proxy_testbed() as testbed:
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(testbed.home / "work/door"))
            door.listen(1)
            argv = ("/usr/bin/python3", "-I", "-S", "-c", PAIRS)
            _, said, _ = await testbed.run("", local(), argv=argv)
    assert said.split() == ["refused"] * 4


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("true",), 0),
        (("no-such-program",), 127),
        (("/etc/passwd",), 126),
        (("/usr/bin/printf", "%s", "é ok"), 0),
    ],
)
async def test_the_stage_becomes_the_command_as_a_shell_would(argv, code):
    async with open_proxy_testbed() as testbed:
        ended, said, _ = await testbed.run("", local(), argv=argv)
    assert ended == code
    assert said == "" or argv[0] in said or "ok" in said
