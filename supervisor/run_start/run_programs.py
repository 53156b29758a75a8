"""What a run starts outside of a sandbox, found once at its start, and closed to its agents."""

from pathlib import Path

import msgspec

from swarm.mailbox.base.held_programs import Lookup, why_unheld
from swarm.mailbox.base.installation import InstallationExposure, describe_exposure
from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import ReadOnly
from swarm.roles.base.login_shell import why_start_unheld

from ..parts.mcp.held_servers import WantedServers, hold_servers
from ..request.run_places import exposure_of, writable_places
from ..request.run_request import RunRequest


class HeldRun(Value):
    """A request whose programs are absolute paths."""

    request: RunRequest
    places: WritablePlaces  # where agents may write
    protected: tuple[str, ...]  # canonical: closed to the commands of all agents
    warnings: tuple[str, ...]


def hold_programs(request: RunRequest, server_programs: Path) -> HeldRun:
    """Reads the disk; blocks for some milliseconds where there are such programs.

    Args:
        server_programs: The folder of what MCP servers consisted of.
    """
    exposure = exposure_of(request.sandbox, request.cwd, request.add_dirs)
    places = writable_places(request)
    servers = hold_servers(
        WantedServers(
            request.mcp.servers,
            request.environment,
            request.cwd,
            request.mcp_credentials,
            server_programs,
        ),
        places,
    )
    mcp = msgspec.structs.replace(request.mcp, servers=servers.servers)
    shell = _shell_warning(request, places)
    return HeldRun(
        request=msgspec.structs.replace(
            request, mcp=mcp, shell_snapshot=request.shell_snapshot and not shell
        ),
        places=msgspec.structs.replace(places, shut=(*places.shut, *servers.protected)),
        protected=(*exposure.closed, *servers.protected, *request.parts.goals.protect),
        warnings=tuple(
            filter(
                None,
                (
                    _exposure_warning(request, exposure),
                    _module_warning(request, places),
                    shell,
                    *servers.warnings,
                ),
            )
        ),
    )


def _exposure_warning(request: RunRequest, exposure: InstallationExposure) -> str:
    """Nothing of closed folders to whom lets agents write nowhere."""
    if exposure.closed and isinstance(request.sandbox, ReadOnly):
        exposure = msgspec.structs.replace(exposure, closed=())
    return describe_exposure(exposure)


def _shell_warning(request: RunRequest, places: WritablePlaces) -> str:
    """What is said if no login shell is asked, since it would run what agents wrote."""
    if not request.shell_snapshot or places.everywhere:
        return ""
    lookup = Lookup(request.environment.get("PATH", ""), "/", places)
    why = why_start_unheld(request.environment, lookup)
    if not why:
        return ""
    return (
        f"no login shell is asked for its variables, since it would run what agents write: {why}; "
        "commands have the variables of this terminal"
    )


def _module_warning(request: RunRequest, places: WritablePlaces) -> str:
    """What is said of a PYTHONPATH that leads to where agents write."""
    named = request.environment.get("PYTHONPATH", "").split(":")
    found = [one for one in named if one.startswith("/") and why_unheld(one, places)]
    if not found:
        return ""
    return (
        f"PYTHONPATH names {', '.join(found)}, where agents write: every Python that you start "
        "loads modules from there, swarm too at its next start; set it for your tests alone"
    )
