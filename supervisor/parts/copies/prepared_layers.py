"""Gets copies ready: runs a person's commands once for each state of the files they depend on.

They run in the sandbox, in a copy of their own, with the network, in the machine's turn for heavy
commands. What they leave in folders that tools fill lies below the copies of all agents that have
the same state of those files; all else that they wrote is removed.

    copies/prepared/KEY/I/upper, live-MARK/upper   layers of one root; `done` is written last
    TREES/prepared-KEY                             where copies are folders
"""

import os
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio

from swarm.mailbox.base.moved_path import moved_path
from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.base.safe_open import READ_FLAGS, open_canonical, read_start
from swarm.mailbox.base.shipped_tree import is_git_store

from ...processes.machine_turns import HoldTurn, MachineWork, hold_no_turn
from .agent_tree import make_agent_tree
from .base_tree import SPARE_BYTES
from .copy_folder import AgentCopy, CopyFolder
from .prepare_commands import PrepareFailed, keep_tool_folders, run_prepare_command
from .tree_survey import CopyRefused, Survey

_IN_LAYERS = (sys.executable, "-P", "-m", "swarm.worker.programs.copy_command")
_IN_TREE = (sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_command")
LIMIT_S = 1800.0  # for all commands
MAX_BYTES, MAX_ENTRIES = 8 << 30, 1_000_000  # of what they leave
_LOOK_S = 1.0  # between two looks at the disk
_MOST_INPUTS, _MOST_INPUT_BYTES = 5_000, 16 << 20
_DONE = "done"


class Preparation(NamedTuple):
    """What a person wants, and what it takes."""

    commands: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()  # names of files, or patterns of them; (): those of installers
    environment: Mapping[str, str] = {}  # of the commands
    hold_turn: HoldTurn = hold_no_turn


NOTHING_WANTED = Preparation()


class PreparedLayers:
    """One per run."""

    def __init__(self, folder: CopyFolder, wanted: Preparation) -> None:
        self._folder = folder
        self._wanted = wanted
        self._lock = trio.Lock()
        self._failed: dict[str, str] = {}  # by key: what does not work is not tried for each agent

    async def make_ready(self, copy: AgentCopy, hidden: tuple[str, ...]) -> str:
        """The key of what is shared by copies of this base; "": nothing was to be prepared.

        `hidden`: what the commands must not see. Raises CopyRefused that says what went wrong;
        OSError, ValueError.
        """
        if not self._wanted.commands:
            return ""
        key = await trio.to_thread.run_sync(self._find_key, copy)
        async with self._lock:
            if key in self._failed:
                raise CopyRefused(self._failed[key])
            if not (self._folder.prepared(key) / _DONE).is_file():
                try:
                    await self._make(copy, key, hidden)
                except PrepareFailed as error:
                    self._failed[key] = f"[isolation] prepare failed: {error}"
                    raise CopyRefused(self._failed[key]) from error
        return key

    def _find_key(self, copy: AgentCopy) -> str:
        """The state of all on which it depends what the commands make. Blocks."""
        patterns = self._wanted.inputs or _known_inputs()
        hasher = sha256(msgspec.msgpack.encode((self._wanted.commands, bool(copy.tree))))
        for index, root in enumerate(copy.roots):
            survey, tree = self._folder.read_survey(copy.base, index), copy.base
            live = tuple(name for name, _ in root.live)
            hasher.update(msgspec.msgpack.encode((root.path, live)))
            for name in _find_inputs(survey, patterns):
                fd = open_canonical(f"{self._folder.tree(tree, index)}/{name}", READ_FLAGS)
                data = read_start(fd, most_bytes=_MOST_INPUT_BYTES)
                hasher.update(msgspec.msgpack.encode((name, sha256(data).digest())))
        return hasher.hexdigest()[:24]

    async def _make(self, copy: AgentCopy, key: str, hidden: tuple[str, ...]) -> None:
        """Raises PrepareFailed: nothing of it is left. CopyRefused, OSError, ValueError."""
        work = MachineWork(
            "", copy.path, command="; ".join(self._wanted.commands), head="prepare", cwd=copy.cwd
        )
        is_done = False
        try:
            program = await trio.to_thread.run_sync(self._make_place, copy, key)
            masks = tuple(word for path in hidden for word in ("--hide", path))
            async with self._wanted.hold_turn(work):
                await self._run_all((*program, "-s", "workspace-write", "--network", *masks))
            await trio.to_thread.run_sync(self._keep, copy, key)
            is_done = True
        finally:
            if not is_done:
                with trio.CancelScope(shield=True):  # it ends: nothing is written there any more
                    await trio.to_thread.run_sync(self._remove, key)

    async def _run_all(self, program: tuple[str, ...]) -> None:
        """Raises PrepareFailed."""
        problems: list[str] = []
        with trio.move_on_after(LIMIT_S) as limit:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_disk, problems, nursery.cancel_scope)
                try:
                    for command in self._wanted.commands:
                        await run_prepare_command(program, command, self._wanted.environment)
                except (PrepareFailed, OSError) as error:  # here: a nursery would wrap it
                    problems.append(str(error))
                nursery.cancel_scope.cancel()
        if limit.cancelled_caught:
            problems.append(f"the commands took over {LIMIT_S:g} s")
        if problems:
            raise PrepareFailed(problems[0])

    async def _watch_disk(self, problems: list[str], scope: trio.CancelScope) -> None:
        place = self._folder.prepared("")
        while shutil.disk_usage(place).free > SPARE_BYTES:  # noqa: ASYNC110 - nobody tells of it
            await trio.sleep(_LOOK_S)
        problems.append(f"the disk of {place} has under {SPARE_BYTES >> 20} MiB left")
        scope.cancel()

    def _make_place(self, copy: AgentCopy, key: str) -> tuple[str, ...]:
        """A copy for the commands; returns what runs one in it. Blocks."""
        self._remove(key)
        make_own_folders(self._folder.prepared(key))
        if copy.tree:
            (root,) = copy.roots
            survey = self._folder.read_survey(copy.base, 0)
            shown = {
                name: f"{root.path.rstrip('/')}/{name}"
                for name in survey.live
                if is_git_store(name)
            }
            tree = self._folder.prepared_tree(key)
            make_agent_tree(self._folder.tree(copy.base, 0), survey, shown, tree)
            return (*_IN_TREE, "-C", moved_path(copy.cwd, root.path, str(tree)))
        mounts = self._folder.prepared_mounts(copy, key)
        for mount, root in zip(mounts, copy.roots, strict=True):
            layers = [(mount.upper, mount.work), *((one.upper, one.work) for one in mount.live)]
            for layer in (path for both in layers for path in both):
                make_own_folders(Path(layer))
            Path(mount.upper).chmod(root.mode & 0o777 | 0o700)
        return (*_IN_LAYERS, msgspec.json.encode(mounts).decode(), "-C", copy.cwd)

    def _keep(self, copy: AgentCopy, key: str) -> None:
        """Keep what counts, within bounds, and note that it is all there. Blocks.

        Raises PrepareFailed, OSError.
        """
        if copy.tree:
            places = [self._folder.prepared_tree(key)]
            keep_tool_folders(places[0])
        else:
            mounts = self._folder.prepared_mounts(copy, key)
            for mount in mounts:
                keep_tool_folders(Path(mount.upper))
            uppers = [(mount.upper, *(one.upper for one in mount.live)) for mount in mounts]
            places = [Path(upper) for of_root in uppers for upper in of_root]
        _check_bounds(places)
        (self._folder.prepared(key) / _DONE).touch(mode=0o600)

    def _remove(self, key: str) -> None:
        for place in (self._folder.prepared(key), self._folder.prepared_tree(key)):
            with suppress(FileNotFoundError):
                remove_tree(place)


