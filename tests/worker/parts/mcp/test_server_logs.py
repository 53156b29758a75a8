"""What servers write is gathered in bounded pieces."""

import trio

from swarm.mailbox.protocol.hub import ServerLogged
from swarm.worker.parts.mcp.server_logs import PIECE_BYTES, ServerLogs


async def test_pieces_are_sent_by_server_in_order(autojump_clock):
    logs, sent = ServerLogs(), []

    async def send(piece):
        sent.append(piece)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.send_all, send)
        logs.add("a", b"one ")
        logs.add("b", b"other\n")
        logs.add("a", b"two\n")
        await trio.sleep(1)
        logs.add("a", b"three\n")
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert sent == [
        ServerLogged(server="a", text="one two\n"),
        ServerLogged(server="b", text="other\n"),
        ServerLogged(server="a", text="three\n"),
    ]


def test_a_flood_is_cut_and_says_so():
    logs = ServerLogs()
    for _ in range(100):
        logs.add("a", b"x" * 1000)
    logs.add("b", b"\xff\n")
    first, second = logs.take()
    assert first.text.count("x") == PIECE_BYTES
    assert first.text.endswith(f"\n[… {100_000 - PIECE_BYTES:,} bytes are left out …]\n")
    assert second.text == "\ufffd\n"
    assert logs.take() == []
