"""The folder of a run's copies: bases, and for each agent in a copy its layers and a description.

    copies/bases/N/survey-I, tree-I      one tree for each root (I); never changed
    copies/agents/ID/copy                which base and which roots: `AgentCopy`
    copies/agents/ID/I/upper, work, live-J/upper, live-J/work
    copies/agents/ID/I/made, live-J/made   its parent's layers, frozen, if that works in a copy too
    copies/prepared/KEY                  see `prepared_layers`
    copies/agents/ID/start               what the agent's tree was at its start, if it has one

Where no overlay can be had the agent has a tree in another folder, which its commands see:

    TREES/ID

What is in an upper layer or in a tree was written by confined code. Everything else here is ours,
and no command sees any of it. Blocks.
"""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.base.safe_open import read_user_file
from swarm.mailbox.protocol.spec import CopyMount, LiveFolder
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.config.atomic_replace import replace_file

from .tree_survey import Survey

_MAX_SURVEY_BYTES = 256 << 20
_MAX_COPY_BYTES = 1 << 20
_encode = msgspec.msgpack.Encoder().encode


class CopiedRoot(Value):
    """One folder that an agent has a copy of."""

    path: str  # canonical
    mode: int
    live: tuple[tuple[str, int], ...] = ()  # folders that are shown as they are, and their modes


class AgentCopy(Value):
    """What an agent's copy is made of. Written before its first process starts."""

    agent_id: str
    path: str  # the agent's
    base: int
    roots: tuple[CopiedRoot, ...]
    cwd: str
    tree: str = ""  # the folder that is its copy, of one root; "": layers over the project
    # Whose copy it sees, without one of its own to write: its frozen layers lie with this agent, or
    # the tree is its. "": it has a change of its own.
    sees: str = ""
    above: str = ""  # the agent whose copy this is a copy of; "": it is one of the project
    prepared: str = ""  # key of what commands have made for it: `PreparedLayers`; "": nothing
    # Agents with whom the frozen layers between base and own layer lie, the topmost first.
    frozen_with: tuple[str, ...] = ()

    @property
    def frozen_layers(self) -> tuple[str, ...]:
        """`frozen_with`, also of a copy that an earlier version described."""
        if self.frozen_with or not self.sees or self.tree:
            return self.frozen_with
        return (self.sees,)


