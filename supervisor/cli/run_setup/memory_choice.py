"""What a run does with memories, and what its agents are told of them."""

import os

import msgspec

from swarm.roles.config.memory_settings import memory_settings
from swarm.roles.config.schema import Config

from ...run_request import RunRequest
from ...runs.paths import find_user_paths


def with_memories(request: RunRequest, config: Config, *, is_enabled: bool) -> RunRequest:
    """The request with the memories that its agents read; unchanged where they are off.

    An ephemeral run is no source: its journal is gone at its end. Raises UsageError.
    """
    settings = memory_settings(table=config.memories, is_enabled=is_enabled)
    if not settings.enabled:
        return request
    from ...memories.memory_context import read_memory_text  # few runs have memories

    if request.ephemeral:
        settings = msgspec.structs.replace(settings, generate=False)
    folder = find_user_paths(dict(os.environ)).memories
    text = read_memory_text(settings, folder, request.cwd)
    return msgspec.structs.replace(request, memories=settings, memory_text=text)
