"""Where the agents of a run may write, as canonical paths. Pure: what is no path of theirs is held.

A program that lies there, or is reached through a link or folder there, may be exchanged by an
agent at any moment, so nothing that runs outside of a sandbox may be taken from there.
"""

from collections.abc import Iterable

from ..protocol.values.base import Value
from ..protocol.values.limits import DangerFullAccess, ProfilePolicy, SandboxPolicy, WorkspaceWrite
from .path_rules import is_within


class WritablePlaces(Value):
    """The deepest of `roots` and `shut` that contains a path decides about it."""

    roots: tuple[str, ...] = ()
    shut: tuple[str, ...] = ()  # below a root, but closed to agents
    everywhere: bool = False  # a run without a sandbox

    def root_of(self, path: str) -> str:
        """The root below which an agent may write this canonical path; "" if none may."""
        if self.everywhere:
            return "/"
        root = max((one for one in self.roots if is_within(path, one)), key=len, default="")
        closed = max((one for one in self.shut if is_within(path, one)), key=len, default="")
        return root if len(root) > len(closed) or (root and root == closed) else ""

    def may_exchange(self, path: str) -> bool:
        """True if an agent may put something else at this path.

        A root, and a folder above something that is shut, can be written in but not moved.
        """
        fixed = path in self.roots or any(is_within(one, path) for one in self.shut)
        return bool(self.root_of(path)) and (self.everywhere or not fixed)

    def joined(self, other: "WritablePlaces") -> "WritablePlaces":
        """What either may write: shut is only what the other cannot open."""
        shut = (
            *(one for one in self.shut if not other.root_of(one)),
            *(one for one in other.shut if not self.root_of(one)),
        )
        return WritablePlaces(
            roots=_unique((*self.roots, *other.roots)),
            shut=_unique(shut),
            everywhere=self.everywhere or other.everywhere,
        )


NO_PLACES = WritablePlaces()


def _unique(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))


def writable_roots(policy: SandboxPolicy, cwd: str) -> tuple[str, ...]:
    """The roots that a policy opens, as they are written there; () without a sandbox too."""
    match policy:
        case WorkspaceWrite():
            return (cwd, *policy.writable_roots)
        case ProfilePolicy():
            return tuple(rule.path for rule in policy.rules if rule.access == "write")
        case _:
            return ()


def closed_paths(policy: SandboxPolicy) -> tuple[str, ...]:
    """What a profile closes below its own roots."""
    if not isinstance(policy, ProfilePolicy):
        return ()
    return tuple(rule.path for rule in policy.rules if rule.access != "write")


def places_of(
    policy: SandboxPolicy, roots: Iterable[str], shut: Iterable[str] = ()
) -> WritablePlaces:
    """The places of a policy whose roots and shut paths were made canonical by the caller."""
    return WritablePlaces(
        roots=_unique(roots), shut=_unique(shut), everywhere=isinstance(policy, DangerFullAccess)
    )
