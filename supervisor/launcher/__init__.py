"""The console script `swarm`, also installed as `swarm_command`: outside of what it starts.

A regular package called `swarm` hides all of ours, so the check for one cannot be among them.
"""

import sys
from importlib.util import find_spec


def main() -> None:
    """Start the command. Never returns."""
    refuse_stranger()
    from swarm.supervisor.clients.cli.entry import main as run

    run()


def refuse_stranger() -> None:
    """End this process with one sentence if another package is found as `swarm`.

    Nothing of that package is executed.
    """
    if (stranger := find_stranger()) is not None:
        shown = "".join(char if char.isprintable() else "�" for char in stranger)
        sys.exit(
            f"swarm: another package called `swarm` ({shown}) hides this one; uninstall that "
            "package, or install swarm into an environment of its own"
        )


def find_stranger() -> str | None:
    """The file of a regular package or module called `swarm`: ours is a namespace without one."""
    spec = find_spec("swarm")
    if spec is None or spec.origin in {None, "namespace"}:
        return None
    return spec.origin
