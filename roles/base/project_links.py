"""Links among what a project brings: skills, commands, agents, hooks.

A link is followed only inside the project's root. What it leads to is told as a canonical path,
which its reader opens through no further link: whoever puts another link in its place after the
decision gets an error, and no file of somebody else's. A link that is not followed is named.
"""

import os
from pathlib import Path

from swarm.mailbox.base.path_rules import is_within

_MOST_NAMED = 20
_MOST_FOLLOWED = 1_000


class ProjectLinks:
    """Follows links below `root`, a canonical path; `left_out` names the others."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._followed = 0
        self.left_out: list[str] = []

    def follow(self, path: str) -> str | None:
        """Where this path leads; None: nothing is there, or it is named as one to be left out."""
        if not os.path.lexists(path):
            above = Path(path).parent
            if above.is_symlink() and not above.exists():
                self._name(f"{above} is left out: it is a link to what is not there")
            return None
        real = os.path.realpath(path)
        if real == path and not Path(path).is_symlink():
            return path
        self._followed += 1
        if (why := self._refusal(path, real)) is not None:
            self._name(f"{path} is left out: {why}")
            return None
        return real

    def leave_out(self, path: str, why: str) -> None:
        """Name a link that its reader cannot use."""
        self._name(f"{path} is left out: {why}")

    def _refusal(self, path: str, real: str) -> str | None:
        if Path(real).is_symlink():
            return "it is a link that leads to itself"
        if not is_within(real, self._root):
            return f"it is a link that leads out of {self._root}; copy what it leads to"
        if not os.path.lexists(real):
            return f"it is a link to {real}, which is not there"
        if is_within(path, real):
            return "it is a link to a folder that it lies in"
        if self._followed > _MOST_FOLLOWED:
            return f"this project has more than {_MOST_FOLLOWED:,} links"
        return None

    def _name(self, text: str) -> None:
        if text in self.left_out:
            return
        if len(self.left_out) < _MOST_NAMED:
            self.left_out.append(text)
        elif len(self.left_out) == _MOST_NAMED:
            self.left_out.append(f"{self._root}: more links are left out")


def may_be_there(path: Path) -> bool:
    """True if there is something at this path, or a link above it of which something is to say."""
    return os.path.lexists(path) or path.parent.is_symlink()
