"""Ctrl-V: the picture in the clipboard is stored for its owner; all else is refused in words."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.supervisor.clients.chat.clipboard_image import paste_clipboard_image

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 32


def desktop(folder: Path, script: str, program: str = "wl-paste") -> dict[str, str]:
    """An environment whose desktop program is this shell script."""
    path = folder / "bin" / program
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    (folder / "picture").write_bytes(PNG)
    return {
        "PATH": f"{path.parent}:/usr/bin:/bin", "SWARM_HOME": str(folder / "home"),
        "WAYLAND_DISPLAY" if program == "wl-paste" else "DISPLAY": ":0",
    }  # fmt: skip


@pytest.mark.parametrize("program", ["wl-paste", "xclip"])
def test_the_picture_is_stored_for_its_owner_alone_and_old_ones_go(tmp_path, program):
    environment = desktop(tmp_path, f"exec cat {tmp_path}/picture", program)
    first = asyncio.run(paste_clipboard_image(environment))
    os.utime(first, (0, 0))
    second = asyncio.run(paste_clipboard_image(environment))
    assert second.read_bytes() == PNG
    assert stat.S_IMODE(second.stat().st_mode) == 0o600
    assert stat.S_IMODE(second.parent.stat().st_mode) == 0o700
    assert list(second.parent.iterdir()) == [second]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 1", "no picture in the clipboard"),
        ("echo words", "no picture in the clipboard"),
        ("exec cat /dev/zero", "over 20 MiB"),
    ],
)
def test_what_is_no_picture_is_refused_in_words(tmp_path, script, words):
    with pytest.raises(UsageError, match=words):
        asyncio.run(paste_clipboard_image(desktop(tmp_path, script)))


def test_without_a_desktop_it_says_what_to_do(tmp_path):
    with pytest.raises(UsageError, match="name a file with @"):
        asyncio.run(paste_clipboard_image({"PATH": "/usr/bin:/bin", "SWARM_HOME": str(tmp_path)}))
