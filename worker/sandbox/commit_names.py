"""Which names in a repository's git folder the grant *commit* opens: an allowlist.

It holds objects, references, their logs and the few files at the top that git writes when it
records work. Everything else is closed, known or not: git runs what it finds in hooks and
configuration, and follows `commondir`, `alternates` and the lists of an unfinished rebase.
"""

import re

_TREES = frozenset({"objects", "refs", "logs"})
# A lock is a file that git renames to the file that it locks.
_FILES = re.compile(
    r"(index|index\.stash\.\d+|next-index-\d+|HEAD|ORIG_HEAD|MERGE_HEAD|MERGE_MODE|MERGE_MSG"
    r"|MERGE_RR|MERGE_AUTOSTASH|AUTO_MERGE|CHERRY_PICK_HEAD|REVERT_HEAD|SQUASH_MSG|COMMIT_EDITMSG"
    r"|TAG_EDITMSG|FETCH_HEAD|packed-refs|packed-refs\.new|sharedindex\.\w+|sharedindex_\w+)(\.lock)?",
    re.ASCII,
)
_IN_INFO = re.compile(r"packs\w*|commit-graph(s|s/.*|\.lock)?", re.ASCII)
_FOLLOWED = ("alternates", "http-alternates")


def is_committable(name: str) -> bool:
    """Whether git may write `name`, a path relative to the git folder, as in `refs/heads/main`."""
    top, _, rest = name.partition("/")
    if not rest:
        return top in _TREES or _FILES.fullmatch(top) is not None
    if top != "objects":
        return top in _TREES
    steps = rest.casefold().split("/")
    if any(step.removesuffix(".lock") in _FOLLOWED for step in steps):
        return False
    if steps[0] == "info":
        return len(steps) == 1 or _IN_INFO.fullmatch("/".join(steps[1:])) is not None
    return True
