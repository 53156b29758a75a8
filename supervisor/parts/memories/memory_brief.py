"""What of memories a model is told that reads little. Pure."""

_BRIEF_MEMORIES = 12  # lines


def brief_memories(block: str) -> str:
    """The first lines of what is remembered, for a model that reads little; "" for none."""
    lines = [line.rpartition(" [")[0] for line in block.split("\n") if line.startswith("- ")]
    if not lines:
        return ""
    return "\n".join(("What earlier runs found out here:", *lines[:_BRIEF_MEMORIES]))
