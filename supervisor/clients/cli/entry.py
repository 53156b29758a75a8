"""The console script `swarm`. It starts a run's processes before it imports click."""

import os
import sys
from typing import TextIO, cast

from .base.early_processes import start_early_for_command

_NEEDED = ("swarm", "trio", "msgspec", "zmq")


def main() -> None:
    """Run the command line of this process. Never returns."""
    _open_standard_files()
    _refuse_stranger()
    _leave_out_module_folders()
    arguments = sys.argv[1:]
    try:
        with start_early_for_command(arguments):
            from .main import run_cli

            code = run_cli(arguments)
    except KeyboardInterrupt:  # before the command began, or in its last moment
        sys.stderr.write("swarm: interrupted\n")
        code = 130
    sys.exit(code)


def _refuse_stranger() -> None:
    """End this process if `swarm` is a regular package: somebody else's, in our very folder.

    The console script has looked before it imported anything; who starts this module has not.
    """
    stranger = vars(sys.modules["swarm"]).get("__file__")
    if stranger is not None:
        shown = "".join(char if char.isprintable() else "�" for char in str(stranger))
        sys.exit(
            f"swarm: another package called `swarm` ({shown}) hides this one; uninstall that "
            "package, or install swarm into an environment of its own"
        )


def _leave_out_module_folders() -> None:
    """Import nothing by PYTHONPATH, but for swarm itself and what it needs.

    It leads into the person's project as a rule, where agents write while this process imports.
    Commands of agents still have the variable.
    """
    for entry in filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)):
        folder = os.path.abspath(entry)  # noqa: PTH100 - as Python itself has written it
        ours = any(os.path.exists(f"{folder}/{name}") for name in _NEEDED)  # noqa: PTH110
        if folder in sys.path and not ours:
            sys.path.remove(folder)


def _open_standard_files() -> None:
    """Open closed standard files on /dev/null, so that no later pipe gets their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            nothing = os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            os.set_inheritable(nothing, True)
    sys.stdin = _open_if_closed(sys.stdin, 0, "r")
    sys.stdout = _open_if_closed(sys.stdout, 1, "w")
    sys.stderr = _open_if_closed(sys.stderr, 2, "w")


def _open_if_closed(stream: TextIO | None, number: int, mode: str) -> TextIO:
    return stream or cast("TextIO", open(number, mode, closefd=False))


if __name__ == "__main__":
    main()
