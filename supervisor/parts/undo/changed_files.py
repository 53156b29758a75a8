"""Lists the files that one agent has changed, by name, for an agent whose history is compacted.

A file that another agent may have changed instead is listed separately, and a file that is again as
it was before is not listed. Blocks: it reads the store's manifests.
"""

import os
from collections.abc import Sequence

from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.protocol.requests import ChangesReply

from .content_store import ContentStore
from .file_undo import recorded_changes
from .net_changes import NetChange, compose_changes, others_of
from .snapshots import FileSnapshot
from .unified_diff import shown_name

MAX_LISTED = 200  # of each kind; beyond, the oldest are only counted


def list_changed_files(
    chosen: Sequence[FileSnapshot], store: ContentStore, cwd: str
) -> ChangesReply:
    """The net changes of these records, oldest first.

    Args:
        chosen: Records of one agent, oldest first.
        store: Holds their manifests.
        cwd: Files within it are named relative to it.

    Raises OSError if the store cannot be read, ValueError if it is damaged.
    """
    steps = recorded_changes([kept for kept in chosen if not kept.is_copy], store)
    here = os.path.realpath(cwd)
    latest: dict[str, int] = {}
    for number, step in enumerate(steps):
        latest.update((entry.path, number) for entry in step.before)
    agents = {kept.agent for kept in chosen}
    sure: list[str] = []
    perhaps: list[str] = []
    for edit in sorted(compose_changes(steps), key=lambda edit: (latest[edit.path], edit.path)):
        if edit.after is None or edit.is_folder:
            continue
        root = "" if is_within(edit.path, here) else "/"
        line = f"{_status_letter(edit)} {root}{shown_name(edit.path, here)}"
        (perhaps if others_of(edit, agents) else sure).append(line)
    return ChangesReply(
        files=tuple(sure[-MAX_LISTED:]),
        perhaps=tuple(perhaps[-MAX_LISTED:]),
        more=max(0, len(sure) - MAX_LISTED) + max(0, len(perhaps) - MAX_LISTED),
    )


def _status_letter(edit: NetChange) -> str:
    if edit.before.kind == "absent":
        return "A"
    return "D" if edit.after is not None and edit.after.kind == "absent" else "M"
