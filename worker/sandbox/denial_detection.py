"""Guesses from output and exit code whether the sandbox stopped a command. No I/O.

Source: Codex's heuristic: same words, same exceptions. In addition: "network is
unreachable", the error of a network that has only a loopback device; Codex's sandbox refuses
sockets instead.
"""

import re
import signal

_WORDS = re.compile(
    "operation not permitted|permission denied|read-only file system|seccomp|sandbox|landlock"
    "|failed to write file|network is unreachable",
    re.IGNORECASE,
)
_NOT_THE_SANDBOX = frozenset({2, 126, 127})  # usage, not executable, not found
_KILLED_BY_FILTER = 128 + signal.SIGSYS


def is_sandbox_denial(*, exit_code: int | None, output: str, sandboxed: bool) -> bool:
    """True if a sandboxed command failed and the sandbox seems to be the reason.

    Args:
        exit_code: None while it runs, or when swarm's own signal ended it: never a denial.
        output: Everything it printed, both streams.
    """
    if not sandboxed or exit_code is None or exit_code == 0:
        return False
    if _WORDS.search(output):
        return True
    return exit_code not in _NOT_THE_SANDBOX and exit_code == _KILLED_BY_FILTER
