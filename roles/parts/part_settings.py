"""What the configuration says of each part, checked; the list of parts whose tables are read."""

from swarm.mailbox.parts.part_messages import PartSettings

from ..config.part_keys import PartKeys
from .leases.lease_settings import check_lease_settings


def part_settings(config: PartKeys, *, ram_bytes: int) -> PartSettings:
    """For a run on this machine. Raises UsageError that names the key."""
    return PartSettings(leases=check_lease_settings(config.leases, ram_bytes=ram_bytes))
