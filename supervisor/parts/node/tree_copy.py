"""An agent's copy on a machine without overlays: a folder of its own.

What differs there from the base goes back as a layer over it, as from any other machine. Blocks.
"""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from msgspec.structs import replace

from swarm.mailbox.base.private_files import APPEND, make_own_folders, open_own_file
from swarm.mailbox.base.shipped_tree import is_git_store, layer_tree
from swarm.mailbox.base.tree_pack import TreePacker, layer_packer
from swarm.mailbox.base.tree_unpack import TreeUnpacker
from swarm.mailbox.protocol.spec import AgentSpec, CopyMount, CopyView
from swarm.mailbox.protocol.values.limits import ReadOnly, WorkspaceWrite

from ..copies.agent_tree import make_agent_tree
from ..copies.copy_view import with_copy
from ..copies.tree_survey import LIVE_NAMES, survey_tree
from ..undo.watched_tree import now_ns
from .node_paths import NodePaths

_MAX_DEPTH = 100
_LENGTH_BYTES = 4


def in_folder(spec: AgentSpec, paths: NodePaths) -> AgentSpec:
    """The spec of an agent whose copy is a folder. Raises ValueError if it cannot be one."""
    policy = spec.limits.sandbox
    is_plain = isinstance(policy, ReadOnly) or (
        isinstance(policy, WorkspaceWrite) and not policy.writable_roots
    )
    if len(spec.copy.mounts) != 1 or not is_plain:
        raise ValueError(
            "without overlays, which this machine has not, a copy is one folder, and this agent's "
            "sandbox names others"
        )
    origin, tree = spec.copy.mounts[0].path, str(paths.agent_tree(spec.agent_id))
    lead = (origin, *map(str, (paths.shipped, paths.prepared_tree)))
    shows = tuple(path for path in lead if Path(path).is_dir())
    return with_copy(spec, CopyView(origin=origin, tree=tree, shows=shows))


def make_tree_copy(
    spec: AgentSpec, paths: NodePaths, made: Collection[str]
) -> dict[str, TreePacker]:
    """Make the agent's folder: the base, and over it what the agent wrote elsewhere.

    Args:
        spec: It still has its mounts.
        paths: The node's.
        made: What `tool_folders` found.

    Returns:
        What packs its changes, by the names of layers.

    Raises:
        OSError, CopyRefused, TreeRefused: it cannot be made.
    """
    (mount,) = spec.copy.mounts
    tree = paths.agent_tree(spec.agent_id)
    names = [live.name for live in mount.live]
    fill_tree(mount.base, names, _shown_folders(mount, paths, made), tree)
    top = layer_packer(str(tree), left_out=names)
    top.take_as_base()
    packers = {layer_tree(spec.agent_id, 0): top}
    _lay_over(layer_file(paths, layer_tree(spec.agent_id, 0)), tree)
    for live in mount.live:
        if is_git_store(live.name) and (tree / live.name).is_dir():
            name = layer_tree(spec.agent_id, 0, live.name)
            packers[name] = store = layer_packer(str(tree / live.name))
            store.skip_present()
            _lay_over(layer_file(paths, name), tree / live.name)
    return packers


def fill_tree(base: str, live: Collection[str], shown: Mapping[str, str], into: Path) -> None:
    """A folder with what a base holds. Raises OSError, CopyRefused.

    Args:
        base: It has `live` as empty folders.
        live: Folders that are no part of it.
        shown: Where those lie that the copy shows; the others are empty.
        into: Is made anew.
    """
    survey = survey_tree(base, (), now_ns=now_ns())
    known = tuple(name for name in live if name in survey.entries)
    make_agent_tree(Path(base), replace(survey, live=known), shown, into)


def _shown_folders(mount: CopyMount, paths: NodePaths, made: Collection[str]) -> dict[str, str]:
    """Those that lie on this machine: at their places, as they were sent, as commands made them."""
    origins = {live.name: live.lower or f"{mount.path}/{live.name}" for live in mount.live}
    found = {name: origin for name, origin in origins.items() if Path(origin).is_dir()}
    return found | {name: f"{paths.prepared_tree}/{name}" for name in made}


def tool_folders(tree: Path) -> Iterator[str]:
    """Folders in a tree that tools have filled; none in one that is not there. Raises OSError.

    Confined code wrote them: no link is followed.
    """
    waiting = [""] if tree.is_dir() else []
    while waiting:
        above = waiting.pop()
        for one in sorted((tree / above).iterdir()):
            if one.is_symlink() or not one.is_dir():
                continue
            name = str(one.relative_to(tree))
            if one.name not in LIVE_NAMES and name.count("/") < _MAX_DEPTH:
                waiting.append(name)
            elif one.name in LIVE_NAMES and any(one.iterdir()):
                yield name


def layer_file(paths: NodePaths, name: str) -> Path:
    """What came of a layer, as it came: not every disk can hold its marks. Raises ValueError."""
    return Path(f"{paths.tree(name)}.parts")


def keep_part(file: Path, part: bytes) -> None:
    """Add one part to a layer. Raises OSError."""
    make_own_folders(file.parent)
    with os.fdopen(open_own_file(file, APPEND), "ab") as kept:
        kept.write(len(part).to_bytes(_LENGTH_BYTES, "big") + part)


def _lay_over(file: Path, tree: Path) -> None:
    if not file.is_file():
        return
    with TreeUnpacker(str(tree), is_tree=True) as unpacker, file.open("rb") as kept:
        while length := kept.read(_LENGTH_BYTES):
            unpacker.take(kept.read(int.from_bytes(length, "big")))
