"""Only the answer to this login counts; whoever else comes by changes nothing."""

import os

import pytest
import trio

from swarm.worker.hub.login_callback import LoginRefused, open_callback

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