@cache
def _known_inputs() -> tuple[str, ...]:
    data = Path(__file__).with_name("prepare_inputs.toml").read_text("utf-8")
    return tuple(map(str, tomllib.loads(data)["names"]))


def _find_inputs(survey: Survey, patterns: tuple[str, ...]) -> Iterator[str]:
    """Files with such names, in order. Raises CopyRefused if there are too many."""
    found = sorted(
        name
        for name, seen in survey.entries.items()
        if seen.kind == "file" and _matches(name, patterns)
    )
    if len(found) > _MOST_INPUTS:
        raise CopyRefused(
            f"[isolation] prepare depends on {len(found):,} files; name fewer with prepare_inputs"
        )
    yield from found


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """A pattern with `/` is one of the path, any other of the name."""
    last = name.rpartition("/")[2]
    return any(fnmatchcase(name if "/" in one else last, one) for one in patterns)


def _check_bounds(places: list[Path]) -> None:
    """Raises PrepareFailed."""
    entries = size = 0
    for place in places:
        for top, folders, files in os.walk(place):
            entries += len(folders) + len(files)
            for name in files:
                with suppress(OSError):
                    size += os.lstat(f"{top}/{name}").st_blocks * 512
            if entries > MAX_ENTRIES or size > MAX_BYTES:
                raise PrepareFailed(
                    f"the commands left more than {MAX_ENTRIES:,} files or {MAX_BYTES >> 30} GiB"
                )
