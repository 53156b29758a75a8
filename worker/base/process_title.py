"""The titles that `ps` shows for processes of ours."""

from collections.abc import Callable
from functools import cache


@cache
def _load_setproctitle() -> Callable[[str], None]:
    from setproctitle import setproctitle  # when the first process needs it

    return setproctitle


def set_title(title: str) -> None:
    """Set the title that `ps` shows, with unprintable characters replaced."""
    _load_setproctitle()(printable(title))


def launcher_title(title: str) -> str:
    """Return the title that `ps` shows for the launcher of the process with this title."""
    return f"swarm: launcher of {printable(title).removeprefix('swarm: ')}"


def printable(title: str) -> str:
    """Replace unprintable characters by `?`: a role's name comes from a file."""
    return "".join(sign if sign.isprintable() else "?" for sign in title)
