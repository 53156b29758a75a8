"""Runs the gateway's code for sign-ins in a process of its own: keys go there by a pipe."""

import os
import subprocess
import sys

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.parts.accounts.job.login_job import LoginJob, LoginResult

_PROGRAM = ("-P", "-m", "swarm.worker.parts.accounts.login.login_process")


def run_login_process(job: LoginJob) -> LoginResult:
    """Do the job. Raises SwarmError if the process fails."""
    inherited = () if job.paste_from < 0 else (job.paste_from,)
    try:
        done = subprocess.run(
            [sys.executable, *_PROGRAM], input=msgspec.msgpack.encode(job),
            stdout=subprocess.PIPE, check=False, pass_fds=inherited,
        )  # fmt: skip
    finally:
        for descriptor in inherited:
            os.close(descriptor)
    if done.returncode != 0:
        raise SwarmError(f"the process that logs in failed with exit code {done.returncode}")
    return msgspec.msgpack.decode(done.stdout, type=LoginResult)
