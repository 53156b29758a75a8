"""`--detach`: the run goes on without a terminal; we leave as soon as it has begun.

Rule: what goes wrong before the first record is said here, by the process the person started.
"""

import os
import select
import sys
from contextlib import suppress
from typing import NoReturn

import click

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.ids import short_id

from ..places import Places, make_private, run_places
from ..request import RunRequest
from .options import ShowOptions

LOG_NAME = "detached.log"
_BEGIN_LIMIT_S = 30.0
_STARTED = b"+"


def detach(request: RunRequest, show: ShowOptions, places: Places) -> int:
    """Fork twice; print the run's id and return 0 once the run has begun.

    Raises SwarmError with what the run said, if it ended before that.
    """
    assert request.run_id is not None
    folder = run_places(places, request.run_id).folder
    make_private(folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        log = os.open(folder / LOG_NAME, flags, 0o600)
    except OSError as error:
        raise SwarmError(f"cannot write {folder / LOG_NAME}: {error.strerror}") from error
    reader, writer = os.pipe2(os.O_CLOEXEC)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _leave_terminal(log)
        _run_detached(request, show, places, writer)
    os.close(writer)
    os.close(log)
    os.waitpid(child, 0)
    said = _wait_begin(reader)
    if said != _STARTED:
        code, _, words = said.decode("utf-8", "replace").partition(" ")
        failure = SwarmError(words or f"the run did not begin; see {folder / LOG_NAME}")
        failure.exit_code = int(code) if code.isdigit() else 1
        raise failure
    click.echo(request.run_id)
    click.echo(f"swarm: watch it with `swarm watch {short_id(request.run_id)}`", err=True)
    return 0


def _leave_terminal(log: int) -> None:
    """A session of its own, then a second fork so that it can never take a terminal again."""
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(nothing)


def _run_detached(request: RunRequest, show: ShowOptions, places: Places, writer: int) -> NoReturn:
    from .starting import run_here

    code = 1

    def tell(words: bytes) -> None:
        with suppress(OSError):
            os.write(writer, words[:4000])
            os.close(writer)

    try:
        code = run_here(request, show, places, on_started=lambda: tell(_STARTED))
    except SwarmError as error:
        code = error.exit_code
        click.echo(f"swarm: {error}", err=True)
        tell(f"{code} {error}".encode())
    except BaseException as error:
        import traceback

        traceback.print_exc()
        tell(f"1 {type(error).__name__}: {error}".encode())
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _wait_begin(reader: int) -> bytes:
    """What the run says first; empty if it died or is too slow."""
    ready, _, _ = select.select([reader], [], [], _BEGIN_LIMIT_S)
    try:
        return os.read(reader, 4096) if ready else b""
    finally:
        os.close(reader)
