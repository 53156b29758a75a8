"""A merge of an ended run whose process is killed before it replaces its first file."""

import os
import signal
import sys
from pathlib import Path

from swarm.mailbox.protocol.control import MergeChanges
from swarm.supervisor.parts.copies.ended_merges import merge_ended_run
from swarm.supervisor.parts.undo import staged_writes
from swarm.supervisor.runs.paths import RunPaths


def die(*given: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    staged_writes.put_over = die
    folder = Path(sys.argv[1])
    merge_ended_run(RunPaths(folder=folder, sockets=folder / "s"), MergeChanges(agents=()))
