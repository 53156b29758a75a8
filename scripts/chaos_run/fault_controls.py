"""What is wrong right now, in a page that the thrower writes and the disturbed processes read.

A file that all of them map: a process that is stopped, forked or restarted sees it without being
told. A field is written in one step, so nobody reads half of one.
"""

import mmap
import struct
from pathlib import Path
from typing import Literal, get_args

Provider = Literal[
    "sound", "429", "500", "half", "cut", "nothing", "garbage", "damaged", "oversized", "packed"
]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)
_PAGE_BYTES = 4096


class _Field:
    """One number of the page."""

    def __init__(self, layout: str, offset: int) -> None:
        self._codec, self._offset = struct.Struct(layout), offset

    def __get__(self, page: "FaultControls", owner: type["FaultControls"]) -> float:
        value: float = self._codec.unpack_from(page.memory, self._offset)[0]
        return value

    def __set__(self, page: "FaultControls", value: float) -> None:
        self._codec.pack_into(page.memory, self._offset, value)


class FaultControls:
    """All zeros: everything is sound."""

    clock_s = _Field("<d", 0)  # added to the wall clock
    disk_s = _Field("<d", 8)  # before each write of the journal
    drop_share = _Field("<d", 16)  # share of frames that are lost
    duplicate_share = _Field("<d", 24)  # share that come twice
    delay_share = _Field("<d", 32)  # share that come late, and so out of order
    max_delay_s = _Field("<d", 40)  # how late, at most
    provider_mode = _Field("<d", 48)  # place in PROVIDERS

    def __init__(self, path: Path) -> None:
        """Map the page at `path`; it is made if there is none."""
        if not path.exists():
            path.write_bytes(bytes(_PAGE_BYTES))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), _PAGE_BYTES)

    @property
    def provider(self) -> Provider:
        """What the model server does with a request now."""
        return PROVIDERS[int(self.provider_mode)]

    @provider.setter
    def provider(self, mode: Provider) -> None:
        self.provider_mode = PROVIDERS.index(mode)

    def reset(self) -> None:
        """Everything is sound again; the clock goes on from where it was put."""
        self.disk_s = self.drop_share = self.duplicate_share = self.delay_share = (
            self.max_delay_s
        ) = 0.0
        self.provider = "sound"
