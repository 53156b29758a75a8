"""The names that folders of a project, and layers over them, have on other machines."""

from hashlib import sha256


def shipped_tree(path: str) -> str:
    """As in `nodes.TreePart`, for an ignored folder's canonical path."""
    return f"shipped/{path_mark(path)}"


def layer_tree(agent_id: str, root: int, live: str = "") -> str:
    """The same for what an agent writes in a copied folder, or in an ignored one in it."""
    own = f"agents/{agent_id}/{root}"
    return f"{own}/live-{path_mark(live)}/upper" if live else f"{own}/upper"


def is_git_store(live: str) -> bool:
    """True for git's objects among the folders that are shown as they are."""
    return live.rpartition("/")[2] == "objects"


def path_mark(path: str) -> str:
    """What stands for a path in the name of one folder: 16 hex digits."""
    return sha256(path.encode(errors="surrogateescape")).hexdigest()[:16]
