"""Says what of a run would be lost with it: unmerged work, and merges that were cut off. Blocks."""

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import short_id

from ...runs.paths import RunPaths

_MAX_NAMED = 8


def describe_unmerged(run_paths: RunPaths) -> str:
    """`/root/one 2 files, /root/two 1 file`; "" for none. Never raises."""
    if not run_paths.copies.is_dir():
        return ""
    from .merge_service import CopiedWork  # few runs have copies
    from .merge_summary import describe_agents

    try:
        return describe_agents(CopiedWork(run_paths).unmerged())
    except (SwarmError, OSError, ValueError) as error:
        return f"not known ({error})"


def describe_held_work(run_paths: RunPaths) -> str:
    """Which work is not merged, or not wholly; "" for none. What cannot be read counts as work."""
    if not run_paths.copies.is_dir():
        return ""
    from .cut_off_merges import describe_cut_off  # few runs have copies
    from .merge_service import CopiedWork

    name = short_id(run_paths.folder.name)
    try:
        if cut_off := "\n".join(describe_cut_off(run_paths)):
            return f"run {name} has the only copies of a person's files: {cut_off}"
        found = CopiedWork(run_paths).unmerged()
    except (SwarmError, OSError, ValueError) as error:
        return f"run {name} has work of agents that cannot be read ({error})"
    if not found:
        return ""
    names = ", ".join(change.agent for change in found[:_MAX_NAMED])
    return f"run {name} has unmerged work of {names} (swarm merge {name} --check)"
