"""Journal records of machines on which agents of a run work besides the supervisor's."""

from .values.base import Tagged


class HostJoined(Tagged):
    """Agents can be started on this machine."""

    node: str  # its name: the table's and the address
    host: str  # the table `[hosts.NAME]`
    slots: int
    version: str = ""
    sandbox: str = ""
    copies: str = ""  # why copies are folders of their own there; "": they are overlays


class HostPrepared(Tagged):
    """The commands of the table's `prepare` have run on this machine, for all agents there."""

    node: str
    seconds: float = 0.0
    problem: str = ""  # why its agents go without what they were to make: no agent starts there


class HostDrained(Tagged):
    """No agent is started on this machine any more; those that are there finish."""

    node: str
    reason: str = ""


class HostLeft(Tagged):
    """No agent is left on this machine, and none is started there any more."""

    node: str
    reason: str = ""


AnyHostRecord = HostJoined | HostPrepared | HostDrained | HostLeft
