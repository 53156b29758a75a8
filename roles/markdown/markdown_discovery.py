"""Finds Markdown files of commands and agents below the folders that hold them; bounded.

Those of a project are read with its configuration (`config/project_config.py`), so that they count
only when their exact content was trusted; links are followed inside of the project alone.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.safe_open import READ_FLAGS, open_canonical, read_start, read_whole
from swarm.mailbox.protocol.values.base import Value

from ..base.project_links import ProjectLinks, may_be_there
from ..config.file_reading import read_bounded

COMMAND_FOLDERS = (".agents/commands", ".claude/commands", ".codex/prompts")
AGENT_FOLDERS = (".claude/agents", ".swarm/agents")
PROJECT_FOLDERS = (*COMMAND_FOLDERS, *AGENT_FOLDERS)
OWN_COMMAND_FOLDERS = ("commands", "prompts")  # beside the person's configuration
OWN_AGENT_FOLDERS = ("agents",)
FILE_BYTES = 64 << 10
_MAX_LEVELS = 4
_MAX_FILES = 500  # per folder
_MAX_ENTRIES = 5_000
_SUFFIX = ".md"

_Follow = Callable[[str], str | None]  # where a path leads; None: it is not followed
MarkdownScope = Literal["project", "user", "plugin"]


class FoundMarkdown(Value):
    """One file as it was read. `root` is the folder below which its name is told.

    `prefix`: stands before its name with a colon; that of a plugin. `problem`: why it could not be
    read.
    """

    path: str
    root: str
    scope: MarkdownScope
    data: bytes = b""
    prefix: str = ""
    problem: str = ""

    @property
    def name(self) -> str:
        """`folder:name`, without the suffix; with the prefix of a plugin."""
        inner = os.path.relpath(self.path, self.root).removesuffix(_SUFFIX)
        return ":".join(filter(None, (self.prefix, *Path(inner).parts)))


def has_markdown_folder(folder: Path) -> bool:
    """True if a project may keep such files here. Those of a home are the person's own."""
    return folder != Path.home() and any(may_be_there(folder / name) for name in PROJECT_FOLDERS)


def read_project_markdown(
    folder: Path, links: ProjectLinks | None = None
) -> Iterator[tuple[str, bytes]]:
    """(path, content) of each file in a project's folder, which is canonical.

    A file behind a link is told by the link's path, for that says its name. `links` follows links,
    or names them; None: those inside of `folder` are followed.

    Raises UsageError if there are too many or one is too large, OSError if one cannot be read.
    """
    if not has_markdown_folder(folder):
        return
    links = links or ProjectLinks(str(folder))
    for root in (folder / name for name in PROJECT_FOLDERS):
        for path, real in _files_below(root, links.follow):
            data = read_start(open_canonical(real, READ_FLAGS), most_bytes=FILE_BYTES + 1)
            if len(data) > FILE_BYTES:
                raise UsageError(f"{path}: larger than {FILE_BYTES >> 10} KiB")
            yield path, data


def project_markdown(
    folder: str, files: Mapping[str, bytes], roots: Iterable[str]
) -> Iterator[FoundMarkdown]:
    """The files among those of a trusted project folder, sorted; they are not read again."""
    for name in roots:
        root = str(Path(folder, name))
        for path in sorted(files):
            if path.startswith(f"{root}{os.sep}") and path.endswith(_SUFFIX):
                yield FoundMarkdown(path=path, root=root, scope="project", data=files[path])


def read_markdown_folder(root: Path) -> Iterator[FoundMarkdown]:
    """The files below a folder of the person's; links are followed."""
    try:
        paths = [Path(path) for path, _ in _files_below(root, os.path.realpath)]
    except UsageError as error:
        yield FoundMarkdown(path=str(root), root=str(root), scope="user", problem=str(error))
        return
    for path in paths:
        try:
            data, problem = read_bounded(path, limit_bytes=FILE_BYTES), ""
        except (UsageError, OSError) as error:
            data, problem = b"", str(error)
        yield FoundMarkdown(
            path=str(path), root=str(root), scope="user", data=data, problem=problem
        )


def read_markdown_files(paths: Iterable[str], *, root: str, prefix: str) -> Iterator[FoundMarkdown]:
    """These files of a plugin, never through a link. `prefix`: the plugin's name."""
    for path in paths:
        data, problem = b"", ""
        try:
            if not path.endswith(_SUFFIX):
                raise UsageError("only Markdown files are read here")
            data = read_whole(open_canonical(path, READ_FLAGS), most_bytes=FILE_BYTES)
        except (UsageError, OSError) as error:
            problem = str(error)
        yield FoundMarkdown(
            path=path, root=root, scope="plugin", data=data, prefix=prefix, problem=problem
        )


def _files_below(root: Path, follow: _Follow) -> Iterator[tuple[str, str]]:
    """(path, where it leads) of the Markdown files, sorted by level and name; no hidden ones."""
    level, seen, count, files = [str(root)], set[str](), 0, 0
    for _ in range(_MAX_LEVELS):
        below: list[str] = []
        for folder in level:
            real = follow(folder)
            if real is None or real in seen:
                continue  # it leads elsewhere, or in a loop
            seen.add(real)
            for entry in _entries(real):
                count += 1
                if count > _MAX_ENTRIES:
                    raise UsageError(f"{root}: more than {_MAX_ENTRIES} entries")
                path, place = f"{folder}/{entry.name}", f"{real}/{entry.name}"
                inner = follow(place) if entry.is_symlink() else place
                if inner is None:
                    continue  # a link that leads elsewhere
                facts = Path(inner) if entry.is_symlink() else entry
                if facts.is_dir():
                    below.append(path)
                elif entry.name.endswith(_SUFFIX) and facts.is_file():
                    files += 1
                    if files > _MAX_FILES:
                        raise UsageError(f"{root}: more than {_MAX_FILES} files")
                    yield path, inner
        level = below


def _entries(folder: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError:
        return []  # not there, or not readable: it gives nothing
    return sorted(shown, key=lambda entry: entry.name)
