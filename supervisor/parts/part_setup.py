"""What parts do before a run and after it, in the process of the command line; the list of them."""

from collections.abc import Callable, Sequence

import msgspec

from swarm.mailbox.parts.part_messages import PartSettings
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.roles.config.part_keys import PartKeys
from swarm.roles.parts.leases.lease_settings import check_lease_settings
from swarm.roles.parts.memories.memory_settings import check_memory_settings

from ..processes.machine_state import memory_bytes
from ..request.run_request import RunRequest
from ..runs.paths import UserPaths
from .accounts.account_list import AccountLine, list_accounts
from .accounts.account_providers import with_accounts
from .memories.memory_choice import run_memories


def with_parts(
    request: RunRequest, config: PartKeys, *, is_enabled: Callable[[str], bool]
) -> RunRequest:
    """The request with what the configuration says of each part. Raises UsageError.

    `is_enabled` tells of a feature by its name.
    """
    leases = check_lease_settings(config.leases, ram_bytes=memory_bytes())
    memories = check_memory_settings(table=config.memories, is_enabled=is_enabled("memories"))
    parts = PartSettings(
        leases=leases,
        memories=run_memories(memories, cwd=request.cwd, ephemeral=request.ephemeral),
    )
    return msgspec.structs.replace(request, parts=parts)


def with_part_providers(
    config: PartKeys, configured: Sequence[ProviderSpec]
) -> tuple[ProviderSpec, ...]:
    """The configured providers, and what parts make of them. Raises UsageError."""
    return with_accounts(config, configured)


def part_accounts(config: PartKeys) -> list[AccountLine]:
    """What is stored of accounts, without any part of a key."""
    return list_accounts(config)


def after_run(request: RunRequest, places: UserPaths) -> None:
    """The run has ended, and its answer is told. Nothing here may fail it."""
    memories = request.parts.memories.settings
    if memories.enabled and memories.generate:
        from .memories.memory_start import start_memory_job  # few runs have memories

        start_memory_job(request, places)
