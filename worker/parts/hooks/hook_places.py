"""Where the agents of a run may write, as a hook's `allow` is judged by it. Reads the disk."""

from swarm.mailbox.base.held_programs import find_writable_places
from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.mailbox.protocol.spec import AgentSpec


def hook_places(spec: AgentSpec) -> WritablePlaces:
    """The folders of all agents of the run, what this one was granted, and copies."""
    copies = (spec.copy.tree, *(one.path for one in spec.copy.mounts))
    granted = spec.granted.write
    own = find_writable_places(
        spec.limits.sandbox, spec.cwd, extra=(*granted, *copies), shut=spec.guarded.protected
    )
    return own.joined(spec.guarded.run_places)
