"""Rules for Unix sockets of other programs: read from the configuration, and narrowed for children.

A child can never reach more sockets than its parent. A read-only role reaches none unless
it names them or asks for network access. Its only I/O is resolving links in paths.
"""

import os

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import KERNEL_TREES, is_within
from swarm.mailbox.protocol.values.limits import UnixSockets

from ..config.layers.requirements import NetworkRequirements
from ..config.schema import Config, NetworkTable

MAX_SOCKETS = 100


def run_socket_rules(config: Config, profile: NetworkTable | None = None) -> UnixSockets:
    """What the run allows, including the table of the active permission profile.

    The rules apply with and without the network proxy. Raises UsageError for an invalid path.
    """
    own = read_socket_table(config.network, "network")
    if profile is None:
        return own
    more = read_socket_table(profile, f"permissions.{config.default_permissions}.network")
    return UnixSockets(
        allow=_joined(own.allow, more.allow),
        deny=_joined(own.deny, more.deny),
        every=own.every or more.every,
    )


def read_socket_table(table: NetworkTable, place: str) -> UnixSockets:
    """The table's sockets, links resolved. Raises UsageError."""
    if len(table.unix_sockets) > MAX_SOCKETS:
        raise UsageError(f"{place}.unix_sockets: more than {MAX_SOCKETS} paths")
    allow: list[str] = []
    deny: list[str] = []
    for path, word in table.unix_sockets.items():
        real = socket_path(path, f"{place}.unix_sockets")
        (deny if word == "none" else allow).append(real)
    return UnixSockets(
        allow=_joined(tuple(allow)),
        deny=_joined(tuple(deny)),
        every=table.dangerously_allow_all_unix_sockets,
    )


def socket_path(path: str, place: str) -> str:
    """The path with links resolved. Raises UsageError for a path that no rule may name."""
    if not path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise UsageError(f"{place}: `{path}` must be an absolute path without `..`")
    real = os.path.realpath(path)
    if real == "/" or any(is_within(real, tree) for tree in KERNEL_TREES):
        raise UsageError(f"{place}: `{path}` cannot be shown, a sandbox has its own there")
    return real


def intersect_sockets(one: UnixSockets, other: UnixSockets) -> UnixSockets:
    """The widest rules that allow nothing that either of the two forbids."""
    named = _joined(one.allow, other.allow)
    return UnixSockets(
        allow=tuple(path for path in named if one.permits(path) and other.permits(path)),
        deny=_joined(one.deny, other.deny),
        every=one.every and other.every,
    )


def apply_socket_requirements(rules: UnixSockets, demand: NetworkRequirements) -> UnixSockets:
    """Apply an administrator's requirements: if there is a list, nothing else is allowed."""
    if demand.all_sockets is False or (demand.sockets is not None and not demand.all_sockets):
        rules = msgspec.structs.replace(rules, every=False)
    if demand.sockets is None:
        return rules
    real = {os.path.realpath(path): word for path, word in demand.sockets.items()}
    forbidden = tuple(path for path, word in real.items() if word == "none")
    return UnixSockets(
        allow=tuple(path for path in rules.allow if real.get(path) == "allow"),
        deny=_joined(rules.deny, forbidden),
        every=rules.every,
    )


def _joined(*lists: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for paths in lists for path in paths))
