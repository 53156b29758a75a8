"""A person's images: a file that is none is told before anything starts."""

import os

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.supervisor.runs.image_blobs import check_image, store_image

PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 100


def test_an_image_is_known_by_its_first_bytes_and_kept_by_its_content(tmp_path):
    (tmp_path / "a.txt").write_bytes(PNG)
    (tmp_path / "blobs").mkdir()
    assert check_image(tmp_path / "a.txt") == "image/png"
    url, name = store_image(tmp_path / "blobs", str(tmp_path / "a.txt"))
    assert (url.startswith("blob:"), url.endswith(";image/png"), name) == (True, True, "a.txt")


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89PN", b"<svg/>", b"RIFF....WAVE"])
def test_what_is_no_image_is_refused_by_name(tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(UsageError, match=r"a\.png is not a PNG, JPEG, GIF or WebP image"):
        check_image(tmp_path / "a.png")


def test_a_missing_or_a_huge_one_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot read the image"):
        check_image(tmp_path / "none")
    with (tmp_path / "big").open("wb") as file:
        file.write(PNG)
        file.truncate(21 << 20)
    with pytest.raises(UsageError, match="over 20 MiB"):
        check_image(tmp_path / "big")


def test_an_image_that_became_a_link_since_it_was_named_is_not_sent(tmp_path):
    named, other, blobs = tmp_path / "a.png", tmp_path / "b.png", tmp_path / "blobs"
    blobs.mkdir()
    for path in (named, other):
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(8))
    assert store_image(blobs, str(named))[1] == "a.png"
    named.unlink()
    named.symlink_to("b.png")
    with pytest.raises(UsageError, match="cannot read the image"):
        store_image(blobs, str(named))


@pytest.mark.parametrize("device", ["/dev/zero", "fifo"])
def test_an_image_that_is_no_file_is_refused_at_once(tmp_path, device):
    path = tmp_path / "a.png"
    if device == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(device)
    with pytest.raises(UsageError, match="it is not a regular file"):
        check_image(path)
