"""Starts the memory job beside a run that has ended: detached, and with the lowest priority."""

import os
import subprocess
import sys
from contextlib import suppress

import msgspec

from swarm.mailbox.errors import SwarmError

from ..run_request import RunRequest
from ..runs.paths import UserPaths, make_private_folder

_PROGRAM = (sys.executable, "-P", "-m", "swarm.supervisor.cli.memory_job")
_MOST_LOG_BYTES = 1 << 20


def start_memory_job(request: RunRequest, places: UserPaths) -> None:
    """Start it and return. What goes wrong is in its log: the run has ended well without it."""
    settings = msgspec.json.encode(request.memories).decode()
    with suppress(OSError, SwarmError):
        folder = make_private_folder(places.memories)
        log = os.open(folder / "job.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.fstat(log).st_size > _MOST_LOG_BYTES:
                os.ftruncate(log, 0)
            subprocess.Popen(
                [*_PROGRAM, settings], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **request.keys}, cwd="/", start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(log)
