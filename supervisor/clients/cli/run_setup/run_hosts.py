"""Which other machines the agents of a run may use."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from msgspec.structs import replace

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.own_distribution import line_for_extra
from swarm.mailbox.protocol.nodes import HostTable
from swarm.mailbox.protocol.values.limits import DangerFullAccess
from swarm.roles.config.host_settings import HostToml, host_tables
from swarm.roles.role_loader import find_role

from ....base.version import VERSION
from ....parts.hosts.placement.host_choice import HERE, resources_of
from ....request.run_request import RunRequest, with_items
from .python_lock import read_lock
from .run_settings import RunSettings
from .task_file import FanOutTable


def read_hosts(tables: Mapping[str, HostToml]) -> tuple[HostTable, ...]:
    """The tables of a configuration, with the locks that they name. Raises UsageError."""
    return tuple(_with_lock(one, tables[one.name].python_env) for one in host_tables(tables))


def _with_lock(table: HostTable, path: str) -> HostTable:
    if not path:
        return table
    key = f"hosts.{table.name}.python_env"
    return replace(table, python_env=read_lock(key, path, version=VERSION))


def find_hosts(tables: Sequence[HostTable], wanted: Sequence[str]) -> tuple[HostTable, ...]:
    """The tables of these names, in their order. Raises UsageError for one that there is not."""
    known = {table.name: table for table in tables}
    for name in wanted:
        if name not in known:
            names = ", ".join(known)
            raise UsageError(
                f"there is no host {name!r}; "
                + (f"there are: {names}" if names else "[hosts.NAME] in config.toml makes one")
            )
    return tuple(known[name] for name in dict.fromkeys(wanted))


def with_hosts(request: RunRequest, settings: RunSettings, wanted: Sequence[str]) -> RunRequest:
    """The request with the machines that `--hosts` names; the first ones are the usual ones.

    Agents in copies go there, so the agents that the root starts work in copies, and a fan-out
    goes there whatever its role. Raises UsageError.
    """
    fan = settings.task.front.fan_out
    if not wanted:
        if fan is not None and fan.host not in {None, HERE}:
            raise UsageError(
                f"fan_out.host: this run uses no other machines; start it with --hosts {fan.host}"
            )
        _check_resources(fan)
        return request
    hosts = find_hosts(read_hosts(settings.config.hosts), wanted)
    _check(request)
    if request.copies.isolation == "run":
        raise UsageError(
            "--hosts: agents go to other machines from a root that shares the project; use "
            "--isolate=children, or isolation: children"
        )
    copies = replace(request.copies, hosts=hosts, host=hosts[0].name, isolation="copy")
    request = replace(request, copies=copies)
    if fan is None:
        return request
    role = find_role(request.roles, fan.role)
    host = fan.host or role.host or request.copies.host
    if host == HERE:
        _check_resources(fan)
        return request
    find_hosts(hosts, [host])
    resources = resources_of(role, fan.resources)
    return with_items(
        request, lambda one: replace(one, host=host, resources=resources, isolation="copy")
    )


def _check_resources(fan: FanOutTable | None) -> None:
    """Raises UsageError if items that stay here are to take something of other machines."""
    if fan is not None and fan.resources:
        raise UsageError("fan_out.resources: these are of other machines, and the items work here")


def _has_ray() -> bool:
    """True if it is installed; it is not loaded."""
    try:
        return find_spec("ray") is not None
    except ImportError:
        return False


def _check(request: RunRequest) -> None:
    """Raises UsageError without Ray, and for what no other machine could hold agents to."""
    if not _has_ray():
        raise UsageError(f"--hosts: Ray is not installed; to install it: {line_for_extra('ray')}")
    if isinstance(request.sandbox, DangerFullAccess):
        raise UsageError(
            "--hosts: without a sandbox nothing holds agents to copies of the project; use "
            "--sandbox workspace-write or read-only"
        )
    if request.ephemeral:
        raise UsageError("--hosts: --ephemeral keeps nothing, so the work there would be lost")
    if request.network is not None:
        raise UsageError(
            "--hosts: commands on other machines cannot use the run's network proxy; leave "
            "[network] out, or --hosts"
        )
    if request.inherited.hooks:
        raise UsageError(
            "--hosts: this run has hooks, which are programs of this machine, and agents on other "
            "machines would go without them; `swarm hooks list` shows them, and `swarm hooks "
            "disable ID` switches one off"
        )
