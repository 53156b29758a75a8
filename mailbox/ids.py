"""Names of things: runs, agents, calls, turns, and an agent's path in its tree.

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
REVIEWER_PATH = AgentPath("/guardian")  # and below it: no agent of the tree
_SEGMENT = re.compile(r"[a-z0-9_]{1,64}\Z")


def new_uuid7(*, unix_ms: int | None = None, entropy: bytes | None = None) -> str:
    """A UUIDv7 (RFC 9562). Both arguments exist so that a replay can repeat itself.

    Args:
        unix_ms: Milliseconds since the epoch; now if None.
        entropy: 10 random bytes; from the system if None.
    """
    moment = time.time_ns() // 1_000_000 if unix_ms is None else unix_ms
    noise = int.from_bytes(secrets.token_bytes(10) if entropy is None else entropy, "big")
    value = (moment & (1 << 48) - 1) << 80 | 0x7 << 76 | (noise >> 68) << 64
    return str(uuid.UUID(int=value | 0b10 << 62 | noise & (1 << 62) - 1))


def short_id(long_id: str) -> str:
    """The last eight digits: what people see and type. The head of a UUIDv7 is only the time."""
    return long_id[-8:]


def check_segment(name: str) -> str:
    """Return `name` if it may be one step of an agent path, else raise ValueError with the rule.

    Source: Codex `agent_path.rs`; differs in a length limit of 64.
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
    """The path one step up; None for the root."""
    return None if path == ROOT_PATH else AgentPath(path.rpartition("/")[0])


def is_within(path: AgentPath, ancestor: AgentPath) -> bool:
    """True if `path` is `ancestor` or below it, step by step (`/root/ab` is not in `/root/a`)."""
    return path == ancestor or path.startswith(f"{ancestor}/")


def is_reviewer(path: str) -> bool:
    """True for a process that reviews: it is in no team, holds no slot and is counted apart."""
    return path == REVIEWER_PATH or path.startswith(f"{REVIEWER_PATH}/")


def resolve_path(reference: str, *, base: AgentPath) -> AgentPath:
    """The agent that `base` means by `reference`: an absolute path, or steps below itself.

    There is no way up: a sibling is reached by its absolute path. Raises ValueError with the rule.

    Source: Codex `agent_path.rs`; differs in that `/morpheus` is nobody here.
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
