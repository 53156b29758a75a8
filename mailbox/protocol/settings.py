"""Settings of an agent that can change while it runs. Values only."""

from typing import Literal

from .base import Value
from .limits import Limits

Summary = Literal["auto", "concise", "detailed", "none"]  # of the model's reasoning
SandboxMode = Literal["read-only", "workspace-write", "danger-full-access"]
# of reasoning, from the least to the most; a model may know only some of them
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
Verbosity = Literal["low", "medium", "high"]  # of its answers, if the model supports it


class AgentSettings(Value):
    """Always sent complete, with unchanged values."""

    model: str | None = None  # None = the provider's default
    effort: str | None = None  # None = the model's default
    summary: Summary = "auto"
    verbosity: Verbosity | None = None
    limits: Limits = Limits()
    cwd: str = ""
    allowed: Limits | None = None  # in plan mode: what it gets when its plan is accepted
    widened: bool = False  # a person gave it more than the run began with
    provider: str | None = None  # None = the run's own
    fallbacks_taken: int = 0  # how many entries of its fallback list are used up
