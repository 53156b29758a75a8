"""A project with copies of it, made without mounts: a layer is written as an overlay would."""

import os
import stat
from pathlib import Path

from swarm.supervisor.parts.copies.base_tree import make_tree
from swarm.supervisor.parts.copies.copy_folder import AgentCopy, CopiedRoot, CopyFolder
from swarm.supervisor.parts.copies.layer_change import LayerChange, read_change
from swarm.supervisor.parts.copies.tree_survey import survey_tree
from swarm.supervisor.parts.undo.watched_tree import now_ns
from swarm.supervisor.runs.paths import RunPaths


class CopiedProject:
    """`root` is the project; agents get layers by `add_agent`, on the base of `freeze`."""

    def __init__(self, folder: Path, run: str = "run") -> None:
        """`run`: its folder's name; several runs may share the project."""
        self.root = folder.resolve() / "project"
        self.root.mkdir(exist_ok=True)
        self.paths = RunPaths(
            folder=folder.resolve() / f"state/runs/{run}", sockets=folder / "sockets/run"
        )
        self.paths.copies.mkdir(parents=True)
        self.folder = CopyFolder(self.paths.copies, self.paths.copy_trees)

    def write(self, files: dict[str, str | bytes]) -> None:
        fill(self.root, files)

    def freeze(self) -> None:
        survey = survey_tree(str(self.root), (), now_ns=now_ns())
        self.folder.make_base_folder(1)
        make_tree(str(self.root), survey, self.folder.tree(1, 0), None)
        self.folder.write_survey(1, 0, survey)
        self.survey = survey

    def add_agent(self, name: str) -> Path:
        """Returns its upper layer."""
        root = CopiedRoot(
            path=str(self.root),
            mode=0o755,
            live=tuple((one, 0o755) for one in self.survey.live),
        )
        copy = AgentCopy(
            agent_id=name, path=f"/root/{name}", base=1, roots=(root,), cwd=str(self.root)
        )
        self.folder.add_agent(copy)
        return self.folder.upper(name, 0)

    def change_of(self, name: str, store) -> LayerChange:
        copy = self.folder.find(name)
        assert copy is not None
        return read_change(self.folder, copy, store)


def fill(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def whiteout(path: Path) -> None:
    """The mark of an overlay for a removed entry."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


def layer_of(base: Path, wanted: Path, upper: Path) -> None:
    """Write into `upper` what turns `base` into `wanted`, as an overlay would have it."""
    names = {one.name for one in os.scandir(base)} if base.is_dir() else set()
    for name in sorted(names - {one.name for one in os.scandir(wanted)}):
        whiteout(upper / name)
    for entry in os.scandir(wanted):
        mine, old, target = Path(entry.path), base / entry.name, upper / entry.name
        if mine.is_symlink():
            if not (old.is_symlink() and old.readlink() == mine.readlink()):
                target.symlink_to(mine.readlink())
        elif mine.is_dir():
            is_known = old.is_dir() and not old.is_symlink()
            target.mkdir()
            if not is_known and os.path.lexists(old):
                os.setxattr(target, "user.overlay.opaque", b"y")
            layer_of(old if is_known else Path("/nonexistent"), mine, target)
        elif not _is_same(mine, old):
            target.write_bytes(mine.read_bytes())
            target.chmod(mine.stat().st_mode & 0o777)


def _is_same(one: Path, other: Path) -> bool:
    if other.is_symlink() or not other.is_file():
        return False
    mode = one.stat().st_mode & 0o777 == other.stat().st_mode & 0o777
    return mode and one.read_bytes() == other.read_bytes()
