"""What is shown while it comes hides the keys of the run as the journal does, also in pieces."""

import struct
import zlib

import msgspec
import pytest
import trio

from swarm.mailbox.delivery.feed import FeedReader, open_feed_reader
from swarm.mailbox.protocol.control import AnyFeed, Recorded, TransientEvent
from swarm.mailbox.protocol.events import OutputArrived, ReasoningArrived, TextArrived
from swarm.mailbox.protocol.records import RunCompleted

pytestmark = pytest.mark.live
LIMIT_S = 45
KEY = "sentinel-7f3a9c1e5b2d8460-key"
_decode = msgspec.msgpack.Decoder(AnyFeed).decode
PIECES = " ".join(KEY[at : at + 6] for at in range(0, len(KEY), 6))


async def listen(reader: FeedReader) -> tuple[dict[type, str], bytes]:
    """All passing words by their kind, and all that the feed said, to the run's end."""
    words = {TextArrived: "", ReasoningArrived: "", OutputArrived: ""}
    raw = b""
    while True:
        _, body = await reader.receive()
        raw += body
        match _decode(body):
            case TransientEvent(
                event=TextArrived() | ReasoningArrived() | OutputArrived() as event
            ):
                words[type(event)] += event.delta
            case Recorded(record=record) if isinstance(record.body, RunCompleted):
                return words, raw


async def test_a_key_that_is_said_in_pieces_is_on_no_feed(rig):
    rig.environment["OPENAI_API_KEY"] = KEY
    wait = "until [ -e go ]; do sleep 0.05; done"
    spell = f"for p in {PIECES}; do printf %s $p; sleep 0.1; done; echo ' spelled'"
    provider = rig.script(
        {"calls": [{"name": "exec_command", "arguments": {"cmd": wait}}]},
        {
            "reasoning": f"I know {KEY} and more",
            "calls": [{"name": "exec_command", "arguments": {"cmd": spell}}],
            "chunk_chars": 7,
            "chunk_delay_s": 0.05,
        },
        {"text": f"the key is {KEY}. And so on", "chunk_chars": 7, "chunk_delay_s": 0.05},
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider)
        await rig.wait_call()
        async with open_feed_reader(rig.places.feed_endpoint) as reader:
            await reader.wait_joined()
            (rig.work / "go").touch()
            words, raw = await listen(reader)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert "the key is [redacted]. And so on" in ended.out
    # Deltas may be dropped, and what still waits when the whole has come is not sent.
    assert "the key is [redacted]".startswith(words[TextArrived][:21])
    assert "I know [redacted]".startswith(words[ReasoningArrived][:17])
    assert words[OutputArrived].startswith("[redacted]")
    for said in words.values():
        assert said, words
        assert KEY[:6] not in said
    assert KEY.encode() not in raw


def picture(text: bytes) -> bytes:
    """A PNG of one pixel with a comment in it."""
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)),
        (b"tEXt", b"Comment\0" + text),
        (b"IDAT", zlib.compress(b"\0\0")),
        (b"IEND", b""),
    )
    made = b"\x89PNG\r\n\x1a\n"
    for name, body in parts:
        made += struct.pack(">I", len(body)) + name + body
        made += struct.pack(">I", zlib.crc32(name + body))
    return made


async def test_a_picture_with_a_key_in_it_becomes_no_blob(rig):
    rig.environment["OPENAI_API_KEY"] = KEY
    (rig.work / "plain.png").write_bytes(picture(b"nothing to hide"))
    (rig.work / "telling.png").write_bytes(picture(b"use " + KEY.encode()))
    look = [
        {"calls": [{"name": "view_image", "arguments": {"path": f"{name}.png"}}]}
        for name in ("plain", "telling")
    ]
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(rig.script(*look, {"text": "seen"}))).wait_end()
    assert ended.code == 0, ended.err
    blobs = [path.read_bytes() for path in rig.places.blobs.iterdir()]
    assert blobs == [picture(b"nothing to hide")]
    assert "unable to store the image: a key of this run stands in the file" in rig.outputs()[-1]
