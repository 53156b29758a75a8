"""Runs a task file's fan-out command once, read-only, limited in time and output."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.held_programs import held_environment
from swarm.mailbox.protocol.values.limits import ProfilePolicy

from ....request.run_places import project_lookup
from ....runs.paths import find_user_paths

LIMIT_S = 30.0
_MAX_BYTES = 8 << 20
_SANDBOX_FAILED_EXIT_CODE = 125
SANDBOX_ARGV = (sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_command")


class ScriptSandboxUnavailable(SwarmError):
    """The command could not be sandboxed, so it was not run."""

    exit_code = 6


def run_sandboxed_script(
    command: str,
    cwd: Path,
    *,
    limit_s: float = LIMIT_S,
    hidden: Sequence[str] = (),
    shown: str = "",
    policy: ProfilePolicy | None = None,
    own: bool = False,
) -> str:
    """The output of a shell command in the read-only sandbox. swarm's own files and the `hidden`
    paths are masked. `policy`, a permission profile that writes nothing, replaces the read-only
    policy.

    Errors name the command as `shown`. `own`: it is swarm's own, so its programs come from folders
    that agents do not write.

    Raises:
        UsageError: It failed, took longer than `limit_s`, or printed more than 8 MiB.
        ScriptSandboxUnavailable: There is no sandbox here.
    """
    closed = (*find_user_paths(dict(os.environ)).hidden, *hidden)
    masks = [word for path in closed for word in ("--hide", path)]
    bounds = ("-s", "read-only")
    if policy is not None:
        bounds = ("--policy", msgspec.json.encode(policy).decode())
    argv = [*SANDBOX_ARGV, *bounds, "-C", str(cwd), *masks, "--", "/bin/sh", "-c", command]
    child = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, env=_environment(cwd) if own else None,
    )  # fmt: skip
    late = threading.Event()

    def end() -> None:
        late.set()
        _kill(child)

    alarm = threading.Timer(limit_s, end)
    alarm.start()
    try:
        output, complaint = _read_both(child)
        child.wait()
    finally:
        alarm.cancel()
        _kill(child)
        child.wait()
        alarm.join()
    shown = shown or f"fan_out.each.lines: `{command}`"
    if late.is_set():
        raise UsageError(f"{shown} took longer than {limit_s:g} s")
    if len(output) > _MAX_BYTES:
        raise UsageError(f"{shown} printed more than {_MAX_BYTES >> 20} MiB")
    words_of = complaint.decode("utf-8", "replace").strip()[-500:]
    if child.returncode == _SANDBOX_FAILED_EXIT_CODE:
        raise ScriptSandboxUnavailable(f"{shown} was not run: {words_of}")
    if child.returncode != 0:
        raise UsageError(f"{shown} failed with exit code {child.returncode}: {words_of}")
    return output.decode("utf-8", "replace")


def _environment(cwd: Path) -> dict[str, str]:
    return held_environment(os.environ, project_lookup(os.environ, str(cwd)))


def _read_both(child: "subprocess.Popen[bytes]") -> tuple[bytes, bytes]:
    """Read both streams to their ends, or until stdout exceeds its limit."""
    complaints: list[bytes] = []
    assert child.stdout is not None
    assert child.stderr is not None
    second = threading.Thread(target=_drain, args=(child.stderr, complaints), daemon=True)
    second.start()
    output = child.stdout.read(_MAX_BYTES + 1)
    if len(output) > _MAX_BYTES:
        _kill(child)
    second.join(timeout=5)
    child.stdout.close()
    if not second.is_alive():
        child.stderr.close()
    return output, b"".join(complaints)


def _drain(stream: IO[bytes], kept: list[bytes]) -> None:
    total = 0
    while chunk := stream.read(65_536):
        total += len(chunk)
        if total <= 1 << 20:
            kept.append(chunk)


def _kill(child: "subprocess.Popen[bytes]") -> None:
    with suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
