"""view_image and update_plan: pictures known by their bytes, bounds, and the texts of failures."""

import importlib.util
import os
import struct
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.events import PlanCall, PlanStep
from swarm.mailbox.protocol.items import FunctionCall
from swarm.worker.tools.image_size import ImageKind, sniff_image
from swarm.worker.tools.interface.tool_interface import ToolFailed
from swarm.worker.tools.update_plan import UpdatePlanArguments, UpdatePlanTool
from swarm.worker.tools.view_image import (
    MAX_FILE_BYTES,
    MAX_SENT_BYTES,
    NO_IMAGES,
    ViewedImage,
    ViewImageArguments,
    view_image,
)


def png(width: int, height: int) -> bytes:
    """A whole grey PNG, so that a real decoder accepts it."""

    def part(kind: bytes, body: bytes) -> bytes:
        crc = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc)

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", rows) + part(b"IEND", b"")


SOF = b"\xff\xc2\x00\x11\x08" + struct.pack(">HH", 300, 400) + b"\x03" + b"\0" * 9
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\0" + b"\0" * 9 + b"\xff\xff\xc4\x00\x04\0\0" + SOF
WEBP = {
    "VP8X": b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0" + b"\0" * 4 + b"\x8f\x01\0\x2b\x01\0",
    "VP8L": b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + struct.pack("<I", 399 | 299 << 14),
    "VP8 ": b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 400, 300),
}


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (png(400, 300), "image/png"),
        (b"GIF89a" + struct.pack("<HH", 400, 300), "image/gif"),
        (b"GIF87a" + struct.pack("<HH", 400, 300), "image/gif"),
        (JPEG, "image/jpeg"),
        *((data, "image/webp") for data in WEBP.values()),
    ],
)
def test_kind_and_size_are_read_from_the_header(data, mime):
    assert sniff_image(data) == ImageKind(mime, 400, 300)


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"<svg/>", png(1, 1)[:20], JPEG[:30], b"\xff\xd8\xff", b"GIF89a", b"RIFF",
     WEBP["VP8X"][:25], WEBP["VP8L"][:22], WEBP["VP8 "][:28], b"\x89PNG\r\n\x1a\n" + b"\0" * 30,
     b"GIF89a\0\0\0\0", b"\xff\xd8\xff\xda\x00\x02ab"],
)  # fmt: skip
def test_anything_else_is_no_picture(data):
    assert sniff_image(data) is None


@given(st.binary(max_size=64), st.sampled_from([JPEG, png(2, 2), *WEBP.values(), b""]))
def test_no_bytes_make_the_sniffer_raise(noise, start):
    sniff_image(start[: len(noise)] + noise)


def test_a_small_picture_goes_as_it_is(tmp_path):
    (tmp_path / "p").write_bytes(png(40, 30))
    assert view_image(ViewImageArguments(path="p"), tmp_path) == ViewedImage(
        data=png(40, 30), mime="image/png", width=40, height=30
    )


def test_a_large_picture_is_shrunk_or_the_text_says_what_to_install(tmp_path):
    (tmp_path / "p").write_bytes(png(4096, 100))
    if importlib.util.find_spec("PIL"):
        viewed = view_image(ViewImageArguments(path="p"), tmp_path)
        assert (viewed.width, viewed.height, viewed.detail) == (2048, 50, "high")
        assert sniff_image(viewed.data) == ImageKind("image/png", 2048, 50)
    else:
        with pytest.raises(ToolFailed) as caught:
            view_image(ViewImageArguments(path="p"), tmp_path)
        assert "it is 4096x100 and must be shrunk" in str(caught.value)
        assert "the extra `images`" in str(caught.value)


def test_a_large_picture_is_left_alone_when_the_original_is_asked_for(tmp_path):
    (tmp_path / "p").write_bytes(png(4096, 100))
    viewed = view_image(ViewImageArguments(path=str(tmp_path / "p"), detail="original"), tmp_path)
    assert (viewed.data, viewed.detail) == (png(4096, 100), "original")


@pytest.mark.parametrize(
    ("path", "detail", "message"),
    [
        ("no", None, "unable to locate image at `{0}/no`: No such file or directory"),
        ("a\0b", None, "unable to locate image at"),
        ("dir", None, "image path `{0}/dir` is not a file"),
        ("pipe", None, "image path `{0}/pipe` is not a file"),
        ("text", None, "unable to process image at `{0}/text`: it is not a PNG, JPEG"),
        ("huge", None, f"unable to read image at `{{0}}/huge`: it is larger than {MAX_FILE_BYTES}"),
        ("wide", None, "unable to process image at `{0}/wide`: 50000x50000 pixels are too many"),
        ("heavy", None, "unable to process image at `{0}/heavy`: "),
        (
            "text",
            "low",
            "view_image.detail only supports `original`; omit `detail` for default resized "
            "behavior, got `low`",
        ),
    ],
)
def test_what_cannot_be_shown_says_why(tmp_path, path, detail, message):
    (tmp_path / "dir").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "text").write_text("hello")
    (tmp_path / "wide").write_bytes(png(2, 2).replace(b"\0\0\0\2\0\0\0\2", b"\0\0\xc3\x50" * 2))
    (tmp_path / "heavy").write_bytes(png(2, 2) + b"\0" * MAX_SENT_BYTES)
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(ToolFailed) as caught:
        view_image(ViewImageArguments(path=path, detail=detail), tmp_path)
    assert str(caught.value).startswith(message.format(tmp_path))


def test_a_model_without_eyes_is_told_before_the_disk_is_touched(tmp_path):
    with pytest.raises(ToolFailed, match=NO_IMAGES):
        view_image(ViewImageArguments(path="no"), tmp_path, supports_images=False)


async def test_a_plan_becomes_what_watchers_are_shown():
    text = '{"plan":[{"step":"read","status":"completed"}],"explanation":"why"}'
    call = FunctionCall(call_id="c", name="update_plan", arguments=text)
    plan = await UpdatePlanTool().prepare(call)
    step = PlanStep(step="read", status="completed")
    assert plan.detail == PlanCall(plan=(step,), explanation="why")
    assert (await plan.run(plan.judge(), print)).content == "Plan updated"


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'{"plan":[{"step":"x"}]}',
        b'{"plan":[{"step":"x","status":"done"}]}',
        b'{"plan":[],"note":1}',
        b'{"plan":[{"step":"x","status":"pending","id":1}]}',
    ],
)
def test_a_plan_with_missing_or_unknown_keys_is_refused(text):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=UpdatePlanArguments)


def test_what_was_opened_is_what_is_judged(tmp_path):
    """A link that is turned between the question and the opening shows nothing."""
    (tmp_path / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "link.png").symlink_to("secret.png")
    asked = []

    def may_read(path):
        asked.append(path.resolve())
        return False

    with pytest.raises(ToolFailed, match="Permission denied"):
        view_image(ViewImageArguments(path="link.png"), tmp_path, may_read=may_read)
    assert asked == [(tmp_path / "secret.png").resolve()]
