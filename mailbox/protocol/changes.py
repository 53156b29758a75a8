"""What is done to files and to a history, as people are shown it."""

from typing import Literal

from .base import Tagged, Value


class FileChange(Value):
    path: str  # absolute
    kind: Literal["add", "delete", "update"]
    unified_diff: str = ""
    move_path: str | None = None


class CompactionInfo(Value):
    """How a history was made shorter. Tokens are estimates, calibrated by the provider's counts."""

    compaction_id: str  # unique in the run
    # `limit`: it was nearly full; `overflow`: a provider refused it; `person`: somebody asked.
    trigger: Literal["limit", "overflow", "person"]
    # `model`: the agent's model wrote a summary; `provider`: its endpoint made one; `cut`: no model
    # was asked: oldest outputs became stubs, then oldest items went.
    means: Literal["model", "provider", "cut"]
    before_tokens: int
    after_tokens: int
    before_items: int


class TurnDiff(Tagged):
    """What a turn's patches and commands changed in files; told once, soon after its end.

    Nothing is told of a turn that changed nothing, unless not all of its folders are watched.
    """

    turn_id: str
    diff: str = ""  # unified, in git's form; only the head of one that has a `file`
    files: int = 0
    added: int = 0  # lines, of what is shown
    removed: int = 0
    file: str = ""  # in the run's folder: all that is shown, where it is long
    hidden: int = 0  # files that are not shown: the diff would be too long
    shared_with: tuple[str, ...] = ()  # agents that worked meanwhile: some may be their changes
    no_copy: int = 0  # files that no undo can bring back: there is no copy of what they held
    uncovered: tuple[str, ...] = ()  # folders of which a command's changes are not known: the first
    uncovered_count: int = 0
