"""Recorded paths of a run whose project was renamed or moved since, as they are now.

What lies in the run's folder names the old place for good; each start of the run reads it through
the moves that `swarm resume -C` recorded.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.protocol.spec import FolderMove

Moves = Sequence[FolderMove]


def find_move(before: str, now: str) -> FolderMove:
    """The move by which the working folder came to be another one.

    What both paths end with stays: `/w/old/sub` and `/w/new/sub` are a move of `/w/old`, if that
    is gone.
    """
    old, new = Path(before), Path(now)
    while old.name == new.name and old.name and not old.parent.is_dir():
        old, new = old.parent, new.parent
    return FolderMove(before=str(old), now=str(new))


def moved(path: str, moves: Moves) -> str:
    """Where a recorded path lies now."""
    for move in moves:
        if is_within(path, move.before):
            path = os.path.normpath(move.now + path.removeprefix(move.before))
    return path
