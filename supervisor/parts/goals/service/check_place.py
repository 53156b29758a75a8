"""Where a goal's check runs: on the project, or in a copy of it with all work of agents in it.

Work in copies that does not fit together cannot be checked: that fails as a command would.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.values.limits import DangerFullAccess, SandboxPolicy, WorkspaceWrite

from ....part_access.part_host import PartHost
from ....processes.machine_sandbox import SandboxMissing
from ....request.withheld_variables import withheld_variables
from ...copies.merge_service import CopiedWork, MergeReport
from ...copies.merge_trial import MergedCopy, make_merged_copy
from ...copies.tree_survey import CopyRefused
from ..check_command import CheckPlace

_IN_SANDBOX = (sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_command")
_REMOVE_S = 30.0


class CheckImpossible(SwarmError):
    """The check cannot be run; the text is for the model, too."""


class OpenPlace(NamedTuple):
    """A place, and what of it is not in the project yet."""

    place: CheckPlace
    unmerged: str = ""  # a digest; "": nothing
    changed: tuple[str, ...] = ()  # paths


@asynccontextmanager
async def open_place(host: PartHost, hidden: tuple[str, ...]) -> AsyncIterator[OpenPlace]:
    """The place is there while the block lasts. Raises CheckImpossible.

    Args:
        host: The run.
        hidden: What no command of it may see.
    """
    report = await _unmerged(host)
    if report is None or not report.changes:
        policy = msgspec.json.encode(_policy(host.request.sandbox)).decode()
        program = (*_IN_SANDBOX, "--policy", policy, "-C", host.request.cwd)
        yield OpenPlace(_place(host, program, hidden, host.protected))
        return
    copy = await _merged(host, report)
    try:
        protected = tuple(map(copy.place_of, host.protected))
        changed = tuple(after.path for _, after in report.plan.totals)
        place = _place(host, copy.program, hidden, protected)
        yield OpenPlace(place, report.plan.digest, changed)
    finally:
        with trio.move_on_after(_REMOVE_S, shield=True):
            await trio.to_thread.run_sync(copy.remove, abandon_on_cancel=True)


def _place(
    host: PartHost, program: tuple[str, ...], hidden: tuple[str, ...], protected: tuple[str, ...]
) -> CheckPlace:
    request = host.request
    masks = [word for path in hidden for word in ("--hide", path)]
    kept = [word for path in protected for word in ("--protect", path)]
    withheld = withheld_variables(request)
    environment = {key: one for key, one in request.environment.items() if key not in withheld}
    return CheckPlace((*program, *masks, *kept), environment)


def _policy(policy: SandboxPolicy) -> SandboxPolicy:
    """That of the run; never none, for what agents wrote is run."""
    return WorkspaceWrite() if isinstance(policy, DangerFullAccess) else policy


async def _unmerged(host: PartHost) -> MergeReport | None:
    """The plan of all work in copies; None: there are no copies. Raises CheckImpossible."""
    if not host.paths.copies.is_dir():
        return None
    await host.journal.flush()
    try:
        report = await trio.to_thread.run_sync(CopiedWork(host.paths).check)
    except SwarmError as error:
        raise CheckImpossible(f"the work in copies cannot be put together: {error}") from error
    if report.plan.conflicts:
        paths = ", ".join(sorted({one.path for one in report.plan.conflicts})[:20])
        raise CheckImpossible(
            f"the work of agents in copies does not fit together, so it was not checked: {paths}"
        )
    return report


async def _merged(host: PartHost, report: MergeReport) -> MergedCopy:
    store, cwd = CopiedWork(host.paths).store, host.request.cwd
    make = partial(make_merged_copy, host.paths, report.plan, store, cwd)
    try:
        return await trio.to_thread.run_sync(make)
    except (CopyRefused, SandboxMissing, OSError, ValueError) as error:
        raise CheckImpossible(f"no merged copy of the project can be made: {error}") from error
