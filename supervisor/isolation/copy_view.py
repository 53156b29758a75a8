"""How an agent's process gets its copy of the project."""

from typing import NamedTuple

import msgspec

from swarm.mailbox.moved_path import moved_path
from swarm.mailbox.protocol.spec import AgentSpec, CopyMount


class CopyView(NamedTuple):
    """The empty one: it shares the project."""

    mounts: tuple[CopyMount, ...] = ()
    origin: str = ""  # the project, if the copy is another folder
    tree: str = ""  # that folder
    shows: tuple[str, ...] = ()  # where links in it lead

    def applied(self, spec: AgentSpec) -> AgentSpec:
        """What the process is told of it."""
        if self.mounts or not self.tree:
            return msgspec.structs.replace(spec, copies=self.mounts)
        return msgspec.structs.replace(
            spec,
            cwd=moved_path(spec.cwd, self.origin, self.tree),
            claims=tuple(moved_path(one, self.origin, self.tree) for one in spec.claims),
            copies=(),
            copy_of=self.origin,
            copy_tree=self.tree,
            copy_shows=self.shows,
        )
