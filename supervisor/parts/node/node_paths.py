"""The folders of a node, and an agent's spec as it must be there.

FOLDER/copies/bases/N/tree-I, FOLDER/copies/agents/ID/I/upper   as in the run's own folder
FOLDER/copies/shipped/MARK                                      ignored folders that travel
FOLDER/copies/prepared/MARK                                     see `node_prepare`
FOLDER/tmp/ID                                                   an agent's private /tmp
SHOWN/agents/ID, SHOWN/shipped/MARK                             where there are no overlays
SOCKETS/s, SOCKETS/g                                            the doors of the relay

Its temporary files with short paths lie in a folder of `short_tmp`.

Commands see nothing of FOLDER, and SHOWN as it is.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec.structs import replace

from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.base.shipped_tree import path_mark, shipped_tree
from swarm.mailbox.protocol.spec import (
    AgentSpec,
    CopyMount,
    FolderIdentity,
    GuardedPlaces,
    HubSpec,
    LiveFolder,
    ProxyAccess,
)
from swarm.mailbox.protocol.values.base import Value

from ...runs.folder_identity import identify_folder
from ...runs.held_locks import in_turn, take_lock
from ...runs.paths import UserPaths, make_private_folder
from ...runs.short_tmp import ShortTmp


class NodePaths(Value):
    """Where a node of one run keeps its files. All of it goes with the node."""

    folder: Path
    sockets: Path
    shown: Path
    has_overlays: bool = True
    short_tmp: ShortTmp = ShortTmp()

    @classmethod
    def of(cls, places: UserPaths, run_id: str, name: str, *, epoch: int) -> "NodePaths":
        """Each start has its own: the one before may still be tidying up.

        Several nodes may also share a machine and a user.
        """
        mark = sha256(f"{name} {epoch}".encode()).hexdigest()[:8]
        return cls(
            folder=places.state / "nodes" / f"{run_id}-{mark}",
            sockets=places.runtime / f"n{run_id[-8:]}-{mark}",
            shown=places.state / "node-copies" / f"{run_id}-{mark}",
        )

    def without_overlays(self) -> "NodePaths":
        return replace(self, has_overlays=False)

    @property
    def copies(self) -> Path:
        return self.folder / "copies"

    @property
    def supervisor_door(self) -> str:
        return f"ipc://{self.sockets}/s"

    @property
    def gateway_door(self) -> str:
        return f"ipc://{self.sockets}/g"

    def make(self) -> int:
        """Make the folders and hold their lock, which is the value. Raises SwarmError, OSError."""
        make_private_folder(self.folder.parent)
        with in_turn(self.folder.parent / "lock"):
            for folder in (
                self.folder, self.folder / "tmp", self.copies, self.sockets.parent, self.sockets,
                self.shown.parent, self.shown,
            ):  # fmt: skip
                make_private_folder(folder)
            return take_lock(self.folder / "lock")

    def sweep(self) -> None:
        """Remove what nodes left here that were killed: nobody holds their locks."""
        parent = self.folder.parent
        with os.scandir(parent) as entries:
            others = [one.path for one in entries if one.is_dir(follow_symlinks=False)]
        for other in others:
            if other == str(self.folder):
                continue
            with suppress(OSError):
                with in_turn(parent / "lock"):  # no other is between its folder and its lock
                    fd = take_lock(Path(other) / "lock")
                try:
                    with suppress(FileNotFoundError):
                        remove_tree(self.shown.parent / Path(other).name)
                    remove_tree(Path(other))
                finally:
                    os.close(fd)

    def remove(self) -> None:
        """Remove all of it."""
        for folder in (self.shown, self.folder, self.sockets):
            with suppress(OSError):
                remove_tree(folder)

    def tree(self, name: str) -> Path:
        """The folder of a tree that is sent. Raises ValueError for a name that no tree can have."""
        match name.split("/"):
            case ["bases", number, tree] if number.isdigit() and tree.startswith("tree-"):
                index = tree.removeprefix("tree-")
                if index.isdigit():
                    return self.copies / "bases" / number / tree
            case ["shipped", mark] if is_plain(mark):
                return self.shipped / mark
            case ["agents", agent_id, root, *live, "upper"] if (
                is_plain(agent_id) and root.isdigit() and (not live or _is_live(live))
            ):
                return Path(self.copies, *name.split("/"))
            case _:
                pass
        raise ValueError(f"no tree is called {name!r}")

    @property
    def shipped(self) -> Path:
        return (self.copies if self.has_overlays else self.shown) / "shipped"

    @property
    def prepared(self) -> Path:
        return self.copies / "prepared"

    @property
    def prepared_tree(self) -> Path:
        """Where commands have made them where there are no overlays."""
        return self.shown / "prepared"

    def prepared_of(self, place: str) -> Path:
        """Where the layers lie that commands have made of a copied folder."""
        return self.prepared / path_mark(place)

    def agent_tree(self, agent_id: str) -> Path:
        """The folder that is an agent's copy, where there are no overlays."""
        return self.shown / "agents" / agent_id

    def layers(self, agent_id: str) -> Path:
        return self.copies / "agents" / agent_id


