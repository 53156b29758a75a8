"""Tries in a child process whether a copy of a project can be mounted here, and written to."""

import os
import tempfile
from pathlib import Path

from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.protocol.spec import CopyMount

from .copy_mounts import CopyUnavailable, enter_copies

_MOST_WORDS = 2_000


def find_copy_gap(folder: Path | None = None) -> str | None:
    """Why no agent can work in a copy of the project; None: it can.

    Args:
        folder: Below it the layers are tried: file systems differ. None: the temporary folder.

    Call it in a process with one thread. Blocks.
    """
    try:
        trial = Path(tempfile.mkdtemp(prefix="swarm-copy-", dir=folder)).resolve()
    except OSError as error:
        return str(error)
    try:
        return _try_below(trial)
    finally:
        remove_tree(trial)


def _try_below(trial: Path) -> str | None:
    places = {name: trial / name for name in ("path", "base", "upper", "work")}
    for place in places.values():
        place.mkdir()
    (places["base"] / "file").write_text("base")
    path, base, upper, work = map(str, places.values())
    copy = CopyMount(path=path, base=base, upper=upper, work=work)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.write(writer, _in_child(copy).encode()[:_MOST_WORDS])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        words = said.read().decode(errors="replace")
    os.waitpid(child, 0)
    if words:
        return words
    if (places["base"] / "file").read_text() != "base":
        return "the overlay wrote to its lower layer"
    return None if (places["upper"] / "file").is_file() else "the overlay has no upper layer"


def _in_child(copy: CopyMount) -> str:
    """ "" if the copy could be mounted and written to, else why not."""
    try:
        enter_copies((copy,))
        (Path(copy.path) / "file").write_text("changed")
        (Path(copy.path) / "file").rename(Path(copy.path) / "other")
        (Path(copy.path) / "other").rename(Path(copy.path) / "file")
    except (CopyUnavailable, OSError) as error:
        return str(error)
    return ""
