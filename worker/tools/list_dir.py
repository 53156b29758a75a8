"""list_dir: list a folder's content, some levels deep, by pages. The listing is made in a thread.

Links are shown and never followed. Only the entries up to the requested page are kept, and the walk
stops at a fixed number of entries, so that memory and time for a huge folder are bounded.
"""

import heapq
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import trio
from msgspec import Meta, Struct

from swarm.mailbox.base.path_rules import PROTECTED_NAMES
from swarm.mailbox.base.safe_open import FOLDER_FLAGS, open_beneath, open_if_allowed
from swarm.mailbox.protocol.events import OtherCall
from swarm.mailbox.protocol.items import AnyCall

from ..sandbox.sandbox_plan import is_placeholder
from .interface.function_tool import NUMBER, DirectInvocation, FunctionTool, decode_arguments
from .interface.tool_context import ToolContext
from .interface.tool_interface import Invocation, ToolFailed, ToolResult

MAX_SCANNED = 200_000
MAX_NAME_BYTES = 500
_LISTED_LEVELS = 5
MayRead = Callable[[Path], bool]


class ListDirArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    dir_path: str
    offset: Annotated[int, Meta(extra_json_schema=NUMBER)] = 1
    limit: Annotated[int, Meta(extra_json_schema=NUMBER)] = 25
    depth: Annotated[int, Meta(extra_json_schema=NUMBER)] = 2


class _Entry(NamedTuple):
    """Ordered by its path below the folder, component by component."""

    parts: tuple[str, ...]
    suffix: str


def list_directory(arguments: ListDirArguments, *, may_read: MayRead | None = None) -> str:
    """Return the listing as the model reads it.

    Args:
        arguments: `offset`, `limit` and `depth` count from 1.
        may_read: Paths for which it returns False are left out.

    Raises:
        ToolFailed: An argument is out of range, or the folder itself cannot be read.
    """
    root = _check(arguments)
    if may_read is not None and not may_read(root):
        raise ToolFailed(
            f"access denied: reading this path is blocked by filesystem deny_read policy: `{root}`"
        )
    walk = _Walk(root, arguments.depth, may_read)
    last = arguments.offset - 1 + arguments.limit
    kept = heapq.nsmallest(min(last, MAX_SCANNED), walk.entries())
    page = kept[arguments.offset - 1 :]
    if not page and walk.scanned:
        raise ToolFailed(f"offset exceeds directory entry count, which is {walk.scanned}")
    lines = [f"Absolute path: {show_name(str(root))}", *(_render(entry) for entry in page)]
    if walk.scanned > last:
        lines.append(f"More than {arguments.limit} entries found")
    if walk.stopped:
        lines.append(f"Stopped after {MAX_SCANNED} entries; list a folder below this one")
    return "\n".join(lines)


def list_files(root: Path, *, limit: int, may_read: MayRead) -> list[str]:
    """Return the paths of regular files below `root`, relative to it, sorted; those of upper levels
    first if there are more than `limit`. Folders that cannot be read count as empty.

    Args:
        root: An absolute path.
        limit: Most paths. At most thirty times as many entries are looked at.
        may_read: Paths for which it returns False are left out, with all below them.
    """
    found: list[str] = []
    walk = _Walk(root, _LISTED_LEVELS, may_read).entries()
    with closing(walk), suppress(ToolFailed):
        for entry in islice(walk, limit * 30):
            if not entry.suffix:
                found.append("/".join(entry.parts))
            if len(found) >= limit:
                break
    return sorted(found)


def show_name(name: str) -> str:
    """Return a file name safe to print on a line: at most 500 bytes, unprintables escaped."""
    text = name.encode("utf-8", "surrogateescape")[:MAX_NAME_BYTES].decode("utf-8", "replace")
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _check(arguments: ListDirArguments) -> Path:
    if arguments.offset < 1:
        raise ToolFailed("offset must be a 1-indexed entry number: the first entry is 1")
    if arguments.limit < 1:
        raise ToolFailed("limit must be greater than zero")
    if arguments.depth < 1:
        raise ToolFailed("depth must be greater than zero")
    if not Path(arguments.dir_path).is_absolute():
        raise ToolFailed("dir_path must be an absolute path")
    return Path(arguments.dir_path)


class _Walk:
    """Breadth-first walk; an unreadable folder is marked and skipped. The root is opened once, and
    folders are opened beneath it: a link that replaces a folder is not entered.
    """

    def __init__(self, root: Path, depth: int, may_read: MayRead | None) -> None:
        self._root, self._depth, self._may_read = root, depth, may_read
        self.scanned = 0
        self.stopped = False

    def entries(self) -> Generator[_Entry, None, None]:
        may = self._may_read
        try:
            fd = open_if_allowed(
                self._root, lambda real: may is None or may(Path(real)), FOLDER_FLAGS
            )
        except OSError as error:
            raise ToolFailed(f"failed to read directory: {error}") from error
        try:
            yield from self._walk(fd)
        finally:
            os.close(fd)

    def _walk(self, root: int) -> Iterator[_Entry]:
        folders: deque[tuple[str, ...]] = deque()
        yield from self._scan(root, (), folders)
        while folders and not self.stopped:
            parts = folders.popleft()
            try:
                inside = open_beneath(root, "/".join(parts), FOLDER_FLAGS)
            except OSError as error:
                yield _Entry(parts, f"/ (cannot be read: {error.strerror})")
                continue
            try:
                yield _Entry(parts, "/")
                yield from self._scan(inside, parts, folders)
            finally:
                os.close(inside)
        for parts in folders:  # found, but not read
            yield _Entry(parts, "/")

    def _scan(
        self,
        folder: int,
        above: tuple[str, ...],
        folders: deque[tuple[str, ...]],
    ) -> Iterator[_Entry]:
        with os.scandir(folder) as entries:
            here = self._root.joinpath(*above)
            for entry in entries:
                if self.scanned >= MAX_SCANNED:
                    self.stopped = True
                    return
                if self._may_read is not None and not self._may_read(here / entry.name):
                    continue
                if entry.name in PROTECTED_NAMES and is_placeholder(str(here / entry.name)):
                    continue  # a command's sandbox creates it here; the person did not
                self.scanned += 1
                suffix = _suffix(entry)
                parts = (*above, entry.name)
                if suffix == "/" and len(parts) < self._depth:
                    folders.append(parts)
                else:
                    yield _Entry(parts, suffix)


def _suffix(entry: "os.DirEntry[str]") -> str:
    try:
        if entry.is_symlink():
            return "@"
        if entry.is_dir(follow_symlinks=False):
            return "/"
        return "" if entry.is_file(follow_symlinks=False) else "?"
    except OSError:
        return "?"


def _render(entry: _Entry) -> str:
    indent = "  " * (len(entry.parts) - 1)
    return f"{indent}{show_name(entry.parts[-1])}{entry.suffix}"


class ListDirTool(FunctionTool):
    """The list_dir tool."""

    name = "list_dir"
    arguments = ListDirArguments
    parallel = True

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    async def prepare(self, call: AnyCall) -> Invocation:
        arguments = decode_arguments(call, ListDirArguments)
        folder = str(self._context.cwd / arguments.dir_path)
        arguments = msgspec.structs.replace(arguments, dir_path=folder)
        detail = OtherCall(argument=arguments.dir_path[:1000])
        return DirectInvocation(detail, partial(self._list, arguments))

    async def _list(self, arguments: ListDirArguments) -> ToolResult:
        make = partial(list_directory, arguments, may_read=self._context.may_read)
        return ToolResult(content=await trio.to_thread.run_sync(make, abandon_on_cancel=True))
