"""Did the sandbox stop this command? A guess from its words and exit code; pure.

Source: Codex's heuristic (safety sheet 8.6): same words, same exceptions; and what a network says
that has nothing but a loopback device, where Codex's refuses sockets.
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
    """True if a sandboxed command failed and it looks as if the sandbox was why.

    Args:
        exit_code: None while it runs, or when a signal of ours ended it: never a denial.
        output: Everything it printed, both streams.
    """
    if not sandboxed or exit_code is None or exit_code == 0:
        return False
    if _WORDS.search(output):
        return True
    return exit_code not in _NOT_THE_SANDBOX and exit_code == _KILLED_BY_FILTER
