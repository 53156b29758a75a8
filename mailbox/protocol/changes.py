"""What is done to a file, as people are shown it."""

from typing import Literal

from .base import Value


class FileChange(Value):
    path: str  # absolute
    kind: Literal["add", "delete", "update"]
    unified_diff: str = ""
    move_path: str | None = None


class Shortened(Value):
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
