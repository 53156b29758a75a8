"""`--detach`: run without a terminal; the command returns as soon as the run has started.

Errors before the first record are reported by the process that the person started.
"""

import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn, Protocol

import click

from swarm.mailbox.base.after_fork import interrupts_held
from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import short_id

from ....request.run_request import RunRequest
from ....runs.paths import UserPaths, make_private_folder, paths_of_run

LOG_NAME = "detached.log"
_START_TIMEOUT_S = 30.0
_STARTED = b"+"


class DetachedRunFailed(SwarmError):
    """The run ended before its first record; carries its error message and exit code."""

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class StartRun(Protocol):
    """Runs to the end and returns the exit code; calls `on_started` once the run has started."""

    def __call__(self, *, on_started: Callable[[], None]) -> int: ...


def detach(request: RunRequest, places: UserPaths, start: StartRun) -> int:
    """Fork twice; print the run's id and return 0 once the run has started.

    Raises DetachedRunFailed if it ended before that.
    """
    assert request.run_id is not None
    folder = paths_of_run(places, request.run_id).folder
    make_private_folder(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        log = os.open(folder / LOG_NAME, flags, 0o600)
    except OSError as error:
        raise SwarmError(f"cannot write {folder / LOG_NAME}: {error.strerror}") from error
    reader, writer = os.pipe2(os.O_CLOEXEC)
    sys.stdout.flush()
    sys.stderr.flush()
    with interrupts_held():
        child = os.fork()
    if child == 0:
        os.close(reader)
        _daemonize(log)
        _run_detached(start, writer)
    os.close(writer)
    os.close(log)
    os.waitpid(child, 0)
    report = _wait_for_start(reader)
    if report != _STARTED:
        code, _, message = report.decode("utf-8", "replace").partition(" ")
        raise DetachedRunFailed(
            message or f"the run did not begin; see {folder / LOG_NAME}",
            exit_code=int(code) if code.isdigit() else 1,
        )
    click.echo(request.run_id)
    click.echo(f"swarm: watch it with `swarm watch {short_id(request.run_id)}`", err=True)
    return 0


def _daemonize(log: int) -> None:
    """Start a session, then fork again so that the process can never acquire a terminal."""
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(nothing)


def _run_detached(start: StartRun, writer: int) -> NoReturn:
    code = 1

    def report(message: bytes) -> None:
        with suppress(OSError):
            os.write(writer, message[:4000])
            os.close(writer)

    try:
        code = start(on_started=lambda: report(_STARTED))
    except SwarmError as error:
        code = error.exit_code
        click.echo(f"swarm: {error}", err=True)
        report(f"{code} {error}".encode())
    except BaseException as error:
        import traceback

        traceback.print_exc()
        report(f"1 {type(error).__name__}: {error}".encode())
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _wait_for_start(reader: int) -> bytes:
    """The first message of the run; empty if it died or took too long."""
    ready, _, _ = select.select([reader], [], [], _START_TIMEOUT_S)
    try:
        return os.read(reader, 4096) if ready else b""
    finally:
        os.close(reader)
