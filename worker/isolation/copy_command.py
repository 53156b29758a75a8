"""Runs one command in the sandbox, in a copy of a project.

Usage: python -P -m swarm.worker.isolation.copy_command [--lifeline FD] MOUNTS OPTION… -- CMD…
--lifeline: it ends, with its command, when this pipe closes.
MOUNTS: a JSON list of `CopyMount`; the rest as `sandbox_command` takes it. Exit: its, or 125 with
words on stderr if the copy cannot be mounted.
"""

import os
import signal
import sys
from threading import Thread

import msgspec

from swarm.mailbox.protocol.spec import CopyMount

from ..sandbox import sandbox_command
from .copy_mounts import CopyUnavailable, enter_copies


def main() -> int:
    try:
        lifeline = _take_lifeline()
        mounts = msgspec.json.decode(sys.argv.pop(1), type=tuple[CopyMount, ...])
        os.chdir("/")  # else the present folder would still be the project's own
        enter_copies(mounts)
        if lifeline is not None:
            Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    except (IndexError, ValueError, msgspec.DecodeError, CopyUnavailable, OSError) as error:
        sys.stderr.write(f"swarm: {error}\n")
        return sandbox_command.OWN_FAILURE
    return sandbox_command.main()


def _take_lifeline() -> int | None:
    """The descriptor, taken out of the arguments. Raises IndexError, ValueError."""
    if sys.argv[1] != "--lifeline":
        return None
    del sys.argv[1]
    return int(sys.argv.pop(1))


def _end_with(lifeline: int) -> None:
    """The sandbox ends with this process."""
    while os.read(lifeline, 64):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    raise SystemExit(main())
