"""Ctrl-V: the picture in the clipboard becomes a file of the person's own, named in the line.

Terminals hand over text alone, so the desktop's own program is asked: `wl-paste` (Wayland) or
`xclip` (X11).
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.held_programs import HeldProgram, find_own_program

from ...request.run_places import project_lookup
from ...runs.image_blobs import image_mime
from ...runs.paths import find_user_paths, make_private_folder

_MOST_BYTES, _LIMIT_S, _KEPT_S = 20 << 20, 5.0, 86_400.0
_FOLDER = "pasted-images"
_PROGRAMS = (  # the variable of its desktop, and the command
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
)


async def paste_clipboard_image(environment: Mapping[str, str]) -> Path:
    """Store the clipboard's picture (at most 20 MiB) in the person's state folder.

    Pictures of more than a day ago are removed there: those that were sent are stored with their
    run. Raises UsageError if there is none, or no program that could say so, SwarmError if it
    cannot be stored.
    """
    data = await _read(_find_command(environment))
    if image_mime(data) is None:
        raise UsageError("there is no picture in the clipboard")
    return await asyncio.to_thread(_store, dict(environment), data)


def _find_command(environment: Mapping[str, str]) -> tuple[str, ...]:
    lookup = project_lookup(environment, str(Path.cwd()))
    for variable, command in _PROGRAMS:
        if not environment.get(variable):
            continue
        found = find_own_program(command[0], lookup)
        if isinstance(found, HeldProgram):
            return (found.path, *command[1:])
        if found.path:
            raise UsageError(f"no picture was taken from the clipboard: {found.reason}")
    raise UsageError(
        "no picture can be taken from the clipboard: it takes a desktop (WAYLAND_DISPLAY or "
        "DISPLAY) and wl-paste or xclip; name a file with @ in its place"
    )


async def _read(command: tuple[str, ...]) -> bytes:
    """What the program prints, at most one byte too much; it is ended in every case."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL, limit=_MOST_BYTES,
    )  # fmt: skip
    assert process.stdout is not None  # it is a pipe
    try:
        async with asyncio.timeout(_LIMIT_S):
            await process.stdout.readexactly(_MOST_BYTES + 1)
    except asyncio.IncompleteReadError as all_of_it:
        return all_of_it.partial
    except TimeoutError:
        raise UsageError(f"{command[0]} gave no picture within {_LIMIT_S:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    raise UsageError(f"the picture in the clipboard has over {_MOST_BYTES >> 20} MiB")


def _store(environment: dict[str, str], data: bytes) -> Path:
    try:
        folder = make_private_folder(find_user_paths(environment).state) / _FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        for old in folder.glob("*.png"):
            if time.time() - old.stat().st_mtime > _KEPT_S:
                old.unlink()
        fd, name = tempfile.mkstemp(suffix=".png", dir=folder)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    except OSError as error:
        raise SwarmError(f"the picture cannot be stored: {error.strerror}") from error
    return Path(name)
