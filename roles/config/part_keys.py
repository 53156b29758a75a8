"""The keys of parts, in a configuration and in a role's file, each with the part's own struct.

Values only. A new part adds itself to what it has of these.
"""

from typing import Literal, NamedTuple

from swarm.mailbox.parts.accounts.account_messages import LoginTable
from swarm.mailbox.parts.clouds.cloud_messages import AwsTable, GoogleTable
from swarm.mailbox.parts.leases.lease_messages import LeaseSettings
from swarm.mailbox.parts.memories.memory_messages import MemorySettings
from swarm.mailbox.parts.notices.notice_messages import NotifySettings
from swarm.mailbox.protocol.settings import KeepSecrets
from swarm.mailbox.protocol.spec import ProviderSettings
from swarm.mailbox.protocol.values.base import Value

from ..parts.goals.goal_table import GoalTable
from ..parts.notices.notify_table import notify_settings, token_variables
from .model_keys import ModelKeys


class PartKeys(ModelKeys):
    """Tables of the configuration."""

    leases: LeaseSettings = LeaseSettings()  # swarm's own
    memories: bool | MemorySettings = False
    # a program, started after each turn of the root; as a table swarm's own: where one is told
    notify: tuple[str, ...] | NotifySettings = ()
    wait_for_limit: str | int | float | None = None  # swarm's own
    login: dict[str, LoginTable] = {}  # swarm's own: how one signs in
    mcp_oauth_credentials_store: KeepSecrets = "auto"  # of accounts too
    forced_login_method: Literal["chatgpt", "api"] | None = None
    forced_chatgpt_workspace_id: str | tuple[str, ...] = ()


class ProviderPartKeys(ProviderSettings):
    """Tables of a `[model_providers.ID]`: sources of its key, each of which excludes all others."""

    aws: AwsTable | None = None
    google: GoogleTable | None = None  # swarm's own


PROVIDER_PART_TABLES: dict[str, type[Value]] = {"aws": AwsTable, "google": GoogleTable}


def turn_program(config: PartKeys) -> tuple[str, ...]:
    """The program that is started after each turn of the root. Raises UsageError."""
    return notify_settings(config.notify).program


def notify_variables(config: PartKeys) -> tuple[str, ...]:
    """Variables that hold tokens of sinks; they leave the environment before anything starts."""
    return token_variables(config.notify)


class RolePartKeys(ModelKeys):
    """Keys of a role's file; swarm's own."""

    memories: bool = False  # its agents read what is remembered


class RoleParts(Value):
    """What a role says of parts."""

    memories: bool = False


def role_parts(file: RolePartKeys) -> RoleParts:
    """What the file of a role says of parts."""
    return RoleParts(memories=file.memories)


class PartFront(Value):
    """Keys of a task file; they need no trust, since they give no agent more than it has."""

    goal: GoalTable | None = None
    protect: tuple[str, ...] = ()  # files and folders that no agent may change


class PartOptions(Value):
    """Options of `swarm run`, as `part_names.py` defines them."""

    goal: str | None = None
    verify: tuple[str, ...] = ()
    goal_rounds: int | None = None
    judge: str | None = None
    protect: tuple[str, ...] = ()


class PartKey(NamedTuple):
    """What is to be said of a part's table."""

    meaning: str  # what a project's own file does with it, for the summary of trust
    of_the_run: bool = False  # a role cannot set it


class PartFeature(NamedTuple):
    """A switch for a whole part, off unless somebody turns it on."""

    meaning: str
    former_name: str  # Codex's


PART_KEYS = {
    "leases": PartKey("changes how heavy commands take turns", of_the_run=True),
    "wait_for_limit": PartKey("changes how long a run waits for a limit to reset", of_the_run=True),
    "memories": PartKey("keeps what runs learn here, for later runs"),
}
PART_FEATURES = {
    "memories": PartFeature(
        "what a run learned is kept, and read by later runs in the same project", "memory_tool"
    ),
}