def is_plain(name: str) -> bool:
    """True for an id, which can be the name of a folder."""
    return bool(name) and all(sign.isalnum() or sign == "-" for sign in name)


def _is_live(steps: list[str]) -> bool:
    return len(steps) == 1 and steps[0].startswith("live-") and is_plain(steps[0])


def spec_for_node(
    spec: AgentSpec, paths: NodePaths, environment: dict[str, str], ours: tuple[FolderIdentity, ...]
) -> AgentSpec:
    """The spec with this machine's paths in the place of the supervisor's.

    What only the supervisor's machine has is taken out: the network proxy and its certificates.
    Raises ValueError for an agent that works in no copy.
    """
    if not spec.copy.mounts:
        raise ValueError("an agent on another machine works in a copy, and this one has none")
    if spec.limits.network is not None:
        raise ValueError(
            "its commands may use the network through the run's proxy, which is on another machine"
        )
    replace = msgspec.structs.replace
    mounts = (_moved(one, index, spec, paths) for index, one in enumerate(spec.copy.mounts))
    return replace(
        spec,
        endpoint=paths.supervisor_door,
        gateway=replace(spec.gateway, endpoint=paths.gateway_door, door=paths.gateway_door),
        tmp_dir=str(paths.folder / "tmp" / spec.agent_id),
        short_tmp_dir=str(paths.short_tmp.of_agent(spec.agent_id) or ""),
        environment=environment,
        copy=replace(spec.copy, mounts=tuple(mounts)),
        guarded=_guarded(spec.guarded, ours),
        proxy=ProxyAccess(),
        inherited=replace(spec.inherited, guidance_files=()),
    )


def hub_spec_for_node(
    spec: HubSpec, paths: NodePaths, environment: dict[str, str], ours: tuple[FolderIdentity, ...]
) -> HubSpec:
    """The same for a hub. Servers that name no folder start where the project is shown, if it is;
    they see no agent's copy.
    """
    own = make_private_folder(paths.folder / "tmp" / "mcp")
    return msgspec.structs.replace(
        spec,
        endpoint=paths.supervisor_door,
        environment=environment,
        cwd=spec.cwd if Path(spec.cwd).is_dir() else str(own),
        tmp_dir=str(own),
        short_tmp_dir=str(paths.short_tmp.of_servers or ""),
        guarded=_guarded(spec.guarded, ours),
        logins="",
    )


def _guarded(guarded: GuardedPlaces, ours: tuple[FolderIdentity, ...]) -> GuardedPlaces:
    """With the folders of this machine that no command may see."""
    hidden = dict.fromkeys((*guarded.hidden_paths, *(one.path for one in ours)))
    return msgspec.structs.replace(guarded, hidden_paths=tuple(hidden), hidden_folders=ours)


def _moved(mount: CopyMount, index: int, spec: AgentSpec, paths: NodePaths) -> CopyMount:
    own = paths.layers(spec.agent_id) / str(index)
    number, tree = Path(mount.base).parts[-2:]
    prepared, names = paths.prepared_of(mount.path), [one.name for one in mount.live]
    return CopyMount(
        path=mount.path,
        base=str(paths.tree(f"bases/{number}/{tree}")),
        upper=str(own / "upper"),
        work=str(own / "work"),
        live=_live_over(live_mounts(paths, mount.path, names, own), prepared),
        made=(str(prepared / "upper"),) if prepared.is_dir() else (),
    )


def live_mounts(
    paths: NodePaths, place: str, names: Iterable[str], own: Path
) -> tuple[LiveFolder, ...]:
    """The ignored folders of a copied one, with their layers in `own`."""
    return tuple(
        LiveFolder(
            name=name,
            lower=_shipped(paths, f"{place}/{name}"),
            upper=str(_live(own, name) / "upper"),
            work=str(_live(own, name) / "work"),
        )
        for name in names
    )


def _live(own: Path, name: str) -> Path:
    """By its name: a later base may have other ignored folders beside it."""
    return own / f"live-{path_mark(name)}"


def _live_over(live: tuple[LiveFolder, ...], prepared: Path) -> tuple[LiveFolder, ...]:
    """The same over what commands have made in them."""
    made = (_live(prepared, one.name) / "upper" for one in live)
    return tuple(
        replace(one, made=(str(layer),)) if layer.is_dir() else one
        for one, layer in zip(live, made, strict=True)
    )


def _shipped(paths: NodePaths, folder: str) -> str:
    """Where an ignored folder lies that was sent here; "" if it was not."""
    here = paths.tree(shipped_tree(folder))
    return str(here) if here.is_dir() else ""


def identities(paths: NodePaths, places: UserPaths) -> tuple[FolderIdentity, ...]:
    """What no command may see here: the nodes' folders, and those of swarm's own runs."""
    short = paths.short_tmp.folder
    own = (paths.folder.parent, paths.sockets.parent, *(() if short is None else (short.parent,)))
    of_all = (places.runs, places.logins, places.server_programs, places.locks)
    others = (*of_all, places.ca_key.parent, *places.part_folders)
    return tuple(map(identify_folder, (*own, *(one for one in others if one.is_dir()))))
