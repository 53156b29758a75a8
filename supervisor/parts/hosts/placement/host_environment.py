"""The environment of commands on a machine: the run's policy, narrowed by its host's table."""

from msgspec.structs import replace

from swarm.mailbox.protocol.nodes import HostEnvironment
from swarm.mailbox.protocol.spec import ShellEnvironmentPolicy

_WIDTHS = ("none", "core", "all")


def narrowed(policy: ShellEnvironmentPolicy, own: HostEnvironment) -> ShellEnvironmentPolicy:
    """Inherits what both let through. What the table sets comes over what the run sets."""
    return replace(
        policy,
        inherit=min(policy.inherit, own.inherit, key=_width),
        exclude=tuple(dict.fromkeys((*policy.exclude, *own.exclude))),
        set=policy.set | own.set,
    )


def _width(inherit: str) -> int:
    """An unknown word inherits nothing."""
    return _WIDTHS.index(inherit) if inherit in _WIDTHS else 0
