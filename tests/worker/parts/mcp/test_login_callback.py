"""Only the answer to this login counts; whoever else comes by changes nothing."""

import os
import socket
from functools import partial

import pytest
import trio

from swarm.worker.parts.mcp.login_callback import LoginRefused, Redirect, open_callback

ASKED = "https://login.example/authorize?response_type=code&state=st4te"


async def visit(port, target, *, method="GET"):
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(f"{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return b"".join([part async for part in stream]).split(b" ")[1]


STRANGE = [
    "/callback?code=c", "/callback?code=c&state=", "/callback?code=c&state=other",
    "/callback?state=st4te", "/callback?code=c&state=st4te&state=st4te",
    "/callback?code=a&code=b&state=st4te", "/other?code=c&state=st4te",
]  # fmt: skip


@pytest.mark.parametrize("target", STRANGE)
async def test_a_visit_that_answers_no_login_is_turned_away(target):
    with trio.fail_after(5):
        async with open_callback((0,), -1) as callback:
            callback.expect(ASKED)
            assert await visit(callback.port, target) == b"400"
            assert await visit(callback.port, "/callback?code=c&state=st4te&iss=i") == b"200"
            result = await callback.wait()
            assert (result.code, result.iss) == ("c", "i")


async def test_a_post_and_garbage_and_silence_end_nothing():
    with trio.fail_after(5):
        async with open_callback((0,), -1) as callback:
            callback.expect(ASKED)
            good = "/callback?code=c&state=st4te"
            assert await visit(callback.port, good, method="POST") == b"400"
            silent = await trio.open_tcp_stream("127.0.0.1", callback.port)
            noisy = await trio.open_tcp_stream("127.0.0.1", callback.port)
            await noisy.send_all(b"\x00" * 10)
            assert await visit(callback.port, good) == b"200"
            for stream in (silent, noisy):
                await stream.aclose()


async def test_nothing_counts_before_the_login_was_begun():
    async with open_callback((0,), -1) as callback:
        assert not callback.take("code=c&state=")


async def test_a_refusal_is_told_in_words():
    async with open_callback((0,), -1) as callback:
        callback.expect(ASKED)
        assert callback.take("error=access_denied&error_description=not+you&state=st4te")
        with pytest.raises(LoginRefused, match="refused: access_denied not you"):
            await callback.wait()


async def test_an_address_that_was_pasted_counts_also_after_a_wrong_one(capfd):
    reader, writer = os.pipe()
    try:
        with trio.fail_after(5):
            async with open_callback((0,), reader) as callback:
                callback.expect(ASKED)
                os.write(writer, b"hello\n" + callback.redirect_uri.encode())
                os.write(writer, b"?code=pasted&state=st4te\n")
                assert (await callback.wait()).code == "pasted"
    finally:
        os.close(reader)
        os.close(writer)
    assert "is not the address that this login ends at" in capfd.readouterr().err


async def test_a_taken_port_is_left_alone_and_no_port_is_said():
    async with open_callback((0,), -1) as first:
        async with open_callback((first.port, 0), -1) as second:
            assert second.port != first.port
        with pytest.raises(LoginRefused, match="no port"):
            async with open_callback((first.port,), -1):
                pass


def as_nobody(port, request):
    """What another user of this machine reads who sends this; needs root."""
    program = (
        "import socket, sys\n"
        f"with socket.create_connection(('127.0.0.1', {port}), 5) as one:\n"
        f"    one.sendall({request!r})\n"
        "    sys.stdout.buffer.write(b''.join(iter(lambda: one.recv(999), b'')))\n"
    )
    argv = ["setpriv", "--reuid", "65534", "--clear-groups", "/usr/bin/python3", "-c", program]
    return partial(trio.run_process, argv, capture_stdout=True, capture_stderr=True, check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
async def test_another_user_who_knows_the_state_ends_no_login():
    with trio.fail_after(20):
        async with open_callback((0,), -1) as callback:
            callback.expect(ASKED)
            request = b"GET /callback?code=evil&state=st4te HTTP/1.1\r\nHost: x\r\n\r\n"
            done = await as_nobody(callback.port, request)()
            assert b"200" not in done.stdout, done.stderr
            assert await visit(callback.port, "/callback?code=c&state=st4te") == b"200"
            assert (await callback.wait()).code == "c"


async def test_a_login_ends_at_the_host_and_path_of_its_own():
    with trio.fail_after(5):
        redirect = Redirect(host="localhost", path="/auth/callback")
        async with open_callback((0,), -1, redirect) as callback:
            callback.expect(ASKED)
            assert callback.redirect_uri == f"http://localhost:{callback.port}/auth/callback"
            assert await visit(callback.port, "/callback?code=c&state=st4te") == b"400"
            assert await visit(callback.port, "/auth/callback?code=c&state=st4te") == b"200"


@pytest.mark.parametrize("taken", ["127.0.0.1", "::1"])
async def test_a_port_that_somebody_else_holds_is_not_used(taken):
    family = socket.AF_INET6 if ":" in taken else socket.AF_INET
    try:
        held = socket.create_server((taken, 0), family=family)
    except OSError:
        pytest.skip("no IPv6 here")
    with held:
        port = held.getsockname()[1]
        redirect = Redirect(host="localhost")
        with pytest.raises(LoginRefused, match=f"port {port}"):
            async with open_callback((port,), -1, redirect):
                pass
        async with open_callback((port, 0), -1, redirect) as callback:
            assert callback.port != port
