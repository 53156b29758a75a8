"""Runs one hook's command in the agent's sandbox, outside of its sessions, and reads its end.

The process tree has ended when `run_hook` returns, whatever the hook did. It has a deadline and may
print a bounded amount. A script of a trusted project runs only with the content that was trusted.
"""

import errno
import os
from contextlib import suppress

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.safe_open import READ_FLAGS, open_canonical, read_start
from swarm.mailbox.protocol.hooks import CommandHook, Hook, HttpHook
from swarm.roles.parts.hooks.hook_output import HookEnd

from .exec_sessions import ExecSessions
from .running_command import RunningCommand

MAX_STDOUT_BYTES = 1 << 20
MAX_STDERR_BYTES = 64 << 10
_SCRIPT_BYTES = 1 << 20
_TRAILING_S = 0.2  # for output that is still in the pipe when the first process has ended
_KILL_LIMIT_S = 5.0
_CHUNK_BYTES = 64 << 10
_NEXT_AFTER_S = 0.05  # the call goes first; a model takes longer for its next one
_IN_SERIES = ("PreToolUse", "PermissionRequest", "PostToolUse")  # others are seldom


class _TooMuchOutput(Exception):
    """The hook printed more than it may."""


async def run_hook(commands: ExecSessions, hook: Hook, payload: bytes) -> HookEnd:
    """Run the hook with `payload` on its standard input. Never raises but for cancellation."""
    if changed := changed_script(hook):
        return HookEnd(
            fault=f"{changed} is not as it was when this run began; it is not run. Trust the "
            "project again, and start a new run",
            changed=True,
        )
    try:
        started = await commands.start_hook(hook, payload)
    except (SwarmError, OSError) as error:
        return HookEnd(fault=f"hook did not start: {error}")
    stderr = trio.lowlevel.FdStream(started.stderr_fd)
    try:
        end = await _wait_end(started.command, stderr, hook.timeout_s)
    finally:
        await _closed(stderr)
        await _end_tree(started.command)
    if isinstance(hook.action, HttpHook) and end.exit_code and not end.fault:
        end = msgspec.structs.replace(end, fault=f"there was no answer: {end.stderr.strip()}")
    if hook.event in _IN_SERIES and _runs_script(hook):
        await commands.prewarm_hook(hook, after_s=_NEXT_AFTER_S)
    return end


def is_before_calls(hook: Hook) -> bool:
    """True for a script that runs before calls, for which a sandbox is made ahead."""
    return hook.event == "PreToolUse" and _runs_script(hook)


def _runs_script(hook: Hook) -> bool:
    return isinstance(hook.action, CommandHook) and hook.action.args is None


def changed_script(hook: Hook) -> str:
    """The first script that differs from what was trusted; "" if none does."""
    for script in hook.scripts:
        import hashlib  # few runs have hooks with scripts

        if os.path.realpath(script.path) != script.path:
            return script.path
        try:
            data = read_start(open_canonical(script.path, READ_FLAGS), most_bytes=_SCRIPT_BYTES + 1)
        except OSError as error:
            if script.sha256 or error.errno != errno.ENOENT:
                return script.path
            continue
        if hashlib.sha256(data).hexdigest() != script.sha256:
            return script.path
    return ""


async def _wait_end(
    command: RunningCommand, stderr: trio.lowlevel.FdStream, timeout_s: float
) -> HookEnd:
    output, errors = bytearray(), bytearray()
    ended = [trio.Event(), trio.Event()]
    code: int | None = None
    fault = f"hook timed out after {timeout_s:g}s"
    try:
        with trio.move_on_after(timeout_s) as limit:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_read_output, command, output, ended[0])
                nursery.start_soon(_read_errors, stderr, errors, ended[1])
                status = await command.wait()
                with trio.move_on_after(_TRAILING_S):
                    for one in ended:
                        await one.wait()
                nursery.cancel_scope.cancel()
            code, fault = status.exit_code, ""
        if limit.cancelled_caught:
            code = None
    except* _TooMuchOutput:
        fault = f"hook printed more than {MAX_STDOUT_BYTES >> 20} MiB"
    except* SwarmError as group:
        fault = str(group.exceptions[0])
    return HookEnd(
        exit_code=code,
        stdout=bytes(output).decode("utf-8", "replace"),
        stderr=bytes(errors).decode("utf-8", "replace"),
        fault=fault,
    )


async def _read_output(command: RunningCommand, output: bytearray, ended: trio.Event) -> None:
    while data := await command.receive():
        output += data
        if len(output) > MAX_STDOUT_BYTES:
            raise _TooMuchOutput
        await trio.lowlevel.checkpoint()
    ended.set()


async def _read_errors(
    stderr: trio.lowlevel.FdStream, errors: bytearray, ended: trio.Event
) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while data := await stderr.receive_some(_CHUNK_BYTES):
            errors += data[: MAX_STDERR_BYTES - len(errors)]
    ended.set()


async def _end_tree(command: RunningCommand) -> None:
    """End what the hook left behind, also while being cancelled."""
    with trio.CancelScope(shield=True), suppress(SwarmError):
        with trio.move_on_after(_KILL_LIMIT_S):
            await command.kill_tree()
    command.close()


async def _closed(stream: trio.lowlevel.FdStream) -> None:
    with trio.CancelScope(shield=True):
        await stream.aclose()
