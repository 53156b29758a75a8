"""Who may steer a run: a living process that the run did not start, and nobody else."""

import os
import subprocess

import pytest

from swarm.supervisor.doorman import is_outsider

pytestmark = pytest.mark.live


def test_a_process_of_ones_own_has_no_rights_alive_or_dead():
    with subprocess.Popen(["sleep", "60"]) as child:
        assert not is_outsider(child.pid)
        child.kill()
    assert not is_outsider(child.pid)  # who asked and left may have been anybody


def test_a_caller_whom_the_kernel_does_not_name_has_no_rights():
    assert not is_outsider(None)


def test_who_was_there_before_is_an_outsider():
    assert is_outsider(os.getppid())
    assert is_outsider(os.getpid())  # the panel of this very terminal
