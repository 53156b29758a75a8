"""The watch over a supervisor's loop asks in its own time, however a signal's words arrive."""

import os
import subprocess

import pytest

from swarm.worker.process.loop_watch import LoopWatch


@pytest.fixture
def supervisor():
    """A process that answers nothing by itself."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_signal_that_arrives_in_many_pieces_is_one_question(supervisor):
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    watch = LoopWatch(supervisor.pid, os.pidfd_open(supervisor.pid), reader, deadline_s=None)
    asked = []
    for piece in range(100):
        os.write(writer, b"x")
        assert watch.read_signals()
        watch.look(lambda piece=piece: asked.append(piece))
    os.close(writer)
    watch.close()
    assert asked == [0]
    assert supervisor.poll() is None
