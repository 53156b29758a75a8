"""An agent process: opens mailbox, launcher and commands and runs the lifecycle in one Trio run.

The process ends in order at Shutdown, at once when the lifeline closes, and by a crash whose cause
it writes to stderr. It leaves no command running.
"""

import os
import sys
import traceback
from contextlib import AbstractAsyncContextManager
from functools import cache
from pathlib import Path

import trio

from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.delivery.dealer import open_dealer
from swarm.mailbox.delivery.interfaces import Mailbox
from swarm.mailbox.protocol.spec import AgentSpec
from swarm.mailbox.protocol.values.limits import ProfilePolicy

from ..base.current_spec import CurrentSpec
from ..base.lifeline import watch_lifeline
from ..exec.exec_sessions import open_exec_sessions
from ..exec.launcher_client import LauncherLink, is_launcher_loss, open_launcher
from ..sandbox.landlock import LandlockRules, apply_landlock, forbid_new_privileges, landlock_abi
from ..sandbox.landlock_rules import landlock_rules
from ..sandbox.sandbox_plan import SandboxPlan
from ..sandbox.sandbox_probe import probe_sandbox
from ..tools.toolset import Toolset
from .agent_lifecycle import run_agent_lifecycle

_LAUNCHER_GONE = (
    "the process that starts this agent's commands (its launcher) has died or did not answer, and "
    "its commands with it; the agent ends, too, and is started again"
)


def run_agent(spec: AgentSpec, launcher: LauncherLink, lifeline_fd: int | None) -> int:
    """Run the agent until Shutdown; returns the exit code. Call it after the fork, outside of Trio.

    Args:
        spec: All that this agent may know.
        launcher: This agent's end of its launcher's socket.
        lifeline_fd: Reading end of the supervisor's lifeline; None: there is no lifeline.
    """
    try:
        if spec.role.locked:
            lock_process(spec)
        trio.run(_open_and_run, spec, launcher, lifeline_fd)
    except BaseException as error:
        if is_launcher_loss(error):
            sys.stderr.write(f"{_LAUNCHER_GONE}\n")  # a known cause, no bug
        else:
            traceback.print_exc()
        sys.stderr.flush()
        return 1
    return 0


def lock_process(spec: AgentSpec) -> None:
    """Confine this process permanently: it may read, but write nowhere and reach no network.

    Where the kernel has no Landlock the process stays unconfined and says so
    (`sandbox/landlock.py`).

    Its launcher was forked before and starts commands only in their own sandbox, whatever this
    process may request (`exec/launch_policy.py`). Call it while there is one thread: Landlock binds
    the calling thread and the threads created later. Raises OSError.
    """
    if spec.limits.network is not None:
        # Before the lock: a locked process cannot test bwrap, which the network proxy requires.
        probe_sandbox()
    forbid_new_privileges()
    if landlock_abi():
        apply_landlock(
            agent_lock_rules(spec.cwd, (*spec.guarded.hidden_paths, *_denied_paths(spec)))
        )


def _denied_paths(spec: AgentSpec) -> tuple[str, ...]:
    """Return the paths that the permission profile denies, but those that this process needs."""
    policy = spec.limits.sandbox
    if not isinstance(policy, ProfilePolicy):
        return ()
    needed = (os.path.realpath(spec.cwd), *_import_folders())
    denied = (rule.path for rule in policy.rules if rule.access == "deny")
    return tuple(path for path in denied if not any(is_within(one, path) for one in needed))


def agent_lock_rules(cwd: str, hidden: tuple[str, ...]) -> LandlockRules:
    """Allow reading everything but `hidden`, and but crowded folders that do not lead to `cwd`."""
    visible = tuple({os.path.realpath(cwd), *_import_folders()})
    plan = SandboxPlan(stack="landlock", hidden=hidden, visible=visible, network=False)
    return landlock_rules(plan, terminals=True)


@cache
def _import_folders() -> tuple[str, ...]:
    """Folders of modules still to be imported; computed in the fork-server for all agents."""
    here = str(Path(__file__).parents[1])
    ours = (here, sys.prefix, sys.base_prefix, *(one for one in sys.path if one.startswith("/")))
    return tuple(map(os.path.realpath, ours))


async def _open_and_run(spec: AgentSpec, link: LauncherLink, lifeline_fd: int | None) -> None:
    def dial(endpoint: str) -> AbstractAsyncContextManager[Mailbox]:
        return open_dealer(endpoint, spec.identity, epoch=spec.epoch)

    current = CurrentSpec(spec)
    async with trio.open_nursery() as nursery:
        if lifeline_fd is not None:
            nursery.start_soon(watch_lifeline, lifeline_fd)
        async with (
            open_dealer(spec.endpoint, spec.identity, epoch=spec.epoch) as post,
            open_launcher(link) as launcher,
            open_exec_sessions(launcher, current) as commands,
            trio.open_nursery() as living,
        ):
            living.start_soon(launcher.fail_when_gone, _LAUNCHER_GONE)
            await run_agent_lifecycle(current, post, dial, Toolset(current, commands))
            living.cancel_scope.cancel()  # from here on the launcher's end is expected
        nursery.cancel_scope.cancel()
