"""Starts the process of a stdio server: through the hub's launcher, sandboxed like a command.

The launcher ends the whole process tree of a server, also when the hub or the supervisor is killed.
A server gets few variables: what every program needs, and what its table names.
"""

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.held_programs import Lookup, held_environment
from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.protocol.mcp import McpServer
from swarm.mailbox.protocol.spec import HubSpec
from swarm.mailbox.protocol.values.limits import ReadOnly
from swarm.roles.base.started_programs import (
    find_started,
    has_rights,
    server_folder,
    why_started_unheld,
)
from swarm.roles.pinned_programs import ComparedProgram, check_program, describe_changes

from ...exec.command_plan import check_hidden_folders, private_tmp, with_protected
from ...exec.command_state import CommandNotStarted, LauncherGone, ProcessTreeStuck
from ...exec.launcher_client import LauncherClient
from ...exec.launcher_protocol import LaunchOrder
from ...sandbox.prepared_command import PreparedCommand, prepare_command
from ...sandbox.sandbox_plan import SandboxPlan, SandboxUnavailable, plan_sandbox
from ...sandbox.sandbox_probe import probe_sandbox

# Source: Codex's list for stdio servers.
INHERITED = (
    "HOME", "LOGNAME", "PATH", "SHELL", "USER", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"
)  # fmt: skip
STDERR_KEPT_BYTES = 16 << 10
_LEAVE_S = 1.0  # after its input was closed
_KILL_LIMIT_S = 5.0
_CHUNK_BYTES = 16 << 10
_TEMPORARY = "/tmp/"


class ServerNotStarted(SwarmError):
    """The server's program did not start; the text says why."""


class ServerProcess(NamedTuple):
    """A running server: its pipes, and the end of its standard error as it arrives."""

    stdin: trio.lowlevel.FdStream
    stdout: trio.lowlevel.FdStream
    stderr_tail: bytearray

    def stderr_text(self) -> str:
        return bytes(self.stderr_tail).decode("utf-8", "replace").strip()


def server_environment(
    server: McpServer, base: Mapping[str, str], credentials: Mapping[str, str]
) -> dict[str, str]:
    """The variables of a stdio server. One that has no value here is left out."""
    kept = {name: base[name] for name in INHERITED if name in base}
    own = {name: credentials[key] for name, key in server.environment.items() if key in credentials}
    return {**kept, **own}


def plan_server(server: McpServer, spec: HubSpec, *, folder: str, program: str) -> SandboxPlan:
    """The server's sandbox: it reads, writes its own /tmp and what its table names.

    Raises SandboxUnavailable.
    """
    if not server.sandboxed:
        if spec.sandbox_required:
            raise SandboxUnavailable(spec.sandbox_required)
        return SandboxPlan(reason='sandbox = "none"')
    check_hidden_folders(spec.guarded.hidden_folders)
    plan = plan_sandbox(
        ReadOnly(network_access=server.network),
        cwd=server.cwd or spec.cwd,
        tmp_dir=folder,
        extra_roots=server.writable_roots,
        extra_readable=named_paths(program, server.args),
        hidden_paths=spec.guarded.hidden_paths,
        stack=probe_sandbox().stack,
    )
    if spec.guarded.protected:
        plan = with_protected(plan, set(spec.guarded.protected) - set(plan.writable))
    return msgspec.structs.replace(plan, since_s=spec.run_began_s)


class ServerStart(NamedTuple):
    """A server as it is started now: with fewer rights than configured, if it is not held."""

    server: McpServer
    program: str  # absolute
    environment: dict[str, str]
    cwd: str


def plan_start(
    server: McpServer,
    spec: HubSpec,
    credentials: Mapping[str, str],
    on_log: Callable[[bytes], None],
) -> ServerStart:
    """Find the server's program, and look whether agents could have exchanged a part of it.

    Each start looks again. Raises ServerNotStarted.
    """
    base = spec.environment
    folder = server_folder(server, base.get("HOME", ""), spec.cwd)
    environment = server_environment(server, base, credentials)
    lookup = Lookup(environment.get("PATH", ""), folder, spec.guarded.run_places)
    named = {name: environment[name] for name in server.environment if name in environment}
    program = find_started((server.command, *server.args), lookup, named)
    if not program.path:
        raise ServerNotStarted(
            f"there is no program `{server.command}`; install it, or correct "
            f"mcp_servers.{server.name}.command ({server.source})"
        )
    if not has_rights(server) or spec.guarded.run_places.everywhere:
        return ServerStart(server, program.path, environment, folder)
    why = why_started_unheld(program, lookup) or _why_changed(server, spec, program.path, folder)
    if not why:
        held = held_environment(environment, lookup) | named
        return ServerStart(server, program.path, held, folder)
    on_log(f"[swarm] no network, no credentials, nothing to write: {why}\n".encode())
    confined = msgspec.structs.replace(
        server, sandboxed=True, network=False, environment={}, writable_roots=()
    )
    bare = server_environment(confined, base, {})
    return ServerStart(confined, program.path, bare, server.cwd or spec.cwd)


