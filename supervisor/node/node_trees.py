"""The trees of a node: bases that come, layers that go back. Blocks.

One tree comes at a time. What an agent wrote is sent when asked for, when its process ends, and
every few seconds: each time what has changed since.
"""

from collections.abc import Iterator
from pathlib import Path

from swarm.mailbox.protocol.spec import AgentSpec
from swarm.mailbox.shipped_tree import is_git_store, layer_tree
from swarm.mailbox.tree_pack import TreePacker
from swarm.mailbox.tree_unpack import TreeUnpacker

from ..processes.process_types import SpawnError
from .node_paths import NodePaths
from .tree_copy import keep_part, layer_file, make_tree_copy


def make_mount_point(path: str) -> None:
    """A folder over which a copy is mounted. Raises SpawnError that says what to do."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpawnError(
            f"this machine cannot show the project at {path}: {error.strerror}; make that folder "
            "there, empty"
        ) from error


class NodeTrees:
    """Writes what comes and packs what goes."""

    def __init__(self, paths: NodePaths) -> None:
        self._paths = paths
        self._coming: dict[str, TreeUnpacker] = {}
        self._packers: dict[str, dict[str, TreePacker]] = {}  # by agent, one for each layer

    def take(self, tree: str, part: bytes, *, is_last: bool) -> None:
        """Write a part of a tree. Raises ValueError, TreeRefused, OSError."""
        if tree.startswith("agents/") and not self._paths.has_overlays:
            if part:
                keep_part(layer_file(self._paths, tree), part)
            return
        unpacker = self._coming.get(tree)
        if unpacker is None:
            folder = self._paths.tree(tree)
            is_new = not folder.exists()  # else agents use it already
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            unpacker = self._coming[tree] = TreeUnpacker(str(folder), is_new=is_new)
        if part:
            unpacker.take(part)
        if is_last:
            self._coming.pop(tree).__exit__()

    def make_copy(self, spec: AgentSpec) -> None:
        """Make what an agent's copy consists of, for its first process here.

        Raises OSError, TreeRefused, SpawnError; CopyRefused without overlays.
        """
        known = self._packers.get(spec.agent_id)  # it was here before, and all it has is here
        if not self._paths.has_overlays:
            self._packers[spec.agent_id] = known or make_tree_copy(spec, self._paths)
            return
        for mount in spec.copies:
            make_mount_point(mount.path)
        self._packers[spec.agent_id] = known or self._make_layers(spec)

    def _make_layers(self, spec: AgentSpec) -> dict[str, TreePacker]:
        packers: dict[str, TreePacker] = {}
        for root, mount in enumerate(spec.copies):
            layers = [(mount.upper, mount.work), *((one.upper, one.work) for one in mount.live)]
            mode = Path(mount.base).stat().st_mode & 0o777 | 0o700
            for upper, work in layers:
                Path(work).mkdir(mode=0o700, parents=True, exist_ok=True)
                Path(upper).mkdir(mode=0o700, parents=True, exist_ok=True)
            Path(mount.upper).chmod(mode)
            packers[layer_tree(spec.agent_id, root)] = TreePacker(mount.upper)
            for live in mount.live:
                if is_git_store(live.name):  # the agent's commits
                    packers[layer_tree(spec.agent_id, root, live.name)] = TreePacker(live.upper)
        for packer in packers.values():
            packer.skip_present()  # what was sent here is there already
        return packers

    def pack(self, agent_id: str) -> Iterator[tuple[str, bytes]]:
        """What has changed in the agent's layers: name of the layer, and parts. Raises OSError."""
        for tree, packer in self._packers.get(agent_id, {}).items():
            for part in packer.pack():
                yield tree, part
