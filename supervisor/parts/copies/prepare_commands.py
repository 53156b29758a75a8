"""Runs the commands that get copies ready; keeps of what they made the folders that tools fill."""

import os
import signal
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio

from swarm.mailbox.base.overlay_marks import is_opaque
from swarm.mailbox.base.remove_tree import remove_tree

from .tree_survey import LIVE_NAMES

_TAIL_BYTES = 2_000
_MAX_DEPTH = 100


class PrepareFailed(Exception):
    """A command failed; the text says which, and how its output ended."""


async def run_prepare_command(
    program: Sequence[str], command: str, environment: Mapping[str, str]
) -> None:
    """Run it for `/bin/sh`; it ends with this process, also if that is killed.

    `program`: runs a command in the sandbox, in the copy. Raises PrepareFailed.
    """
    lifeline, held = os.pipe()  # closes when this process is gone, which ends the command
    argv = [*program, "--lifeline", str(lifeline), "--", "/bin/sh", "-c", command]
    try:
        try:
            process = await trio.lowlevel.open_process(
                argv,
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(lifeline,),
            )
        finally:
            os.close(lifeline)
        try:
            said = await _read_tail(process)
            code = await process.wait()
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            with trio.CancelScope(shield=True):
                await process.wait()
    finally:
        os.close(held)
    if code != 0:
        raise PrepareFailed(f"`{command}` ended with exit code {code}: {said}")


async def _read_tail(process: trio.Process) -> str:
    assert process.stdout is not None
    tail = b""
    async for part in process.stdout:
        tail = (tail + part)[-_TAIL_BYTES:]
    return tail.decode("utf-8", "replace").strip()


def keep_tool_folders(upper: Path) -> None:
    """Remove all that is not in a folder that tools fill. Blocks. Raises OSError.

    Confined code wrote it, and none of it runs any more.
    """
    _keep(upper, _MAX_DEPTH)


def _keep(folder: Path, depth: int) -> bool:
    """True if something below it is kept."""
    kept = False
    with os.scandir(folder) as scanned:
        entries = list(scanned)
    for entry in entries:
        path = Path(entry.path)
        if not entry.is_dir(follow_symlinks=False):
            path.unlink()
        elif entry.name in LIVE_NAMES or (depth > 0 and _shows_more(path, depth - 1)):
            kept = True
        else:
            remove_tree(path)
    return kept


def _shows_more(folder: Path, depth: int) -> bool:
    """False for a folder that was made anew: it would hide what the base has there."""
    folder.chmod(stat.S_IMODE(folder.lstat().st_mode) | 0o700)
    return not is_opaque(str(folder)) and _keep(folder, depth)


def find_tool_folders(tree: Path) -> dict[str, str]:
    """Where folders that tools filled lie in a prepared tree, by their names in it. Blocks."""
    found: dict[str, str] = {}
    for top, folders, _ in os.walk(tree):
        for name in list(folders):
            path = Path(top, name)
            if path.is_symlink():
                continue
            if name in LIVE_NAMES:
                folders.remove(name)
                if any(path.iterdir()):
                    found[str(path.relative_to(tree))] = str(path)
    return found
