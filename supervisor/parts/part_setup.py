"""What parts do before a run and after it, in the process of the command line; the list of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from swarm.mailbox.parts.part_messages import PartCredentials, PartSettings
from swarm.mailbox.parts.wakeups.wakeup_messages import WakeUpSettings
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.roles.config.part_keys import PartFront, PartKeys, PartOptions, ProviderPartKeys
from swarm.roles.config.wait_for_limit import check_wait_for_limit
from swarm.roles.parts.leases.lease_settings import check_lease_settings
from swarm.roles.parts.memories.memory_settings import check_memory_settings
from swarm.roles.parts.notices.notify_table import notify_settings

from ..processes.machine_state import memory_bytes
from ..request.run_request import RunRequest
from ..runs.paths import UserPaths
from .accounts.account_list import AccountLine, list_accounts
from .accounts.account_providers import with_accounts
from .clouds import cloud_providers
from .goals.goal_setup import goal_settings
from .memories.memory_choice import run_memories


class PartsWanted(NamedTuple):
    """What is said of parts: in the configuration, in the task file, on the command line."""

    config: PartKeys
    front: PartFront = PartFront()
    options: PartOptions = PartOptions()
    is_persons: bool = False  # a person started the run, and not a script, a service or a review


def with_parts(
    request: RunRequest, wanted: PartsWanted, *, is_enabled: Callable[[str], bool]
) -> RunRequest:
    """The request with what is said of each part. Raises UsageError.

    Args:
        request: The run.
        wanted: What is said of its parts.
        is_enabled: Tells of a feature by its name.
    """
    config = wanted.config
    leases = check_lease_settings(config.leases, ram_bytes=memory_bytes())
    memories = check_memory_settings(table=config.memories, is_enabled=is_enabled("memories"))
    parts = PartSettings(
        leases=leases,
        memories=run_memories(memories, cwd=request.cwd, ephemeral=request.ephemeral),
        wakeups=WakeUpSettings(
            wait_for_limit_s=check_wait_for_limit(
                config.wait_for_limit, is_persons=wanted.is_persons
            )
        ),
        goals=goal_settings(request, wanted.front, wanted.options),
        notices=notify_settings(config.notify),
    )
    return msgspec.structs.replace(request, parts=parts)


def with_part_providers(
    config: PartKeys, configured: Sequence[ProviderSpec]
) -> tuple[ProviderSpec, ...]:
    """The configured providers, and what parts make of them. Raises UsageError."""
    return with_accounts(config, configured)


def part_credentials(
    place: str, base_url: str, table: ProviderPartKeys, environment: Mapping[str, str]
) -> PartCredentials | None:
    """What gives the provider at `place` its key, if a part does; its table was checked."""
    return cloud_providers.credentials_of(place, base_url, table, environment)


def part_credentials_problem(base_url: str, table: ProviderPartKeys) -> tuple[str, str] | None:
    """(key, reason) of the first error in a part's table of a provider."""
    return cloud_providers.credentials_problem(base_url, table)


def part_key_variables(table: ProviderPartKeys) -> tuple[str, ...]:
    """Variables with secrets of a part's table of a provider."""
    return cloud_providers.credential_variables(table)


def lacking_part_library(table: ProviderPartKeys) -> tuple[str, str] | None:
    """(a library that is not there, how one gets it)."""
    return cloud_providers.lacking_library(table)


def part_accounts(config: PartKeys) -> list[AccountLine]:
    """What is stored of accounts, without any part of a key."""
    return list_accounts(config)


def with_limit_wait(request: RunRequest, wanted: str | None) -> RunRequest:
    """A saved request with the value of `--wait-for-limit`. Raises UsageError."""
    if wanted is None:
        return request
    wait_s = check_wait_for_limit(wanted, is_persons=False)
    parts = msgspec.structs.replace(request.parts, wakeups=WakeUpSettings(wait_for_limit_s=wait_s))
    return msgspec.structs.replace(request, parts=parts)


def after_run(request: RunRequest, places: UserPaths) -> None:
    """The run has ended, and its answer is told. Nothing here may fail it."""
    memories = request.parts.memories.settings
    if memories.enabled and memories.generate:
        from .memories.memory_start import start_memory_job  # few runs have memories

        start_memory_job(request, places)