def _why_changed(server: McpServer, spec: HubSpec, path: str, folder: str) -> str:
    """Why the server in the project is not what it was at its last start; "" if it is."""
    if not server.closed or not spec.server_programs:
        return ""
    compared = ComparedProgram((path, *server.args), folder, server.closed)
    changes = check_program(Path(spec.server_programs), compared)
    return "" if changes is None else describe_changes(server.name, changes)


@asynccontextmanager
async def open_server_process(
    launcher: LauncherClient,
    spec: HubSpec,
    start: ServerStart,
    *,
    label: str,
    on_log: Callable[[bytes], None],
) -> AsyncIterator[ServerProcess]:
    """Run the server for the duration of the block; at its end nothing of its tree is left.

    Args:
        on_log: Gets what it writes to its standard error, as it arrives.
        label: Of this process: the server's name and a number, unique among running ones.

    Raises:
        ServerNotStarted: With the reason, as text for people and models.
    """
    # A server's name may be long, and sockets have to find room behind the number too.
    folder = str(Path(private_tmp(spec, probe_sandbox().stack)) / label.rpartition("-")[2])
    server, program, environment, cwd = start
    try:
        make_own_folders(Path(folder))
        plan = plan_server(server, spec, folder=folder, program=program)
        words = (program, *server.args)
        prepared = prepare_command(plan, words, environment, tty=False)
    except (SandboxUnavailable, OSError) as error:
        raise ServerNotStarted(f"its sandbox cannot be set up: {error}") from error
    try:
        async with _launched(launcher, spec, cwd, prepared, on_log) as process:
            yield process
    finally:
        prepared.close()


def named_paths(program: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """What a server's table names below the machine's /tmp, which its own /tmp would hide.

    The program, its folder (of a virtual environment all), and arguments that are absolute paths.
    What leads elsewhere, by `..` or by a link that a command may have made, shows nothing.
    """
    path = Path(program).absolute()
    prefix = path.parent.parent
    folder = prefix if (prefix / "pyvenv.cfg").is_file() else path.parent
    named = (str(path), str(folder), *arguments)
    return tuple(
        word for word in named if word.startswith(_TEMPORARY) and os.path.realpath(word) == word
    )


@asynccontextmanager
async def _launched(
    launcher: LauncherClient,
    spec: HubSpec,
    cwd: str,
    prepared: PreparedCommand,
    on_log: Callable[[bytes], None],
) -> AsyncIterator[ServerProcess]:
    order = _launch_order(launcher.next_token(), spec, cwd, prepared)
    inner = () if prepared.filter_fd is None else (prepared.filter_fd,)
    ours, theirs = _open_pipes()
    try:
        await launcher.launch(
            order, stdin_fd=theirs[0], stdout_fd=theirs[1], stderr_fd=theirs[2], bwrap_fds=inner
        )
    except BaseException as error:
        for fd in ours:
            os.close(fd)
        if isinstance(error, CommandNotStarted | LauncherGone):
            raise ServerNotStarted(str(error)) from error
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    stdin, stdout, stderr = map(trio.lowlevel.FdStream, ours)
    process = ServerProcess(stdin, stdout, bytearray())
    try:
        async with stdin, stdout, stderr, trio.open_nursery() as nursery:
            nursery.start_soon(_keep_tail, stderr, process.stderr_tail, on_log)
            try:
                yield process
            finally:
                await _let_leave(launcher, order.token, stdin)
                nursery.cancel_scope.cancel()
    finally:
        await _end(launcher, order.token)


def _launch_order(token: int, spec: HubSpec, cwd: str, prepared: PreparedCommand) -> LaunchOrder:
    return LaunchOrder(
        token=token,
        argv=prepared.argv,
        cwd=cwd,
        environment=prepared.environment,
        wrapped=prepared.wrapped,
        placeholders=prepared.guard.placeholders if prepared.guard else (),
        resources=spec.resources,
        confinement=prepared.confinement,
    )


async def _let_leave(launcher: LauncherClient, token: int, stdin: trio.lowlevel.FdStream) -> None:
    """Close its input and give it time: it may save its work, and write to its open outputs."""
    with trio.move_on_after(_LEAVE_S, shield=True), suppress(LauncherGone):
        await stdin.aclose()
        await launcher.wait(token)


async def _end(launcher: LauncherClient, token: int) -> None:
    """It has had its time to leave: kill its whole tree."""
    with trio.CancelScope(shield=True), suppress(LauncherGone, ProcessTreeStuck):
        with trio.move_on_after(_KILL_LIMIT_S):
            await launcher.kill_tree(token)
        launcher.forget(token)


def _open_pipes() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Our ends and the server's, in the order stdin, stdout, stderr. Raises OSError."""
    given, write = os.pipe2(os.O_CLOEXEC)
    read, taken = os.pipe2(os.O_CLOEXEC)
    errors, told = os.pipe2(os.O_CLOEXEC)
    return (write, read, errors), (given, taken, told)


async def _keep_tail(
    stderr: trio.lowlevel.FdStream, tail: bytearray, on_log: Callable[[bytes], None]
) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError):
        while data := await stderr.receive_some(_CHUNK_BYTES):
            on_log(data)
            tail += data
            del tail[:-STDERR_KEPT_BYTES]
