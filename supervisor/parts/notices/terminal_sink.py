"""Rings at the terminal from which the run was started, if it still has one."""

import os

_TERMINAL = "/dev/tty"
_FLAGS = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC


class NoTerminal(Exception):
    """There is none, or it takes nothing."""


def ring(said: bytes) -> None:
    """One write, so that nothing of the display comes between. Raises NoTerminal."""
    try:
        terminal = os.open(_TERMINAL, _FLAGS)
    except OSError as error:
        raise NoTerminal("the run has no terminal") from error
    try:
        os.write(terminal, said)
    except OSError as error:
        raise NoTerminal(f"the terminal takes nothing: {error.strerror}") from error
    finally:
        os.close(terminal)
