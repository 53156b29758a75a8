"""What of an agent's copy goes to a machine: its base, its layers, ignored folders."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from swarm.mailbox.base.shipped_tree import is_git_store, layer_tree, shipped_tree
from swarm.mailbox.protocol.hosts import ShipCopy, ShippedFolder
from swarm.mailbox.protocol.spec import CopyMount

from ...copies.copy_folder import AgentCopy


def ship_order(
    request: int,
    node: str,
    copy: AgentCopy,
    mounts: tuple[CopyMount, ...],
    patterns: tuple[str, ...],
) -> ShipCopy:
    """Send all of it, as far as the node lacks it.

    Args:
        request: As in `ShipCopy`.
        node: Where it goes.
        copy: The agent's.
        mounts: Its folders here.
        patterns: Names of ignored folders that travel, or patterns of their paths.
    """
    return ShipCopy(
        request=request,
        node=node,
        agent_id=copy.agent_id,
        base=copy.base,
        roots=len(copy.roots),
        layers=tuple(_layers(copy.agent_id, mounts)),
        folders=tuple(_shipped_folders(copy, patterns)),
    )


def _layers(agent_id: str, mounts: tuple[CopyMount, ...]) -> Iterator[ShippedFolder]:
    """What the agent wrote, and git's objects among what it wrote in ignored folders: commits."""
    for root, mount in enumerate(mounts):
        yield ShippedFolder(tree=layer_tree(agent_id, root), path=mount.upper)
        for live in mount.live:
            if is_git_store(live.name):
                yield ShippedFolder(tree=layer_tree(agent_id, root, live.name), path=live.upper)


def _shipped_folders(copy: AgentCopy, patterns: tuple[str, ...]) -> Iterator[ShippedFolder]:
    """Git's objects always: without them nothing that the base has of a repository is usable."""
    for root in copy.roots:
        for name, _ in root.live:
            path, is_store = f"{root.path.rstrip('/')}/{name}", is_git_store(name)
            if is_store or _is_meant(name, patterns):
                yield ShippedFolder(tree=shipped_tree(path), path=path, grows=is_store)


def _is_meant(name: str, patterns: tuple[str, ...]) -> bool:
    last = name.rpartition("/")[2]
    return any(fnmatchcase(name, one) or fnmatchcase(last, one) for one in patterns)
