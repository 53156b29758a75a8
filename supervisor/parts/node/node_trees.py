"""The trees of a node: bases that come, layers that go back. Blocks.

One tree comes at a time. What an agent wrote is sent when asked for, when its process ends, and
every few seconds: each time what has changed since.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.base.shipped_tree import is_git_store, layer_tree
from swarm.mailbox.base.tree_pack import TreePacker, TreeRefused, layer_packer
from swarm.mailbox.base.tree_unpack import TreeUnpacker
from swarm.mailbox.protocol.spec import AgentSpec, CopyMount

from ...processes.process_types import SpawnError
from .node_paths import NodePaths
from .tree_copy import keep_part, layer_file, make_tree_copy, tool_folders


def make_mount_point(path: str) -> None:
    """A folder over which a copy is mounted. Raises SpawnError that says what to do."""
    try:
        make_own_folders(Path(path))
    except OSError as error:
        raise SpawnError(
            f"this machine cannot show the project at {path}: {error.strerror}; make that folder "
            "there, empty"
        ) from error


def _link_tree(earlier: Path, folder: Path) -> None:
    """The same folders, and one more name for each file: none of them is ever written to.

    Raises OSError.
    """
    make_own_folders(folder.parent)
    shutil.copytree(earlier, folder, symlinks=True, copy_function=_link)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno != errno.EMLINK:
            raise
        shutil.copy2(source, target)  # a file cannot have more names


class TreeBroken(SpawnError):
    """What was sent is not whole on this machine."""


class NodeTrees:
    """Writes what comes and packs what goes."""

    def __init__(self, paths: NodePaths) -> None:
        self._paths = paths
        self._coming: dict[str, TreeUnpacker] = {}
        self._whole: set[str] = set()  # that have come once; more of git's objects may come later
        self._broken: dict[str, str] = {}  # by tree: why it is not whole
        self._made: tuple[str, ...] | None = None  # of `tool_folders`, once it is looked for
        self._packers: dict[str, dict[str, TreePacker]] = {}  # by agent, one for each layer

    def take(self, tree: str, part: bytes, *, is_last: bool, after: str = "") -> None:
        """Write a part of a tree, the arguments as in `TreePart`.

        Raises ValueError, TreeRefused, OSError: the tree is broken then, and stays so.
        """
        if tree in self._broken:
            return
        try:
            self._take(tree, part, is_last=is_last, after=after)
        except (OSError, ValueError, TreeRefused) as error:
            self._broken[tree] = str(error)
            raise

    def _take(self, tree: str, part: bytes, *, is_last: bool, after: str) -> None:
        if reason := self._broken.get(after):
            raise TreeRefused(reason)
        if tree.startswith("agents/") and not self._paths.has_overlays:
            if part:
                keep_part(layer_file(self._paths, tree), part)
            return
        unpacker = self._coming.get(tree)
        if unpacker is None:
            folder = self._paths.tree(tree)
            is_new = not folder.exists()  # else agents use it already
            if is_new and after:
                _link_tree(self._paths.tree(after), folder)
            make_own_folders(folder)
            unpacker = self._coming[tree] = TreeUnpacker(str(folder), is_new=is_new)
        if part:
            unpacker.take(part)
        if is_last:
            self._coming.pop(tree).__exit__()
            self._whole.add(tree)

    def make_copy(self, spec: AgentSpec) -> None:
        """Make what an agent's copy consists of, for its first process here.

        Raises OSError, TreeRefused, SpawnError; CopyRefused without overlays; TreeBroken.
        """
        self._check_whole(spec)
        known = self._packers.get(spec.agent_id)  # it was here before, and all it has is here
        if not self._paths.has_overlays:
            self._packers[spec.agent_id] = known or self._make_tree(spec)
            return
        for mount in spec.copy.mounts:
            make_mount_point(mount.path)
        self._packers[spec.agent_id] = known or self._make_layers(spec)

    def _make_tree(self, spec: AgentSpec) -> dict[str, TreePacker]:
        """Commands have made what they make before the first agent starts here."""
        if self._made is None:
            self._made = tuple(tool_folders(self._paths.prepared_tree))
        return make_tree_copy(spec, self._paths, self._made)

    def _check_whole(self, spec: AgentSpec) -> None:
        """Raises TreeBroken if something is missing of what the agent would see as the project."""
        used = {one for mount in spec.copy.mounts for one in self._trees_of(mount)}
        used |= {tree for tree in self._broken if tree.startswith(f"agents/{spec.agent_id}/")}
        for tree in sorted(used):
            is_part = tree in self._coming and tree not in self._whole
            if is_part or tree in self._broken:
                reason = self._broken.get(tree, "a part of it is missing")
                raise TreeBroken(f"the project is not whole there: {reason}")

    def _trees_of(self, mount: CopyMount) -> Iterator[str]:
        for place in (mount.base, *(live.lower for live in mount.live)):
            for top in (self._paths.copies, self._paths.shipped.parent):
                if place.startswith(f"{top}/"):
                    yield place.removeprefix(f"{top}/")

    def _make_layers(self, spec: AgentSpec) -> dict[str, TreePacker]:
        packers: dict[str, TreePacker] = {}
        for root, mount in enumerate(spec.copy.mounts):
            layers = [(mount.upper, mount.work), *((one.upper, one.work) for one in mount.live)]
            mode = Path(mount.base).stat().st_mode & 0o777 | 0o700
            for upper, work in layers:
                make_own_folders(Path(work))
                make_own_folders(Path(upper))
            Path(mount.upper).chmod(mode)
            packers[layer_tree(spec.agent_id, root)] = layer_packer(mount.upper)
            for live in mount.live:
                if is_git_store(live.name):  # the agent's commits
                    packers[layer_tree(spec.agent_id, root, live.name)] = layer_packer(live.upper)
        for packer in packers.values():
            packer.skip_present()  # what was sent here is there already
        return packers

    def pack(self, agent_id: str) -> Iterator[tuple[str, bytes]]:
        """What has changed in the agent's layers: name of the layer, and parts. Raises OSError."""
        for tree, packer in self._packers.get(agent_id, {}).items():
            for part in packer.pack():
                yield tree, part
