"""Makes an agent's copy of the project as a folder of its own, where no overlay can be had.

Nothing of it is shared with the base or the project but what the file system shares by itself.
What a copy shows as it is becomes a link, which the agent's sandbox lets it read; a repository's
objects are read through git's own list of other stores. Blocks.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from swarm.mailbox.base.private_files import make_own_folders, write_own_file
from swarm.mailbox.base.remove_tree import remove_tree

from .base_tree import make_tree
from .tree_survey import Survey


def make_agent_tree(
    base: Path,
    survey: Survey,
    shown: Mapping[str, str],
    into: Path,
    *,
    go_on: Callable[[], None] = lambda: None,
) -> None:
    """Fill `into` with what the base holds. Half of one is made anew.

    Args:
        base: The tree that `survey` describes.
        survey: What to copy.
        shown: Where folders lie that the copy shows as they are, by their names in it. One of them
            that is not named is empty, and the agent's own.
        into: Below a folder that is ours alone.
        go_on: As for `make_tree`.

    Raises:
        CopyRefused: the disk has too little room.
        OSError: the tree cannot be written.
    """
    if into.is_dir():
        remove_tree(into)
    make_own_folders(into.parent)
    try:
        make_tree(str(base), survey, into, None, go_on)
        show_folders(shown, into)
    except BaseException:
        with suppress(OSError):
            remove_tree(into)  # half of a tree takes room, and nobody would use it
        raise


def shown_in_place(root: str, survey: Survey) -> dict[str, str]:
    """All of them at their places in the project."""
    return {name: f"{root.rstrip('/')}/{name}" for name in survey.live}


def show_folders(shown: Mapping[str, str], tree: Path) -> None:
    """Have the tree show what lies elsewhere, in place of empty folders, or of other such links."""
    for name, origin in shown.items():
        _show(origin, tree / name)


def _show(origin: str, place: Path) -> None:
    """Let the agent read what lies at `origin`; the copy has an empty folder there."""
    if place.name == "objects" and (place.parent / "HEAD").is_file():
        (place / "info").mkdir(mode=0o700)
        write_own_file(place / "info" / "alternates", f"{origin}\n".encode())
        (place / "pack").mkdir(mode=0o700)
        return
    if place.is_symlink():
        place.unlink()
    with suppress(FileNotFoundError):
        place.rmdir()
    with suppress(FileNotFoundError):  # the copy has no such folder
        place.symlink_to(origin)
