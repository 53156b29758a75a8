"""An agent process: mailbox, session, commands, and the one Trio run that holds them.

Rule guarded: the agent lives exactly as long as its supervisor wants. It ends in order at Shutdown,
at once when the life-line closes, and by a crash that says why on stderr; it leaves no command.
"""

import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio

from swarm.mailbox.dealer import open_dealer
from swarm.mailbox.post import Mailbox
from swarm.mailbox.protocol.spec import AgentSpec

from .exec.launcher import Launcher, LauncherLink, open_launcher
from .exec.process import pin_sandbox
from .exec.sessions import ExecSessions, open_exec_sessions
from .life import live
from .lifeline import watch_lifeline
from .sandbox.grants import landlock_rules
from .sandbox.landlock import apply_landlock, forbid_new_privileges, landlock_abi
from .sandbox.plan import SandboxPlan, SandboxUnavailable
from .tools.belt import Toolbelt


def run_agent(spec: AgentSpec, launcher: LauncherLink, lifeline_fd: int | None) -> int:
    """Live until Shutdown; returns the exit code. Call it after the fork, before any Trio run.

    Args:
        spec: All that this agent may know.
        launcher: This agent's end of its launcher's socket.
        lifeline_fd: Reading end of the supervisor's life-line; None = nobody watches.
    """
    try:
        if spec.role.locked:
            lock_process(spec)
        trio.run(_open_and_live, spec, launcher, lifeline_fd)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        return 1
    return 0


def lock_process(spec: AgentSpec) -> None:
    """Confine this very process, for good: it may read, but write nowhere and reach no network.

    Its launcher was forked before and starts commands in their own sandbox. Call it while there is
    one thread: Landlock binds the thread that asks, and those made later. Raises OSError.
    """
    forbid_new_privileges()
    if landlock_abi():
        plan = SandboxPlan(stack="landlock", hidden=spec.hidden_paths, network=False)
        apply_landlock(landlock_rules(plan))


async def _pin_launcher(
    spec: AgentSpec, launcher: Launcher, commands: ExecSessions, pinned: trio.Event
) -> None:
    """A locked role's launcher is not locked itself: from now on it starts nothing outside.

    Where no sandbox works nothing is pinned, and every command is refused one by one.
    """
    if spec.role.locked:
        with suppress(SandboxUnavailable):
            await pin_sandbox(launcher, commands.plan(spec.limits.sandbox, spec.cwd))
    pinned.set()


async def _open_and_live(spec: AgentSpec, link: LauncherLink, lifeline_fd: int | None) -> None:
    pinned = trio.Event()

    @asynccontextmanager
    async def dial(endpoint: str) -> AsyncIterator[Mailbox]:
        await pinned.wait()  # no word of a model reaches us before
        async with open_dealer(endpoint, spec.identity, epoch=spec.epoch) as mailbox:
            yield mailbox

    async with trio.open_nursery() as nursery:
        if lifeline_fd is not None:
            nursery.start_soon(watch_lifeline, lifeline_fd)
        async with (
            open_dealer(spec.endpoint, spec.identity, epoch=spec.epoch) as post,
            open_launcher(link) as launcher,
            open_exec_sessions(launcher, spec) as commands,
        ):
            nursery.start_soon(_pin_launcher, spec, launcher, commands, pinned)
            await live(spec, post, dial, Toolbelt(spec, commands))
        nursery.cancel_scope.cancel()
