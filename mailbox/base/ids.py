"""Ids of runs, agents, calls and turns, and agent paths.

Ids are UUIDv7 in hex with dashes: sorting them as text sorts them by time.
"""

import re
import secrets
import time
import uuid
from typing import NewType

RunId = NewType("RunId", str)
AgentId = NewType("AgentId", str)
AgentPath = NewType("AgentPath", str)  # "/root", "/root/scout", "/root/scout/deep"

ROOT_PATH = AgentPath("/root")
# reviewers are here and below; they are not agents of the tree
REVIEWER_PATH = AgentPath("/guardian")
_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")
_SEGMENT = re.compile(r"[a-z0-9_]{1,64}\Z")


def new_uuid7(*, unix_ms: int | None = None, entropy: bytes | None = None) -> str:
    """A UUIDv7 (RFC 9562). A replay passes both arguments to get the same id again.

    Args:
        unix_ms: Milliseconds since the epoch; now if None.
        entropy: 10 random bytes; from the system if None.
    """
    moment = time.time_ns() // 1_000_000 if unix_ms is None else unix_ms
    noise = int.from_bytes(secrets.token_bytes(10) if entropy is None else entropy, "big")
    value = (moment & (1 << 48) - 1) << 80 | 0x7 << 76 | (noise >> 68) << 64
    return str(uuid.UUID(int=value | 0b10 << 62 | noise & (1 << 62) - 1))


def is_run_id(text: str) -> bool:
    """True for an id as `new_uuid7` makes it."""
    return _UUID7.match(text) is not None


def short_id(long_id: str) -> str:
    """The last eight digits, which people see and type. The first digits are only the time."""
    return long_id[-8:]


def check_segment(name: str, *, argument: str = "task_name") -> str:
    """Return `name` if it is valid as one path segment; else raise ValueError with the rule.

    `argument` is what the caller wrote the name in: the error quotes it and shows a right one.

    Source: Codex `agent_path.rs`; the length limit of 64 is an addition, and so is the example.
    """
    rule = ""
    if not name:
        rule = "must not be empty"
    elif name in {"root", ".", ".."}:
        rule = f"`{name}` is reserved"
    elif "/" in name:
        rule = "must not contain `/`"
    elif not _SEGMENT.match(name):
        rule = "must use only lowercase letters, digits, and underscores, 64 at most"
    if rule:
        raise ValueError(f'{argument} {rule}; a right one is "{argument}": "{_mended(name)}"')
    return name


def _mended(name: str) -> str:
    """The nearest valid name."""
    found = re.sub(r"[^a-z0-9]+", "_", name[:256].lower()).strip("_")[:64]
    return found if found and found != "root" else "my_task"


def child_path(parent: AgentPath, name: str) -> AgentPath:
    """The path of `parent`'s child `name`. Raises ValueError for a bad name."""
    return AgentPath(f"{parent}/{check_segment(name)}")


def parent_path(path: AgentPath) -> AgentPath | None:
    """The parent's path; None for the root."""
    return None if path == ROOT_PATH else AgentPath(path.rpartition("/")[0])


def is_within(path: AgentPath, ancestor: AgentPath) -> bool:
    """True if `path` is `ancestor` or below it, by segments (`/root/ab` is not in `/root/a`)."""
    return path == ancestor or path.startswith(f"{ancestor}/")


def is_reviewer(path: str) -> bool:
    """True for a reviewer process: it belongs to no team, takes no slot and is counted apart."""
    return path == REVIEWER_PATH or path.startswith(f"{REVIEWER_PATH}/")


def resolve_path(reference: str, *, base: AgentPath, argument: str = "target") -> AgentPath:
    """Resolve `reference` as agent `base` means it: an absolute path, or segments below itself.

    There is no `..`: a sibling is reached by its absolute path. Raises ValueError with the rule,
    which quotes `argument`, what the caller wrote the path in.

    Source: Codex `agent_path.rs`, but without its `/morpheus`.
    """
    rule = ""
    steps = reference.split("/")
    if not reference:
        rule = "must not be empty"
    elif reference.endswith("/"):
        rule = "must not end with `/`"
    elif reference.startswith("/") and steps[1] != "root":
        rule = "must start with `/root` if it is absolute"
    elif any(step in {"", ".", ".."} for step in steps[reference.startswith("/") :]):
        rule = "must not have an empty step, `.` or `..`"
    if rule:
        raise ValueError(f'{argument} {rule}; a right one is "{argument}": "{ROOT_PATH}/my_task"')
    head, names = (ROOT_PATH, steps[2:]) if reference.startswith("/") else (base, steps)
    return AgentPath("/".join((head, *(check_segment(name, argument=argument) for name in names))))
