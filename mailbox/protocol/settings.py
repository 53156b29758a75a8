"""Settings of an agent that can change while it runs. Values only."""

from fnmatch import fnmatchcase
from typing import Literal

from ..parts.tool_names import ALWAYS_KEPT
from .values.base import Value
from .values.limits import Limits

Summary = Literal["auto", "concise", "detailed", "none"]  # of the model's reasoning
SandboxMode = Literal["read-only", "workspace-write", "danger-full-access"]
# of reasoning, from the least to the most; a model may know only some of them
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
Verbosity = Literal["low", "medium", "high"]  # of its answers, if the model supports it

KeepSecrets = Literal["auto", "file", "keyring"]  # `mcp_oauth_credentials_store`

# of the instructions and the context; "" = as the model's catalogue entry says
PromptSize = Literal["", "short", "full"]


class SamplingSettings(Value):
    """How a response is sampled; None: the server's default. Sent where the wire has the field."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repeat_penalty: float | None = None
    seed: int | None = None


class ToolChoice(Value):
    """Which tools an agent has, by name. A role or a configuration only takes tools away."""

    only: tuple[str, ...] | None = None  # None: those that its model gets
    exclude: tuple[str, ...] = ()

    def allows(self, name: str) -> bool:
        """True if the tool was not taken away."""
        chosen = self.only is None or name in self.only
        return name in ALWAYS_KEPT or (chosen and name not in self.exclude)

    def narrowed(self, other: "ToolChoice") -> "ToolChoice":
        """The tools that both leave."""
        only = self.only if other.only is None else other.only
        if self.only is not None and other.only is not None:
            only = tuple(name for name in other.only if name in self.only)
        return ToolChoice(only=only, exclude=tuple(dict.fromkeys((*self.exclude, *other.exclude))))


class SkillChoice(Value):
    """Which skills an agent is told of, by name. Excluded names may hold `*` and `?`."""

    only: tuple[str, ...] | None = None  # None: all of the run
    exclude: tuple[str, ...] = ()

    def allows(self, name: str) -> bool:
        """True if the skill was not taken away."""
        if self.only is not None and name not in self.only:
            return False
        return not any(fnmatchcase(name, pattern) for pattern in self.exclude)

    def narrowed(self, other: "SkillChoice") -> "SkillChoice":
        """The skills that both leave."""
        only = self.only if other.only is None else other.only
        if self.only is not None and other.only is not None:
            only = tuple(name for name in other.only if name in self.only)
        return SkillChoice(only=only, exclude=tuple(dict.fromkeys((*self.exclude, *other.exclude))))


class ModelSettings(Value):
    """Which model an agent asks, where, and how. A run's are its root's."""

    model: str | None = None  # None: the provider's default
    effort: str | None = None  # None: the model's default
    provider: str | None = None  # None: the run's own
    fallback: tuple[str, ...] = ()  # `provider:model`, in turn, when a provider fails for good
    summary: Summary = "auto"
    verbosity: Verbosity | None = None


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
