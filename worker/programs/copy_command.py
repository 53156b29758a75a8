"""Runs one command in the sandbox, in a copy of a project.

Usage: python -P -m swarm.worker.programs.copy_command MOUNTS OPTION… -- CMD…
MOUNTS: a JSON list of `CopyMount`; the rest as `sandbox_command` takes it. Exit: its, or 125 with
words on stderr if the copy cannot be mounted.
"""

import os
import sys

import msgspec

from swarm.mailbox.protocol.spec import CopyMount

from ..parts.copies.copy_mounts import CopyUnavailable, enter_copies
from . import sandbox_command


def main() -> int:
    try:
        mounts = msgspec.json.decode(sys.argv.pop(1), type=tuple[CopyMount, ...])
        os.chdir("/")  # else the present folder would still be the project's own
        enter_copies(mounts)
    except (IndexError, msgspec.DecodeError, CopyUnavailable, OSError) as error:
        sys.stderr.write(f"swarm: {error}\n")
        return sandbox_command.OWN_FAILURE
    return sandbox_command.main()


if __name__ == "__main__":
    raise SystemExit(main())
