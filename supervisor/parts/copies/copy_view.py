"""Tells an agent's process of its copy of the project."""

import msgspec

from swarm.mailbox.base.moved_path import moved_path
from swarm.mailbox.protocol.spec import AgentSpec, CopyView


def with_copy(spec: AgentSpec, copy: CopyView) -> AgentSpec:
    """The spec of a process that works in this copy."""
    if copy.mounts or not copy.tree:
        return msgspec.structs.replace(spec, copy=CopyView(mounts=copy.mounts))
    return msgspec.structs.replace(
        spec,
        cwd=moved_path(spec.cwd, copy.origin, copy.tree),
        claims=tuple(moved_path(one, copy.origin, copy.tree) for one in spec.claims),
        copy=copy,
    )
