"""Gets copies ready on a node: runs a person's commands once, and keeps what tools made of it.

They run in the sandbox, in a copy as agents have it, with this machine's network. What they leave
in folders that tools fill (`node_modules`, `.venv`) lies from then on below every agent's own
layer; all else that they wrote is removed, so that agents see the project as it is elsewhere.

FOLDER/copies/prepared/MARK/upper, work      of a copied folder
FOLDER/copies/prepared/MARK/live-MARK/upper, work   of an ignored folder in it
SHOWN/prepared                               without overlays: a folder, of which only those show
"""

import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import trio

from swarm.mailbox.base.moved_path import moved_path
from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.base.shipped_tree import is_git_store, shipped_tree
from swarm.mailbox.protocol.nodes import CopiedPlace, PrepareCopies
from swarm.mailbox.protocol.spec import CopyMount, FolderIdentity

from ..copies.prepare_commands import PrepareFailed, keep_tool_folders, run_prepare_command
from .node_paths import NodePaths, live_mounts
from .node_trees import make_mount_point
from .tree_copy import fill_tree

_IN_LAYERS = (sys.executable, "-P", "-m", "swarm.worker.programs.copy_command")
_IN_TREE = (sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_command")


async def prepare_copies(
    paths: NodePaths,
    order: PrepareCopies,
    environment: dict[str, str],
    hidden: tuple[FolderIdentity, ...],
) -> None:
    """Run all commands, one after the other. Raises PrepareFailed, OSError, ValueError.

    After a failure nothing of what they made is left. All ends with this process, also if killed.
    """
    program = await trio.to_thread.run_sync(make_place, paths, order)
    masks = [word for one in hidden for word in ("--hide", one.path)]
    made = False
    try:
        with trio.move_on_after(order.limit_s) as limit:
            for command in order.commands:
                await run_prepare_command(
                    [*program, "-s", "workspace-write", "--network", *masks],
                    command,
                    environment | order.environment,
                )
        if limit.cancelled_caught:
            raise PrepareFailed(f"the commands took over {order.limit_s:g} s")
        if paths.has_overlays:
            for place in order.places:
                upper = paths.prepared_of(place.path) / "upper"
                await trio.to_thread.run_sync(keep_tool_folders, upper)
        made = True
    finally:
        if not made:
            with trio.CancelScope(shield=True), suppress(OSError):
                folder = paths.prepared if paths.has_overlays else paths.prepared_tree
                await trio.to_thread.run_sync(remove_tree, folder)


def make_place(paths: NodePaths, order: PrepareCopies) -> tuple[str, ...]:
    """Make a copy for the commands; returns what runs one in it. Raises OSError, ValueError,
    SwarmError.
    """
    if paths.has_overlays:
        for place in order.places:
            make_mount_point(place.path)
        mounts = make_layers(paths, order)
        return (*_IN_LAYERS, msgspec.json.encode(mounts).decode(), "-C", order.cwd)
    if len(order.places) != 1:
        raise ValueError("without overlays commands can be run in a copy of one folder only")
    (place,) = order.places
    stores = [name for name in place.live if is_git_store(name)]
    sent = {name: paths.tree(shipped_tree(f"{place.path}/{name}")) for name in stores}
    shown = {name: str(folder) for name, folder in sent.items() if folder.is_dir()}
    fill_tree(str(paths.tree(f"bases/{order.base}/tree-0")), place.live, shown, paths.prepared_tree)
    cwd = moved_path(order.cwd, place.path, str(paths.prepared_tree))
    # what a command leaves running ends with it only there
    return (*_IN_TREE, "--stack", "bwrap", "-C", cwd)


def make_layers(paths: NodePaths, order: PrepareCopies) -> tuple[CopyMount, ...]:
    """Raises OSError, ValueError."""
    mounts = tuple(_mount(paths, order, index) for index in range(len(order.places)))
    for mount in mounts:
        layers = [(mount.upper, mount.work), *((one.upper, one.work) for one in mount.live)]
        for layer in (path for both in layers for path in both):
            make_own_folders(Path(layer), exist_ok=False)
        Path(mount.upper).chmod(Path(mount.base).stat().st_mode & 0o777 | 0o700)
    return mounts


def _mount(paths: NodePaths, order: PrepareCopies, index: int) -> CopyMount:
    place: CopiedPlace = order.places[index]
    own = paths.prepared_of(place.path)
    return CopyMount(
        path=place.path,
        base=str(paths.tree(f"bases/{order.base}/tree-{index}")),
        upper=str(own / "upper"),
        work=str(own / "work"),
        live=live_mounts(paths, place.path, place.live, own),
    )
