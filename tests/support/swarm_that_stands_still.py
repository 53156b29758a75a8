"""`python -P swarm_that_stands_still.py VICTIM PROGRAM run …`: the real command, one loop busy.

The victim's event loop computes for ever, in one search that holds the interpreter: neither a
handler of a signal nor another thread of that process runs any more. Begins with the first call.
"""

import re
import sys
from pathlib import Path

from swarm.mailbox.protocol.events import CallBegan
from swarm.supervisor.agents.life import heartbeat_monitor
from swarm.supervisor.clients.cli.base import control_client
from swarm.supervisor.clients.cli.entry import main
from swarm.supervisor.journal.journal import Journal
from swarm.worker.process import loop_watch
from swarm.worker.tools import orchestrator

_ENDLESS = re.compile(r"(?:a+)+b")


MARK = Path.cwd() / "busy"  # there from when the loop stands still


def compute_for_ever():
    MARK.touch()
    _ENDLESS.search("a" * 200)


def arm(victim):
    loop_watch._LOOK_S = 0.1
    heartbeat_monitor._HEARTBEAT_TIMEOUT_S = 2.0
    control_client.REPLY_TIMEOUT_S = 1.0
    if victim == "supervisor":
        write = Journal.write

        def watched(journal, body, **more):
            record = write(journal, body, **more)
            if isinstance(body, CallBegan):
                compute_for_ever()
            return record

        Journal.write = watched
    elif victim == "agent":
        orchestrator.Orchestrator.perform = lambda *_, **__: compute_for_ever()


if __name__ == "__main__":
    _, victim, sys.argv[0], *words = sys.argv
    sys.argv[1:] = words
    arm(victim)
    sys.exit(main())
