"""Says what of a run would be lost with it: work of agents in copies that is not merged. Blocks."""

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.ids import short_id

from ..runs.paths import RunPaths

_MAX_NAMED = 8


def describe_held_work(run_paths: RunPaths) -> str:
    """Which agents' work is not merged; "" for none. What cannot be read counts as work."""
    if not run_paths.copies.is_dir():
        return ""
    from .merge_service import CopiedWork  # few runs have copies

    name = short_id(run_paths.folder.name)
    try:
        found = CopiedWork(run_paths).unmerged()
    except (SwarmError, OSError, ValueError) as error:
        return f"run {name} has work of agents that cannot be read ({error})"
    if not found:
        return ""
    names = ", ".join(change.agent for change in found[:_MAX_NAMED])
    return f"run {name} has unmerged work of {names} (swarm merge {name} --check)"
