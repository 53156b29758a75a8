"""The threads that carry frames wait for a free processor, and interrupt nobody."""

import os
import subprocess
import sys

import pytest

STORY = """
import os, sys, time
from swarm.mailbox.delivery.polled import open_socket

ours, theirs = map(int, sys.argv[1:])
os.sched_setscheduler(0, ours, os.sched_param(0))
with open_socket("dealer"):
    others = [int(name) for name in os.listdir("/proc/self/task") if int(name) != os.getpid()]
    while {os.sched_getscheduler(one) for one in others} != {theirs}:  # each sets its own
        time.sleep(0.001)
    print(os.sched_getscheduler(0))
"""


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (os.SCHED_OTHER, os.SCHED_BATCH),
        (os.SCHED_IDLE, os.SCHED_IDLE),  # whoever chose it means it
    ],
)
def test_threads_of_zeromq_are_batch_unless_somebody_chose_another_policy(ours, theirs):
    argv = [sys.executable, "-P", "-c", STORY, str(ours), str(theirs)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split() == [str(ours)]