class CopyFolder:
    """`folder`: `copies` in the run's folder; `trees`: the run's copies that commands see."""

    def __init__(self, folder: Path, trees: Path) -> None:
        self._folder, self._trees = folder, trees

    def tree(self, base: int, root: int) -> Path:
        return self._folder / "bases" / str(base) / f"tree-{root}"

    def upper(self, agent_id: str, root: int) -> Path:
        return self._agent(agent_id) / str(root) / "upper"

    def frozen(self, agent_id: str) -> Path:
        """Below it lie the layers of an agent's parent, as they were when it began."""
        return self._agent(agent_id)

    def layers(self, copy: AgentCopy) -> tuple[tuple[str, str], ...]:
        """Each layer that the agent writes, and where a frozen one lies below `frozen`."""
        found: list[tuple[str, str]] = []
        for index, mount in enumerate(self.mounts(copy)):
            found.append((mount.upper, f"{index}/made"))
            found += ((one.upper, f"{index}/live-{at}/made") for at, one in enumerate(mount.live))
        return tuple(found)

    def all_layers(self, copy: AgentCopy, root: int) -> tuple[str, ...]:
        """What the copy of one root consists of, the topmost first."""
        if copy.tree:
            return (copy.tree,)
        own, base = str(self.upper(copy.agent_id, root)), str(self.tree(copy.base, root))
        return (own, *self.frozen_below(copy, str(root)), base)

    def agent_tree(self, agent_id: str) -> Path:
        return self._trees / agent_id

    def agents(self) -> Iterator[AgentCopy]:
        """All agents that have or had a copy, oldest first. Raises OSError, ValueError."""
        try:
            names = sorted(entry.name for entry in os.scandir(self._folder / "agents"))
        except FileNotFoundError:
            return
        for name in names:
            if (found := self.find(name)) is not None:
                yield found

    def find(self, agent_id: str) -> AgentCopy | None:
        """The agent's copy. Raises OSError, ValueError if its description cannot be read."""
        try:
            data = read_user_file(self._agent(agent_id) / "copy", most_bytes=_MAX_COPY_BYTES)
        except FileNotFoundError:
            return None
        return msgspec.msgpack.decode(data, type=AgentCopy)

    def newest_base(self) -> int:
        """0 if there is none."""
        try:
            names = [entry.name for entry in os.scandir(self._folder / "bases")]
        except FileNotFoundError:
            return 0
        return max((int(name) for name in names if name.isdigit()), default=0)

    def read_survey(self, base: int, root: int) -> Survey:
        """Raises OSError, ValueError."""
        return _read_survey(self._survey(base, root))

    def read_start(self, agent_id: str) -> Survey:
        """What an agent's tree was before it began. Raises OSError, ValueError."""
        return _read_survey(self._agent(agent_id) / "start")

    def write_start(self, agent_id: str, survey: Survey) -> None:
        make_own_folders(self._agent(agent_id))
        replace_file(self._agent(agent_id) / "start", _encode(survey))

    def write_survey(self, base: int, root: int, survey: Survey) -> None:
        """Written last: a base without all its surveys was not finished."""
        replace_file(self._survey(base, root), _encode(survey))

    def make_base_folder(self, base: int) -> Path:
        made = self._folder / "bases" / str(base)
        make_own_folders(made, exist_ok=False)
        return made

    def add_agent(self, copy: AgentCopy) -> None:
        """Make the layers, if it has any, then the description. Raises OSError."""
        folder = self._agent(copy.agent_id)
        make_own_folders(folder)
        for mount, root in zip(self.mounts(copy), copy.roots, strict=not copy.tree):
            modes = [root.mode, *(mode for _, mode in root.live)]
            layers = [(mount.upper, mount.work), *((one.upper, one.work) for one in mount.live)]
            for mode, (upper, work) in zip(modes, layers, strict=True):
                make_own_folders(Path(work))
                Path(upper).mkdir(mode=0o700, exist_ok=True)
                Path(upper).chmod(mode & 0o777 | 0o700)  # else nobody could write to it
        replace_file(folder / "copy", _encode(copy))

    def mounts(self, copy: AgentCopy) -> tuple[CopyMount, ...]:
        """What the agent's process mounts."""
        found: list[CopyMount] = []
        if copy.tree:
            return ()
        for index, root in enumerate(copy.roots):
            own = self._agent(copy.agent_id) / str(index)
            found.append(
                CopyMount(
                    path=root.path,
                    base=str(self.tree(copy.base, index)),
                    upper=str(own / "upper"),
                    work=str(own / "work"),
                    made=self._made(copy, str(index), str(index)),
                    live=tuple(
                        LiveFolder(
                            name=name,
                            upper=str(own / f"live-{number}" / "upper"),
                            work=str(own / f"live-{number}" / "work"),
                            made=self._made(
                                copy, f"{index}/live-{number}", _prepared_live(index, name)
                            ),
                        )
                        for number, (name, _) in enumerate(root.live)
                    ),
                )
            )
        return tuple(found)

    def frozen_below(self, copy: AgentCopy, place: str) -> tuple[str, ...]:
        """The frozen layers of one root, or of a folder that is shown as it is; empty ones are
        not there. The topmost first.
        """
        layers = (self._agent(one) / place / "made" for one in copy.frozen_layers)
        return tuple(str(layer) for layer in layers if layer.is_dir())

    def _made(self, copy: AgentCopy, place: str, prepared: str) -> tuple[str, ...]:
        """What never changes over the base: frozen layers, then what commands have prepared."""
        made = self.frozen_below(copy, place)
        layer = self.prepared(copy.prepared) / prepared / "upper"
        return (*made, str(layer)) if copy.prepared and layer.is_dir() else made

    def prepared(self, key: str) -> Path:
        """What commands have made for copies, by its key; "": the folder of them all."""
        return self._folder / "prepared" / key

    def prepared_tree(self, key: str) -> Path:
        return self._trees / f"prepared-{key}"

    def prepared_mounts(self, copy: AgentCopy, key: str) -> tuple[CopyMount, ...]:
        """In what the commands run."""
        return tuple(
            CopyMount(
                path=root.path,
                base=str(self.tree(copy.base, index)),
                upper=str(self.prepared(key) / str(index) / "upper"),
                work=str(self.prepared(key) / str(index) / "work"),
                live=tuple(
                    LiveFolder(
                        name=name,
                        upper=str(self.prepared(key) / _prepared_live(index, name) / "upper"),
                        work=str(self.prepared(key) / _prepared_live(index, name) / "work"),
                    )
                    for name, _ in root.live
                ),
            )
            for index, root in enumerate(copy.roots)
        )

    def _agent(self, agent_id: str) -> Path:
        return self._folder / "agents" / agent_id

    def _survey(self, base: int, root: int) -> Path:
        return self._folder / "bases" / str(base) / f"survey-{root}"


def _prepared_live(root: int, name: str) -> str:
    return f"{root}/live-{sha256(name.encode()).hexdigest()[:12]}"


def _read_survey(file: Path) -> Survey:
    """Raises OSError, ValueError."""
    return msgspec.msgpack.decode(read_user_file(file, most_bytes=_MAX_SURVEY_BYTES), type=Survey)
