"""Runs the commands of a goal's check: in the sandbox, on the project or on a merged copy.

What they run is what agents wrote, so they are never outside of the sandbox, whatever the run
allows. The first command that does not end with 0 ends the check.
"""

import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

import trio

from swarm.mailbox.protocol.values.base import Value

LIMIT_S = 3600.0  # of each command
TAIL_BYTES = 8 << 10
_CHUNK_BYTES = 64 << 10
_DRAIN_S = 2.0  # for what is still in the pipe when the command has ended
_REAP_S = 10.0
_FIGURE = re.compile(r"0x[0-9a-fA-F]+|\d+")


class CheckPlace(NamedTuple):
    """Where commands of a check run."""

    program: tuple[str, ...]  # it runs a command in the sandbox: `sandbox_command` with options
    environment: Mapping[str, str]


class CheckOutcome(Value):
    """What the commands came to."""

    passed: bool
    command: str = ""  # that did not end with 0
    exit_code: int | None = None
    tail: str = ""  # of its output, not cleaned

    @property
    def failure(self) -> str:
        """The same for a failure that differs in figures alone, as times are."""
        said = _FIGURE.sub("0", self.tail)
        stated = f"{self.command}\0{self.exit_code}\0{said}"
        return sha256(stated.encode("utf-8", "surrogateescape")).hexdigest()[:16]


async def run_commands(place: CheckPlace, commands: tuple[str, ...]) -> CheckOutcome:
    """Run them in order. Cancelled: the command that runs is ended first."""
    for command in commands:
        outcome = await _run(place, command)
        if not outcome.passed:
            return outcome
    return CheckOutcome(passed=True)


async def _run(place: CheckPlace, command: str) -> CheckOutcome:
    lifeline, held = os.pipe()  # closes when this process is gone, which ends the command
    argv = [*place.program, "--lifeline", str(lifeline), "--", "/bin/sh", "-c", command]
    try:
        try:
            child = await trio.lowlevel.open_process(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(place.environment),
                cwd="/",
                start_new_session=True,
                pass_fds=(lifeline,),
            )
        except OSError as error:
            return CheckOutcome(passed=False, command=command, tail=f"it was not started: {error}")
        finally:
            os.close(lifeline)
        return await _follow(child, command)
    finally:
        os.close(held)


async def _follow(child: trio.Process, command: str) -> CheckOutcome:
    kept: deque[bytes] = deque()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read_tail, child, kept)
            with trio.move_on_after(LIMIT_S):
                await child.wait()
            code = child.returncode
            _kill(child)  # what it has left in the background, too
            nursery.cancel_scope.deadline = trio.current_time() + _DRAIN_S
    finally:
        _kill(child)
        with trio.move_on_after(_REAP_S, shield=True):
            await child.wait()
    tail = b"".join(kept)[-TAIL_BYTES:].decode("utf-8", "replace")
    if code is None:
        tail += f"\n(it was ended after {LIMIT_S:g} s)"
    return CheckOutcome(passed=code == 0, command=command, exit_code=code, tail=tail)


async def _read_tail(child: trio.Process, kept: deque[bytes]) -> None:
    assert child.stdout is not None
    size = 0
    async with child.stdout as output:
        while part := await output.receive_some(_CHUNK_BYTES):
            kept.append(bytes(part))
            size += len(part)
            while size - len(kept[0]) >= TAIL_BYTES:
                size -= len(kept.popleft())


def _kill(child: trio.Process) -> None:
    """Its group is its own, and what it started in the sandbox ends with it."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
