"""Set operations on rights beyond the sandbox: union, intersection, comparison. Pure.

A folder includes everything in it, and the right to write includes the right to read. Paths must be
absolute and canonical: the caller resolves links first (`tools/permission_arguments.py`).
"""

from swarm.mailbox.protocol.approvals import ExtraPermissions

NO_PERMISSIONS = ExtraPermissions()


def is_empty(permissions: ExtraPermissions) -> bool:
    """True if it grants nothing at all."""
    return not (permissions.network or permissions.read or permissions.write)


def union(*parts: ExtraPermissions | None) -> ExtraPermissions:
    """All that any of them grants, in order."""
    given = [part for part in parts if part is not None]
    return ExtraPermissions(
        network=any(part.network for part in given),
        read=tuple(dict.fromkeys(path for part in given for path in part.read)),
        write=tuple(dict.fromkeys(path for part in given for path in part.write)),
    )


def intersection(asked: ExtraPermissions, given: ExtraPermissions) -> ExtraPermissions:
    """The part of `asked` that is given: never more than either of them."""
    return ExtraPermissions(
        network=asked.network and given.network,
        read=_both(asked.read, (*given.read, *given.write)),
        write=_both(asked.write, given.write),
    )


def covers(given: ExtraPermissions, asked: ExtraPermissions) -> bool:
    """True if `asked` asks for something, and all of it is given."""
    if is_empty(asked) or (asked.network and not given.network):
        return False
    readable = (*given.read, *given.write)
    return all(_lies_in(path, given.write) for path in asked.write) and all(
        _lies_in(path, readable) for path in asked.read
    )


def _both(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    kept = [path for path in some if _lies_in(path, others)]
    kept += [path for path in others if _lies_in(path, some)]
    return tuple(dict.fromkeys(kept))


def _lies_in(path: str, folders: tuple[str, ...]) -> bool:
    """By the text alone; a path with `..` is in no folder."""
    if ".." in path.split("/"):
        return False
    return any(folder in (path, "/") or path.startswith(f"{folder}/") for folder in folders)
