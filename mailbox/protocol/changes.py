"""Changes to files and histories, as people see them."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from .values.base import Tagged, Value


class FileChange(Value):
    path: str  # absolute
    kind: Literal["add", "delete", "update"]
    unified_diff: str = ""
    move_path: str | None = None
    left_out: int = 0  # characters in the middle of the diff that are not there


SHOWN_DIFF_CHARS = 100_000  # of one file, to people and the journal
SHOWN_CHARS = 1_000_000  # of all files together


def bounded_changes(changes: Iterable[FileChange]) -> tuple[FileChange, ...]:
    """Cut the diffs shown to people, so that the message of a huge change stays small."""
    left = SHOWN_CHARS
    kept: list[FileChange] = []
    for change in changes:
        limit = min(SHOWN_DIFF_CHARS, left)
        diff = change.unified_diff
        if len(diff) > limit:
            change = shorten_change(change, limit)
        left = max(0, left - min(len(diff), limit))
        kept.append(change)
    return tuple(kept)


def shorten_change(change: FileChange, limit: int) -> FileChange:
    """At most `limit` characters of the diff, its head and its tail, with a mark between them."""
    diff = change.unified_diff
    left_out = len(diff) - limit
    if left_out <= 0:
        return change
    tail = limit // 3
    end = diff[len(diff) - tail :]
    shown = f"{diff[: limit - tail]}\n… {left_out} characters are left out here …\n{end}"
    return msgspec.structs.replace(change, unified_diff=shown, left_out=change.left_out + left_out)


class CompactionInfo(Value):
    """How a history was compacted. Tokens are estimates, calibrated by the provider's counts."""

    compaction_id: str  # unique in the run
    # `limit`: it was nearly full; `overflow`: a provider refused it; `person`: a person asked for
    # it.
    trigger: Literal["limit", "overflow", "person"]
    # `model`: the agent's model wrote a summary; `provider`: the provider's endpoint made one;
    # `cut`: no model was asked: the oldest outputs became stubs, then the oldest items were
    # removed.
    means: Literal["model", "provider", "cut"]
    before_tokens: int
    after_tokens: int
    before_items: int


class TurnDiff(Tagged):
    """The file changes of a turn's patches and commands; sent once, soon after the turn's end.

    A turn without changes sends none, unless some of its folders are not watched.
    """

    turn_id: str
    diff: str = ""  # unified, in git's form; only the beginning if `file` is set
    files: int = 0
    added: int = 0  # lines, of what is shown
    removed: int = 0
    file: str = ""  # in the run's folder: the whole diff, if it is long
    hidden: int = 0  # files left out because the diff would be too long
    shared_with: tuple[str, ...] = ()  # agents active at the same time: some changes may be theirs
    no_copy: int = 0  # files that no undo can restore: there is no copy of their old content
    uncovered: tuple[str, ...] = ()  # folders where a command's changes are unknown: the first ones
    uncovered_count: int = 0
