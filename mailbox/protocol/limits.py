"""What an agent may do, as values: sandbox, approval, network, budget."""

from typing import Literal

from .base import Tagged, Value


class ReadOnly(Tagged, tag="read-only"):
    """Read everything, write nothing but the agent's private /tmp."""

    network_access: bool = False


class WorkspaceWrite(Tagged, tag="workspace-write"):
    """Read everything; write the working directory, the extra roots and /tmp."""

    writable_roots: tuple[str, ...] = ()  # absolute paths
    network_access: bool = False
    exclude_tmpdir_env_var: bool = False
    exclude_slash_tmp: bool = False


class DangerFullAccess(Tagged, tag="danger-full-access"):
    """No sandbox at all."""


SandboxPolicy = ReadOnly | WorkspaceWrite | DangerFullAccess

AskForApproval = Literal["untrusted", "on-failure", "on-request", "never"]
Reviewer = Literal["person", "guardian", "nobody"]  # nobody: what would ask is refused


class Budget(Value):
    """Bounds of a subtree; None means no bound of its own."""

    tokens: int | None = None
    usd: float | None = None
    requests: int | None = None


class Limits(Value):
    """An agent's whole authority; computed once by the supervisor, never widened below it."""

    sandbox: SandboxPolicy = ReadOnly()
    approval: AskForApproval = "on-request"
    reviewer: Reviewer = "nobody"
    budget: Budget = Budget()
    deadline_unix_s: float | None = None
    max_depth: int = 3
