"""Runs the process that evaluates rule files, and names the faulty file if that process dies.

The process gets no keys, no open files and limited time.
"""

import os
import signal
import subprocess
import sys

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.rules import HostExecutable, NetworkRule, PrefixRule, RuleSet
from swarm.mailbox.protocol.values.base import Value

_LIMIT_S = 10.0  # the CPU limit is tighter; this one is for a machine that hangs
_CHILD = (sys.executable, "-P", "-m", "swarm.roles.rules.evaluate")


class CollectedRules(Value):
    """The rules of the files so far; `files[at]` is the index of the file of `prefixes[at]`."""

    prefixes: tuple[PrefixRule, ...] = ()
    files: tuple[int, ...] = ()
    executables: tuple[HostExecutable, ...] = ()
    network: tuple[NetworkRule, ...] = ()

    def rules(self) -> RuleSet:
        return RuleSet(prefixes=self.prefixes, executables=self.executables, network=self.network)


class EvaluationRequest(Value):
    texts: tuple[str, ...]


class EvaluationReply(Value):
    """Either all rules, or the first broken file and the reason."""

    collected: CollectedRules = CollectedRules()
    broken_at: int | None = None
    what: str = ""
    line: int | None = None


def evaluate_texts(texts: tuple[str, ...]) -> EvaluationReply:
    """The rules of all files, or which file is broken; always returns.

    Raises UsageError if no process can be started.
    """
    try:
        done = subprocess.run(
            _CHILD, input=msgspec.msgpack.encode(EvaluationRequest(texts=texts)),
            capture_output=True, check=False, timeout=_LIMIT_S, cwd="/", env=_bare_environment(),
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        return _crash_reply(error.stderr or b"", "evaluating it took too long")
    except OSError as error:
        raise UsageError(f"rule files cannot be evaluated: {error.strerror}") from error
    if done.returncode == 0:
        try:
            return msgspec.msgpack.decode(done.stdout, type=EvaluationReply)
        except msgspec.DecodeError:
            pass
    if b"ModuleNotFoundError" in done.stderr:
        raise UsageError("rule files need the package starlark-pyo3; install swarm again")
    return _crash_reply(done.stderr, _crash_reason(done.returncode))


def _bare_environment() -> dict[str, str]:
    """The variables that Python itself may need; no keys."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "LD_LIBRARY_PATH") or name.startswith("PYTHON")
    }


def _crash_reply(output: bytes, what: str) -> EvaluationReply:
    """The reply for a process that died: the last file that it named is at fault."""
    begun = [int(line) for line in output.split(b"\n") if line.isdigit() and len(line) < 9]
    return EvaluationReply(broken_at=max(begun, default=0), what=what)


def _crash_reason(code: int) -> str:
    if code in (-signal.SIGKILL, -signal.SIGXCPU):
        return "evaluating it takes too long; rules are plain lists, not programs"
    return "evaluating it needs too much memory or is nested too deeply"
