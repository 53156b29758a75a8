"""`swarm sandbox`: run one command in the sandbox that agents get. No Trio, no supervisor.

Usage: python -P -m swarm.worker.programs.sandbox_command -s POLICY [--network] [-C DIR] [--hide
DIR]… [--protect PATH]…
[--stack bwrap|landlock] [--lifeline FD] -- CMD…
--lifeline: it ends, with the command, when this pipe closes. It is the first of its
process group then.
Exit: the command's code (128 + n for signal n), 125 for failures of its own.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from threading import Thread
from types import FrameType

import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.installation import installation_paths
from swarm.mailbox.base.proxy_environment import without_proxy_variables
from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.base.short_places import find_short_base
from swarm.mailbox.protocol.spec import ShellEnvironmentPolicy
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)

from ..base.process_title import set_title
from ..exec.brokered_spawn import wait_for_brokers
from ..exec.command_plan import command_environment, with_protected
from ..exec.command_spawn import SpawnFailed, set_process_limits, spawn_command
from ..exec.launcher_protocol import CommandLimits, LaunchOrder
from ..sandbox.prepared_command import PreparedCommand, prepare_command
from ..sandbox.sandbox_plan import SandboxUnavailable, Stack, plan_sandbox
from ..sandbox.sandbox_probe import probe_sandbox

OWN_FAILURE = 125
_VALUES = {
    "-s": "sandbox", "--sandbox": "sandbox", "--policy": "policy", "-C": "cd", "--cd": "cd",
    "--stack": "stack", "--hide": "hide", "--protect": "protect", "--lifeline": "lifeline",
}  # fmt: skip
_BROKER_LIMIT_S = 1.0
_DEFERRED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_USAGE = (
    "usage: swarm sandbox [-s read-only|workspace-write|danger-full-access] [--network] [-C DIR] "
    "-- CMD…\nexample: swarm sandbox -s read-only -- ls -la"
)


class SandboxCall(Value):
    """The parsed command line."""

    argv: tuple[str, ...]
    policy: SandboxPolicy
    cwd: str
    stack: Stack | None = None  # None: the strongest that works here
    hidden: tuple[str, ...] = ()  # the folders of runs, given by the caller
    lifeline: int | None = None  # a descriptor
    protected: tuple[str, ...] = ()  # canonical; can only be read, wherever it may write


def read_arguments(words: list[str]) -> SandboxCall:
    """Parse the command line. Raises UsageError."""
    options, argv = _split(words)
    if not argv:
        raise UsageError(f"no command was given\n{_USAGE}")
    cwd = os.path.abspath(options.last("cd") or ".")  # noqa: PTH100
    if not os.path.isdir(cwd):  # noqa: PTH112
        raise UsageError(f"{cwd} is not a folder")
    given, stack, lifeline = map(options.last, ("policy", "stack", "lifeline"))
    return SandboxCall(
        argv=argv,
        policy=_policy(options.last("sandbox") or "read-only", network=options.network)
        if given is None
        else _networked(_decoded(given), network=options.network),
        cwd=cwd,
        stack=None if stack is None else _stack(stack),
        hidden=tuple(options.values.get("hide", ())),
        lifeline=None if lifeline is None else _descriptor(lifeline),
        protected=tuple(options.values.get("protect", ())),
    )


class _Options(msgspec.Struct):
    values: dict[str, list[str]] = {}
    network: bool = False

    def last(self, name: str) -> str | None:
        found = self.values.get(name)
        return found[-1] if found else None


def _split(words: list[str]) -> tuple[_Options, tuple[str, ...]]:
    """Options, and the command behind them. Raises UsageError."""
    options, rest = _Options(), list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        if word == "--network":
            options.network = True
        elif (name := _VALUES.get(word)) is None:
            raise UsageError(f"unknown option {word}\n{_USAGE}")
        elif not rest:
            raise UsageError(f"{word} needs a value\n{_USAGE}")
        else:
            options.values.setdefault(name, []).append(rest.pop(0))
    return options, tuple(rest)


def _decoded(text: str) -> SandboxPolicy:
    """A resolved policy, as JSON."""
    try:
        policy: SandboxPolicy = msgspec.json.decode(text, type=SandboxPolicy)
    except msgspec.DecodeError as error:
        raise UsageError(f"--policy: {error}") from error
    return policy


def _networked(policy: SandboxPolicy, *, network: bool) -> SandboxPolicy:
    if isinstance(policy, DangerFullAccess) or not network:
        return policy
    return msgspec.structs.replace(policy, network_access=True)


def _policy(name: str, *, network: bool) -> SandboxPolicy:
    match name:
        case "read-only":
            return ReadOnly(network_access=network)
        case "workspace-write":
            return WorkspaceWrite(network_access=network)
        case "danger-full-access":
            return DangerFullAccess()
        case _:
            raise UsageError(f"unknown policy {name!r}\n{_USAGE}")


def _stack(name: str) -> Stack:
    match name:
        case "bwrap":
            return "bwrap"
        case "landlock":
            return "landlock"
        case _:
            raise UsageError(f"unknown stack {name!r}: bwrap or landlock")


def _descriptor(text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"--lifeline {text!r}: a number is needed")
    return int(text)


def _end_with(lifeline: int) -> None:
    """The sandbox ends with this process."""
    while os.read(lifeline, 64):
        pass
    os.killpg(0, signal.SIGKILL)


def run_sandboxed(call: SandboxCall) -> int:
    """Run the command to its end; return its exit code. Raises SandboxUnavailable, OSError."""
    began_s = time.time()
    if call.lifeline is not None:
        Thread(target=_end_with, args=(call.lifeline,), daemon=True).start()
    tmp_dir = tempfile.mkdtemp(prefix="swarm-sandbox-", dir=find_short_base())
    try:
        stack = call.stack or probe_sandbox().stack
        plan = plan_sandbox(
            call.policy, cwd=call.cwd, tmp_dir=tmp_dir, hidden_paths=call.hidden, stack=stack
        )
        if plan.writable:
            plan = with_protected(plan, set(call.protected) - set(plan.writable))
            closing = set(installation_paths()) - set(plan.writable)
            kept, plan = plan, with_protected(plan, closing)
            if closed := sorted(set(plan.protected) - set(kept.protected)):
                _print_error(f"read-only, since swarm itself lies there: {', '.join(closed)}")
        plan = msgspec.structs.replace(plan, since_s=began_s)
        base = os.environ if plan.network else without_proxy_variables(os.environ)
        environment = command_environment(base, ShellEnvironmentPolicy(), {})
        if shutil.which(call.argv[0], path=environment.get("PATH")) is None:
            raise UsageError(f"there is no program {call.argv[0]!r}")
        # By that name a key agent's prompt shows the user what descends from this process.
        set_title(f"swarm: sandbox {' '.join(call.argv)}")
        prepared = prepare_command(plan, call.argv, environment, tty=False)
        found: tuple[str, ...] = ()
        try:
            code = _run(prepared, call)
        finally:
            found = prepared.close()
            for path in found:
                _print_error(f"this came to be where nothing may be made: {path}")
        return OWN_FAILURE if found else code
    finally:
        with suppress(OSError):
            remove_tree(tmp_dir)


def _run(prepared: PreparedCommand, call: SandboxCall) -> int:
    set_process_limits(CommandLimits())
    # Until the command can receive them.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, _DEFERRED_SIGNALS)
    extra = [] if prepared.filter_fd is None else [prepared.filter_fd]
    try:
        pid = spawn_command(_order(prepared, call.cwd), [0, 1, 2, *extra])
    except SpawnFailed as failed:
        _print_error(f"cannot start {call.argv[0]!r}: {os.strerror(failed.number)} ({failed.step})")
        return OWN_FAILURE
    _forward_signals(pid)
    signal.pthread_sigmask(signal.SIG_SETMASK, held)
    _, status = os.waitpid(pid, 0)
    wait_for_brokers(_BROKER_LIMIT_S)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _order(prepared: PreparedCommand, cwd: str) -> LaunchOrder:
    return LaunchOrder(
        token=0,
        argv=prepared.argv,
        cwd=cwd,
        environment=prepared.environment,
        keep_session=True,  # Ctrl-C of the user's terminal must reach it
        wrapped=prepared.wrapped,
        confinement=prepared.confinement,
    )


def _forward_signals(pid: int) -> None:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, number)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the command as well
    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGHUP, pass_on)


def _print_error(text: str) -> None:
    sys.stderr.write(f"swarm sandbox: {text}\n")


def main() -> int:
    try:
        return run_sandboxed(read_arguments(sys.argv[1:]))
    except (SwarmError, SandboxUnavailable, OSError) as error:
        _print_error(str(error))
        return OWN_FAILURE


if __name__ == "__main__":
    raise SystemExit(main())
