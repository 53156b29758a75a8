"""Runs the process that evaluates rule files, and names the faulty file if that process dies.

The process gets no keys, no open files and limited time.
"""

import os
import subprocess
import sys

import msgspec

from swarm.mailbox.errors import UsageError

from .evaluator_process import EvaluationReply, EvaluationRequest, decode_reply

_LIMIT_S = 10.0  # the CPU limit is tighter; this one is for a machine that hangs
_CHILD = (sys.executable, "-P", "-m", "swarm.roles.rules.evaluator_process")


def evaluate_texts(texts: tuple[str, ...]) -> EvaluationReply:
    """The rules of all files, or which file is broken; always returns.

    Raises UsageError if no process can be started.
    """
    order = EvaluationRequest(texts=texts)
    try:
        done = subprocess.run(
            _CHILD, input=msgspec.msgpack.encode(order), capture_output=True, check=False,
            timeout=_LIMIT_S, cwd="/", env=_bare_environment(),
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return _crash_reply(error.stderr or b"", "evaluating it took too long")
    except OSError as error:
        raise UsageError(f"rule files cannot be evaluated: {error.strerror}") from error
    if done.returncode == 0:
        try:
            return decode_reply(done.stdout)
        except msgspec.DecodeError:
            pass
    if b"ModuleNotFoundError" in done.stderr:
        raise UsageError("rule files need the package starlark-pyo3; install swarm anew")
    return _crash_reply(done.stderr, _crash_reason(done.returncode))


def _bare_environment() -> dict[str, str]:
    """The variables that Python itself may need; no keys."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "LD_LIBRARY_PATH") or name.startswith("PYTHON")
    }


def _crash_reply(said: bytes, what: str) -> EvaluationReply:
    """The reply for a process that died: the last file that it named is at fault."""
    begun = [int(line) for line in said.split(b"\n") if line.isdigit() and len(line) < 9]
    return EvaluationReply(broken_at=max(begun, default=0), what=what)


def _crash_reason(code: int) -> str:
    match code:
        case -9 | -24:  # SIGKILL and SIGXCPU: out of CPU time
            return "evaluating it takes too long; rules are plain lists, not programs"
        case _:
            return "evaluating it needs too much memory or is nested too deeply"
