"""How an agent works, as far as that can change while it lives. Values only."""

from typing import Literal

from .base import Value
from .limits import Limits

Summary = Literal["auto", "concise", "detailed", "none"]  # of the model's reasoning
SandboxMode = Literal["read-only", "workspace-write", "danger-full-access"]
Verbosity = Literal["low", "medium", "high"]  # of its answers, where the model knows it


class AgentSettings(Value):
    """Always told whole: what has not changed is said again."""

    model: str | None = None  # None = the run's default
    effort: str | None = None  # None = the model's default
    summary: Summary = "auto"
    verbosity: Verbosity | None = None
    limits: Limits = Limits()
    cwd: str = ""
