"""The login shell's environment, taken once, so that commands run in a plain `bash -c`.

Guards: never fails and never waits long: a profile that hangs, prints or breaks leaves the
environment that was given. A login shell costs over 100 ms; a command must not pay that.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import trio

from swarm.mailbox.errors import SwarmError

from ..sandbox.plan import SandboxPlan
from .launcher import Launcher
from .process import CommandRequest, RunningCommand, start_command

_LIMIT_S = 5.0
_MOST_BYTES = 1024 * 1024
_MARKER = b"\0=swarm environment follows=\0"
_PRINT = r"printf '\0=swarm environment follows=\0'; exec /usr/bin/env -0"
_OF_THAT_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "SWARM_COMMAND"})
_LOGIN_SHELLS = ("bash", "zsh", "sh", "dash", "ksh")


async def take_snapshot(
    launcher: Launcher, environment: Mapping[str, str], *, limit_s: float = _LIMIT_S
) -> dict[str, str]:
    """The variables a login shell ends up with; `environment` itself if that cannot be had.

    Runs the person's own start-up files, outside the sandbox, as opening a terminal does.
    """
    given = dict(environment)
    request = CommandRequest(
        argv=(find_shell(given), "-lc", _PRINT),
        cwd="/",
        environment=given,
        sandbox=SandboxPlan(),
    )
    printed = b""
    try:
        with trio.move_on_after(limit_s):
            printed = await _printed(launcher, request)
    except (SwarmError, OSError):
        return given
    return parse_snapshot(printed) or given


def find_shell(environment: Mapping[str, str]) -> str:
    """The person's shell if it is one that we know how to ask, else bash, else sh."""
    wanted = environment.get("SHELL", "")
    if wanted.startswith("/") and Path(wanted).name in _LOGIN_SHELLS and os.access(wanted, os.X_OK):
        return wanted
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


def parse_snapshot(printed: bytes) -> dict[str, str]:
    """Variables after the marker; {} when it is missing. Values that are not UTF-8 are left out."""
    _, marker, listed = printed.partition(_MARKER)
    if not marker or not listed.endswith(b"\0"):
        return {}
    found: dict[str, str] = {}
    for line in listed.split(b"\0"):
        name, equals, value = line.partition(b"=")
        try:
            if equals and name:
                found[name.decode()] = value.decode()
        except UnicodeDecodeError:
            continue
    return {name: value for name, value in found.items() if name not in _OF_THAT_SHELL}


async def _printed(launcher: Launcher, request: CommandRequest) -> bytes:
    command = await start_command(launcher, request)
    printed = bytearray()
    try:
        while (chunk := await command.receive()) and len(printed) < _MOST_BYTES:
            printed += chunk
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
            await _ended(command)
        command.close()
    return bytes(printed)


async def _ended(command: RunningCommand) -> None:
    try:
        await command.kill_tree()
    except SwarmError:
        return  # the launcher is gone, and the shell with it
