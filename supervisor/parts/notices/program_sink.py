"""Starts a program of the person's for a notice: their own command, or `notify-send`.

It runs outside of every sandbox, so it is held: one that agents could have exchanged is not
started. It is never waited for longer than ten seconds.
"""

import os
import subprocess
from contextlib import suppress

import trio

from ...request.persons_command import PersonsCommand
from ...request.run_request import RunRequest

LIMIT_S = 10.0


class NotStarted(Exception):
    """The program was not started or failed; the text says why."""


async def run_program(argv: tuple[str, ...], request: RunRequest) -> None:
    """Run it to its end. Raises NotStarted."""
    held = await trio.to_thread.run_sync(PersonsCommand(argv, request).find)
    if isinstance(held, str):
        raise NotStarted(held)
    try:
        child = await trio.lowlevel.open_process(
            held.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=held.environment,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise NotStarted(f"it was not started: {error.strerror}") from error
    try:
        with trio.move_on_after(LIMIT_S):
            await child.wait()
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, 9)
            with trio.move_on_after(LIMIT_S, shield=True):
                await child.wait()
            raise NotStarted(f"it took over {LIMIT_S:g} s and was ended")
    if child.returncode != 0:
        raise NotStarted(f"it ended with exit code {child.returncode}")
