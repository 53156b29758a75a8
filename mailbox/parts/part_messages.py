"""The parts: what each adds to a run's settings, to what agents are told, and to messages.

The kernel names this list, never what a part consists of. A new part adds itself to each of these.
"""

import msgspec

from ..protocol.base import Value
from .leases.lease_messages import (
    FormerLeaseSettings,
    HeavyCommandEnded,
    LeaseGiven,
    LeaseRules,
    LeaseSettings,
    QueuedForLease,
    TakeLease,
)

PartRequest = TakeLease  # of agents
PartReply = LeaseGiven
PartQueued = QueuedForLease  # told before the reply, any number of times
PartRecord = HeavyCommandEnded  # events of agents that are journaled as they are


class PartSettings(Value):
    """What the configuration says of each part, for a whole run."""

    leases: LeaseSettings = LeaseSettings()


class FormerPartSettings(Value):
    """The same where runs kept it before there were parts; None: a run of today."""

    leases: FormerLeaseSettings | None = None

    def on(self, settings: PartSettings) -> PartSettings:
        """The settings of a run that may be a former one."""
        if self.leases is None:
            return settings
        return msgspec.structs.replace(settings, leases=self.leases.settings)


class PartRules(Value):
    """What an agent's process is told of each part."""

    leases: LeaseRules = LeaseRules()
