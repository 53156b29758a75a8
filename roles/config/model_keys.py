"""The keys about a model and its tools that more than one kind of file has. Values only."""

from typing import Annotated

import msgspec
from msgspec import Meta

from swarm.mailbox.protocol.settings import PromptSize, SamplingSettings, ToolChoice
from swarm.mailbox.protocol.values.base import Value

Toml = dict[str, object]


class ToolsTable(Value):
    """`[tools]`: swarm's own `only` and `exclude`, and Codex's keys."""

    only: tuple[str, ...] | None = None  # as `tools = […]`
    exclude: tuple[str, ...] = ()
    view_image: bool = True  # false: as excluded
    web_search: bool | Toml = False  # no effect


class ModelKeys(Value):
    """Swarm's own keys that a configuration, a role's file and `[agents.NAME]` have alike."""

    tools: tuple[str, ...] | ToolsTable | None = None
    prompt: PromptSize = ""  # "short" or "full"; "" = as the model's catalogue entry says
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    repeat_penalty: Annotated[float, Meta(gt=0, le=10)] | None = None
    seed: Annotated[int, Meta(ge=0, lt=1 << 32)] | None = None

    @property
    def tool_choice(self) -> ToolChoice:
        """The tools that are left."""
        match self.tools:
            case None:
                return ToolChoice()
            case ToolsTable(only=only, exclude=exclude, view_image=sees):
                return ToolChoice(only=only, exclude=exclude if sees else (*exclude, "view_image"))
            case only:
                return ToolChoice(only=only)

    @property
    def sampling(self) -> SamplingSettings:
        """How responses are sampled."""
        return msgspec.convert(self, SamplingSettings, from_attributes=True)
