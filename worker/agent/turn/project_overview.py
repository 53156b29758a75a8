"""What a small model is shown of the project beside its task: file names, and the files it names.

A small model guesses paths, and changes files that it has not read. The names of the project's
files, and the text of those that the task speaks of, save it the steps in which it goes wrong.
"""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from swarm.mailbox.base.path_rules import may_read
from swarm.mailbox.contents.context_markers import OVERVIEW_START, task_in
from swarm.mailbox.protocol.items import AnyItem, Message, text_of
from swarm.mailbox.protocol.values.limits import ProfilePolicy

from ...base.current_spec import CurrentSpec
from ...parts.patch.file_replacement import read_file
from ...tools.edit_file import find_tested_files, is_test
from ...tools.list_dir import list_files, show_name
from .guidance_watch import FOREIGN_FOLDERS

_MOST_NAMES = 60
_MOST_FILES = 3  # whose text is shown
_MOST_FILE_BYTES = 64 * 1024  # larger files are not read
_FILE_CHARS = 2_000  # longer files are cut
_MOST_TASK_CHARS = 20_000  # that are searched for names
_NAME = re.compile(r"(?<![\w./-])[\w./-]*[\w-]\.\w+")


class ProjectOverview:
    """What one agent has been shown; each thing once."""

    def __init__(self, current: CurrentSpec) -> None:
        self._current = current
        self._is_listed = False
        self._shown: set[str] = set()

    def describe(self, task: str) -> str:
        """Return what to show with this task; "" if there is nothing new. Reads a few files."""
        root = Path(self._current.spec.cwd)
        names = list_files(root, limit=_MOST_NAMES, may_read=self._may_list)
        parts: list[str] = []
        if not self._is_listed:
            self._is_listed = True
            listed = "\n".join(map(show_name, names)) or "(none)"
            more = "\n(and more)" if len(names) >= _MOST_NAMES else ""
            parts.append(f"{OVERVIEW_START}{root}:\n{listed}{more}")
        texts: dict[str, str] = {}
        for name in find_named_files(task[:_MOST_TASK_CHARS], names):
            if (text := self._read(root, name)) is None:
                continue
            texts[name] = text
            if is_test(name):
                tested = [one for one in find_tested_files(name, text) if one in names]
                found = {one: self._read(root, one) for one in tested}
                texts |= {one: code for one, code in found.items() if code is not None}
        for name, text in list(texts.items())[:_MOST_FILES]:
            if name not in self._shown:
                self._shown.add(name)
                cut = "\n(cut)" if len(text) > _FILE_CHARS else ""
                parts.append(f"{name} holds:\n{text[:_FILE_CHARS].rstrip()}{cut}")
        return "\n\n".join(parts)

    def _may_list(self, path: Path) -> bool:
        if path.name.startswith(".") and str(path) != self._current.spec.cwd:
            return False
        return path.name not in FOREIGN_FOLDERS and self._may_read(str(path))

    def _may_read(self, path: str) -> bool:
        policy = self._current.spec.limits.sandbox
        return not isinstance(policy, ProfilePolicy) or may_read(policy, os.path.realpath(path))

    def _read(self, root: Path, name: str) -> str | None:
        """The text of a file; None for one that is too large, no text, or cannot be read."""
        try:
            if (root / name).lstat().st_size > _MOST_FILE_BYTES:
                return None
            return read_file(root / name, self._may_read).decode()
        except (OSError, ValueError):
            return None


def latest_task(items: Sequence[AnyItem]) -> str:
    """The latest words of a person or of another agent in a history; "" if there are none."""
    for item in reversed(items):
        if not isinstance(item, Message):
            continue
        text = text_of(item.content)
        if item.author is not None and text.startswith("Message Type: NEW_TASK"):
            return text.partition("\nPayload:\n")[2]
        if item.role == "user" and (task := task_in(text)):
            return task
    return ""


def find_named_files(task: str, names: Iterable[str]) -> list[str]:
    """Return those of the project's files that a task names, by path or by a name that only one
    file has, in the task's order.
    """
    by_name: dict[str, list[str]] = {}
    for path in names:
        by_name.setdefault(path, []).append(path)
        if "/" in path:
            by_name.setdefault(path.rpartition("/")[2], []).append(path)
    found = (by_name.get(word.removeprefix("./"), []) for word in _NAME.findall(task))
    return list(dict.fromkeys(paths[0] for paths in found if len(paths) == 1))
