"""The name that an ignored folder of a project has on other machines."""

from hashlib import sha256


def shipped_tree(path: str) -> str:
    """As in `nodes.TreePart`, for the folder's canonical path."""
    return f"shipped/{path_mark(path)}"


def path_mark(path: str) -> str:
    """What stands for a path in the name of one folder: 16 hex digits."""
    return sha256(path.encode(errors="surrogateescape")).hexdigest()[:16]
