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


def short_id(long_id: str) -> str:
    """The last eight digits, which people see and type. The first digits are only the time."""
    return long_id[-8:]


def check_segment(name: str) -> str:
    """Return `name` if it is valid as one path segment; else raise ValueError with the rule.

    Source: Codex `agent_path.rs`; the length limit of 64 is an addition.
    """
    if not name:
        raise ValueError("agent_name must not be empty")
    if name in {"root", ".", ".."}:
        raise ValueError(f"agent_name `{name}` is reserved")
    if "/" in name:
        raise ValueError("agent_name must not contain `/`")
    if not _SEGMENT.match(name):
        raise ValueError("agent_name must use only lowercase letters, digits, and underscores")
    return name


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


def resolve_path(reference: str, *, base: AgentPath) -> AgentPath:
    """Resolve `reference` as agent `base` means it: an absolute path, or segments below itself.

    There is no `..`: a sibling is reached by its absolute path. Raises ValueError with the rule.

    Source: Codex `agent_path.rs`, but without its `/morpheus`.
    """
    if not reference:
        raise ValueError("agent path must not be empty")
    if reference.endswith("/"):
        kind = "absolute" if reference.startswith("/") else "relative"
        raise ValueError(f"{kind} agent path must not end with `/`")
    steps = reference.split("/")
    if not reference.startswith("/"):
        return AgentPath("/".join((base, *map(check_segment, steps))))
    if steps[1] != "root":
        raise ValueError("absolute agent paths must start with `/root`")
    return AgentPath("/".join((ROOT_PATH, *map(check_segment, steps[2:]))))
