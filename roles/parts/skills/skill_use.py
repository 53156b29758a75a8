"""When each skill was named last: decides which ones leave a list that is full.

One small file of swarm's own for all runs, replaced atomically. It is a hint: if it is gone or
damaged, the order of the list decides.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.base import Value

from ...config.atomic_replace import locked_folder, replace_file
from ...config.file_reading import read_bounded

USE_FILE = "skill_use.json"  # in the folder of state
_FILE_BYTES = 1 << 20
_MOST_SKILLS = 1_000


class _Uses(Value):
    last: dict[str, float] = {}  # path of a SKILL.md → Unix seconds


def read_skill_use(folder: Path) -> Mapping[str, float]:
    """Unix seconds of each skill's last use, by the path of its SKILL.md; empty if not known."""
    try:
        data = read_bounded(folder / USE_FILE, limit_bytes=_FILE_BYTES)
        return msgspec.json.decode(data, type=_Uses).last
    except (OSError, UsageError, msgspec.DecodeError):
        return {}


def note_skill_use(folder: Path, paths: Iterable[str], *, now_s: float) -> None:
    """Note that these skills are used now; the 1,000 that were used last are kept.

    Blocks for some milliseconds. A file that cannot be written is left as it is.
    """
    try:
        with locked_folder(folder):
            last = {**read_skill_use(folder), **dict.fromkeys(paths, now_s)}
            newest = sorted(last.items(), key=lambda one: one[1])[-_MOST_SKILLS:]
            replace_file(folder / USE_FILE, msgspec.json.encode(_Uses(last=dict(newest))))
    except OSError:
        return
