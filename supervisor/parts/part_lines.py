"""Each record of a part as one line for people; all text is cleaned. The list of them."""

from typing import assert_never

from swarm.mailbox.parts.leases.lease_messages import HeavyCommandEnded
from swarm.mailbox.parts.memories.memory_messages import MemoryMarked
from swarm.mailbox.parts.part_messages import PartRecord

from ..console.safe_text import clean_line
from .leases.lease_lines import describe_heavy_command


def describe_part_record(record: PartRecord) -> str:
    """In every view the same."""
    match record:
        case HeavyCommandEnded():
            return describe_heavy_command(record)
        case MemoryMarked(fact_id=fact_id, why=why):
            return clean_line(f"{fact_id} may be untrue: {why}")
        case _:
            assert_never(record)
