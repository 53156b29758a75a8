"""Runs one of swarm's own programs in a copy of a project, without a sandbox.

Usage: python -P -m swarm.worker.programs.enter_copy MOUNTS PROGRAM ARGUMENT…
MOUNTS: a JSON list of `CopyMount`. The program takes the place of this process. Exit: the
program's, or 125 with words on stderr if nothing can be mounted.
"""

import os
import sys

import msgspec

from swarm.mailbox.protocol.spec import CopyMount

from ..parts.copies.copy_mounts import CopyUnavailable, enter_copies
from .sandbox_command import OWN_FAILURE


def main() -> int:
    try:
        mounts = msgspec.json.decode(sys.argv[1], type=tuple[CopyMount, ...])
        os.chdir("/")  # else the present folder would still be the project's own
        enter_copies(mounts)
        os.execv(sys.argv[2], sys.argv[2:])
    except (IndexError, msgspec.DecodeError, CopyUnavailable, OSError) as error:
        sys.stderr.write(f"swarm: {error}\n")
    return OWN_FAILURE


if __name__ == "__main__":
    raise SystemExit(main())
