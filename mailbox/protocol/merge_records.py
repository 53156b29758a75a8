"""Journal records of merges: agents' changes that go into the project, or are given up."""

from .values.base import Tagged, Value


class MergedChange(Value):
    """What a merge does for one agent's change. `before` and `after` are manifests."""

    agent: str
    agent_id: str
    fingerprint: str  # of the whole change; a later one is another change
    files: int = 0
    before: str = ""  # "": there is nothing to do for it
    after: str = ""


class MergeBegan(Tagged):
    """A merge of agents' changes is about to write: all contents are stored."""

    merge_id: str
    changes: tuple[MergedChange, ...]
    into: str = ""  # id of the agent whose copy gets them; "": the project does


class MergeEnded(Tagged):
    """The merge is done, or nothing of it is. `left`: paths that somebody changed meanwhile."""

    merge_id: str
    applied: bool
    left: tuple[str, ...] = ()
    reason: str = ""  # why nothing of it is done


class ChangeDiscarded(Tagged):
    """A person gave up an agent's change as it was then."""

    agent_id: str
    fingerprint: str


class ChangeMeasured(Tagged):
    """What an agent has in its copy when a turn of it has ended, and whether that fits then."""

    agent_id: str
    added: int = 0  # lines, likewise `removed`
    removed: int = 0
    files: int = 0
    conflicts: int = 0  # files that do not fit the project
    is_merged: bool = False  # all of it is in the project
    into: str = ""  # `the copy of /root`, if that is what it is merged into; "": the project

    @property
    def size(self) -> str:
        """`+120 -14 in 5 files`."""
        files = "1 file" if self.files == 1 else f"{self.files} files"
        return f"+{self.added} -{self.removed} in {files}"


AnyMergeRecord = MergeBegan | MergeEnded | ChangeDiscarded | ChangeMeasured
