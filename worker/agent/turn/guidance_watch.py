"""AGENTS.md during a session: changes of the chain, and files of subfolders where calls work.

Each subfolder is checked once and all files share one byte budget. Files in other repositories and
in installed packages are ignored. New text is appended; earlier text is never replaced.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from swarm.mailbox.contents.context_markers import GUIDANCE_START
from swarm.mailbox.protocol.events import AnyCallDetail, CommandCall, OtherCall, PatchCall
from swarm.mailbox.protocol.items import AnyItem, InputText, Message
from swarm.roles.base.guidance import Guidance, GuidanceRules, load_folder_guidance, load_guidance

from ...base.current_spec import CurrentSpec
from ...policy.shell_parser import plain_commands

FOREIGN_FOLDERS = frozenset({"node_modules", "site-packages", "vendor", "venv", "__pycache__"})
_MAX_WORDS = 64  # words checked per call
_MAX_LEVELS = 32  # below the working directory


class FolderGuidance(msgspec.Struct, frozen=True):
    """One folder's own instructions, to be added now."""

    folder: str
    text: str


class GuidanceWatch:
    """The AGENTS.md state of one agent; `restored` are the items of its restored history."""

    def __init__(self, current: CurrentSpec, restored: Iterable[AnyItem]) -> None:
        self._current = current
        self._seen = {folder for item in restored if (folder := _guidance_folder(item))}
        self._left_bytes: int | None = None  # of the budget; None: not yet known
        # Resolved once: a command may later replace the folder by a link.
        self._root = Path(os.path.realpath(current.spec.cwd))
        self._refused: set[str] = set()  # of the chain, already reported
        self.warnings: list[str] = []  # the caller emits and clears them

    @property
    def is_enabled(self) -> bool:
        """False: this agent gets no AGENTS.md texts."""
        return self._current.spec.inherited.context.guidance_bytes > 0

    def read_chain(self) -> Guidance:
        """Read the current chain. Takes a few system calls."""
        read = self._load()
        self.warnings += [one for one in read.refused if one not in self._refused]
        self._refused.update(read.refused)
        return read

    def find_new_guidance(self, details: Iterable[AnyCallDetail]) -> list[FolderGuidance]:
        """Return the files of subfolders that these calls work in, outer ones first, each once."""
        if not self.is_enabled:
            return []
        root = self._root
        found: list[FolderGuidance] = []
        for folder in _call_folders(details, root):
            if str(folder) in self._seen:
                continue
            self._seen.add(str(folder))
            read = self._read(folder, root)
            if read.text:
                found.append(FolderGuidance(str(folder), read.text))
        return found

    def _read(self, folder: Path, root: Path) -> Guidance:
        if self._left_bytes is None:
            self._left_bytes = self._load().left_bytes
        rules = msgspec.structs.replace(self._rules(), limit_bytes=self._left_bytes)
        read = load_folder_guidance(folder, root=root, rules=rules)
        self.warnings += read.warnings
        if read.text:
            self._left_bytes = read.left_bytes
        return read

    def _load(self) -> Guidance:
        home = Path(self._current.spec.inherited.context.guidance_home)
        return load_guidance(self._root, config_folder=home, rules=self._rules())

    def _rules(self) -> GuidanceRules:
        rules = self._current.spec.inherited.context
        return GuidanceRules(
            limit_bytes=rules.guidance_bytes,
            fallback_names=rules.guidance_names,
            root_markers=rules.root_markers,
            keeps_cwd=True,
            sandbox=self._current.spec.limits.sandbox,
        )


def _guidance_folder(item: AnyItem) -> str:
    if not isinstance(item, Message) or item.role != "user" or len(item.content) != 1:
        return ""
    part = item.content[0]
    if not isinstance(part, InputText) or not part.text.startswith(GUIDANCE_START):
        return ""
    return part.text.partition("\n")[0].removeprefix(GUIDANCE_START)


def _call_folders(details: Iterable[AnyCallDetail], root: Path) -> Iterator[Path]:
    """Yield every folder between the root and a path of a call, from the outside in."""
    for detail in details:
        for place in _call_paths(detail, root):
            yield from _steps_down(place, root)


def _call_paths(detail: AnyCallDetail, root: Path) -> Iterator[str]:
    match detail:
        case CommandCall(cwd=cwd, script=script):
            yield cwd
            words = [word for one in plain_commands(script) or () for word in one]
            for word in words[:_MAX_WORDS]:
                if "\0" not in word and len(word) < 4_096:
                    yield str(Path(cwd) / word)
        case PatchCall(changes=changes):
            for change in changes:
                yield change.path
        case OtherCall(argument=argument) if argument and "\0" not in argument:
            yield str(root / argument)
        case _:
            return


def _steps_down(place: str, root: Path) -> Iterator[Path]:
    real = os.path.realpath(place)
    if not real.startswith(f"{root}{os.sep}"):
        return
    folder = root
    for name in Path(real).relative_to(root).parts[:_MAX_LEVELS]:
        folder = folder / name
        foreign = name in FOREIGN_FOLDERS or name.startswith(".") or (folder / ".git").exists()
        if foreign or not folder.is_dir():
            return
        yield folder
