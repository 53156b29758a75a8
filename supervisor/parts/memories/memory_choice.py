"""What a run does with memories, and what its agents are told of them."""

import os

import msgspec

from swarm.mailbox.parts.memories.memory_messages import MemorySettings, RunMemories

from ...runs.paths import find_user_paths


def run_memories(settings: MemorySettings, *, cwd: str, ephemeral: bool) -> RunMemories:
    """With the memories that its agents read. An ephemeral run is no source: its journal is gone.

    Blocks.
    """
    if not settings.enabled:
        return RunMemories()
    from .memory_context import read_memory_text  # few runs have memories
    from .memory_paths import memories_folder

    if ephemeral:
        settings = msgspec.structs.replace(settings, generate=False)
    folder = memories_folder(find_user_paths(dict(os.environ)).state)
    return RunMemories(settings=settings, text=read_memory_text(settings, folder, cwd))
