"""The users as whom a test is run: this one, and where it may become another one, that one too."""

import os
import sys
from pathlib import Path

import pytest


def others_may_run(program: str) -> bool:
    """False: a folder above it is closed to other users, as `/root` is."""
    found = Path(program)
    folders = {*found.absolute().parents, *found.resolve().parents}
    return all(folder.stat().st_mode & 0o001 for folder in folders)


_WHY = (
    "it becomes another user" if os.geteuid() else "no other user may run this Python"
    if not others_may_run(sys.executable) else ""
)  # fmt: skip
USERS = [
    pytest.param(os.geteuid(), id="this-user"),
    pytest.param(65534, id="another", marks=pytest.mark.skipif(bool(_WHY), reason=_WHY)),
]
