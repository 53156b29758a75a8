"""Warnings for people when read-only agents cannot lock their own processes with Landlock."""

from swarm.mailbox.protocol.events import LockGap

_HOW_TO_FIX = (
    "; --require-sandbox fs refuses such a machine, and `swarm doctor` says how to mend it"
)
LANDLOCK_WARNINGS: dict[LockGap, str] = {
    "all": "agents of read-only roles (explorer, the reviewer) run UNLOCKED: this kernel has no "
    "Landlock, so nothing confines their own processes; their commands are in the sandbox"
    + _HOW_TO_FIX,
    "truncation": "agents of read-only roles (explorer, the reviewer) are locked only in part: the "
    "Landlock of this kernel (before ABI 3) does not keep their own processes from truncating "
    "files" + _HOW_TO_FIX,
}
