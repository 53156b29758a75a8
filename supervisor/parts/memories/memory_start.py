"""Starts the memory job beside a run that has ended: detached, and with the lowest priority."""

import os
import subprocess
import sys
from contextlib import suppress

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.parts.memories.memory_messages import MemorySettings
from swarm.mailbox.protocol.values.base import Value

from ...request.run_request import RunRequest
from ...runs.paths import UserPaths, make_private_folder
from .memory_paths import memories_folder


class JobOrder(Value):
    """What the job reads from its stdin."""

    settings: MemorySettings
    keys: dict[str, str] = {}  # of providers, by variable


_PROGRAM = (sys.executable, "-P", "-m", "swarm.supervisor.parts.memories.commands.memory_job")
_MOST_LOG_BYTES = 1 << 20


def start_memory_job(request: RunRequest, places: UserPaths) -> None:
    """Start it and return. What goes wrong is in its log: the run has ended well without it."""
    order = msgspec.json.encode(
        JobOrder(settings=request.parts.memories.settings, keys=request.keys)
    )
    with suppress(OSError, SwarmError):
        folder = make_private_folder(memories_folder(places.state))
        log = os.open(folder / "job.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if os.fstat(log).st_size > _MOST_LOG_BYTES:
                os.ftruncate(log, 0)
            job = subprocess.Popen(
                _PROGRAM, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd="/",
                start_new_session=True,
            )  # fmt: skip
            assert job.stdin is not None
            with job.stdin as pipe:  # keys go by no environment: others could read that
                pipe.write(order)
        finally:
            os.close(log)
