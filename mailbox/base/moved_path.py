"""Paths in a copy of the project that is another folder."""

import os

from .path_rules import is_within


def moved_path(path: str, root: str, tree: str) -> str:
    """Where the copy has what lies at this path, or what its links lead to.

    Args:
        path: Absolute. One that is not in `root` stays as it is.
        root: The folder of which `tree` is the copy; it need not be on this machine.
        tree: The copy; "": there is none.
    """
    for one in (path, os.path.realpath(path)) if tree else ():
        if is_within(one, root):
            return tree + one.removeprefix(root)
    return path
