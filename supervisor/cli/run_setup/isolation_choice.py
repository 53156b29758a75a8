"""Which agents of a run work in copies of the project, if they can; and what its end merges."""

import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.limits import DangerFullAccess, Isolation
from swarm.roles.narrow import narrow_isolation, narrow_sandbox
from swarm.roles.role_loader import find_role

from ...run_request import RunRequest
from ..options import RunOptions
from ..require_sandbox import check_copies
from .run_settings import RunSettings


def with_isolation(request: RunRequest, options: RunOptions, settings: RunSettings) -> RunRequest:
    """The request with what flag, task and roles say. A flag or a role adds copies, none takes one.

    The root shares the project, unless its role says otherwise: it is the one that merges.

    Raises UsageError, and SandboxMissing where no copy can be had: nothing was started.
    """
    request = msgspec.structs.replace(request, merge=settings.config.merge)
    front, sandbox = settings.task.front, request.sandbox
    own: Isolation = "copy" if options.isolate or front.isolation == "copy" else "shared"
    root = narrow_isolation(settings.role.isolation, sandbox=sandbox)
    items: Isolation = "shared"
    if front.fan_out is not None:
        role = find_role(request.roles, front.fan_out.role)
        items = narrow_isolation(
            own, front.fan_out.isolation, role.isolation, sandbox=narrow_sandbox(sandbox, role)
        )
    if "copy" not in (own, root, items):
        return request
    if isinstance(sandbox, DangerFullAccess):
        raise UsageError(
            "isolation: without a sandbox nothing holds agents to their copies; use "
            "--sandbox workspace-write"
        )
    if request.ephemeral:
        raise UsageError(
            "isolation: --ephemeral keeps nothing, so the work in copies would be lost"
        )
    check_copies()
    return msgspec.structs.replace(request, isolation=own, root_isolation=root, fan_isolation=items)
