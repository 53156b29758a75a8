"""What a run starts outside of a sandbox, found once at its start, and closed to its agents."""

import msgspec

from swarm.mailbox.held_programs import why_unheld
from swarm.mailbox.installation import describe_exposure
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.writable_places import WritablePlaces

from .mcp.held_servers import hold_servers
from .run_places import exposure_of, writable_places
from .run_request import RunRequest


class HeldRun(Value):
    """A request whose programs are absolute paths."""

    request: RunRequest
    places: WritablePlaces  # where agents may write
    protected: tuple[str, ...]  # canonical: closed to the commands of all agents
    warnings: tuple[str, ...]


def hold_programs(request: RunRequest) -> HeldRun:
    """Reads the disk; blocks for some milliseconds where there are such programs."""
    exposure = exposure_of(request.sandbox, request.cwd, request.add_dirs)
    places = writable_places(request)
    servers = hold_servers(request, places)
    mcp = msgspec.structs.replace(request.mcp, servers=servers.servers)
    return HeldRun(
        request=msgspec.structs.replace(request, mcp=mcp),
        places=msgspec.structs.replace(places, shut=(*places.shut, *servers.protected)),
        protected=(*exposure.closed, *servers.protected),
        warnings=tuple(
            filter(
                None,
                (describe_exposure(exposure), _module_warning(request, places), *servers.warnings),
            )
        ),
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
