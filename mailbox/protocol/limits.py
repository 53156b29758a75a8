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


Access = Literal["read", "write", "deny"]


class PathRule(Value):
    """What holds at a path and below it, until a deeper rule says otherwise."""

    path: str  # absolute, canonical when it was made
    access: Access


class ProfilePolicy(Tagged, tag="permission-profile"):
    """A permission profile, resolved: the deepest rule decides, what none covers is denied.

    `/tmp` and `/run` are private as under every policy: of the machine's own only what a rule names
    inside of them is seen. The private /tmp can always be read; `tmp` says whether it is written.
    """

    name: str = ""
    rules: tuple[PathRule, ...] = ()
    deny_globs: tuple[str, ...] = ()  # absolute; what fits when a command starts is denied too
    glob_depth: int | None = None  # levels that are searched below a pattern's fixed part
    tmp: Access = "deny"
    workspace: tuple[str, ...] = ()  # the working folder and the roots beside it, absolute
    network_access: bool = False


SandboxPolicy = ReadOnly | WorkspaceWrite | DangerFullAccess | ProfilePolicy

AskForApproval = Literal["untrusted", "on-failure", "on-request", "never"]
Reviewer = Literal["person", "guardian", "nobody"]  # nobody: what would ask is refused


class Granular(Value):
    """Which kinds of questions `on-request` may put; the others are refused unasked."""

    sandbox_approval: bool = True
    rules: bool = True
    skill_approval: bool = False
    request_permissions: bool = False
    mcp_elicitations: bool = True


class Budget(Value):
    """Bounds of a subtree; None means no bound of its own."""

    tokens: int | None = None
    usd: float | None = None
    requests: int | None = None


class NetworkPolicy(Value):
    """What commands may reach through the network proxy, and nothing else. Patterns are in normal
    form (`hosts.normalize_pattern`); `deny` wins over `ask`, that over `allow`. Without a port a
    pattern allows those of the web (80, 443); a denial and a question hold for all.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()  # counts as not allowed, also where `allow` names it
    mode: Literal["full", "limited"] = "full"  # limited: only GET, HEAD and OPTIONS, no tunnels
    allow_local_binding: bool = False  # addresses of this machine and of private networks too
    enable_socks5: bool = True
    mitm: bool = False  # in limited mode: tunnels are looked into, and hold to the same methods
    upstream: bool = False  # the proxy of the supervisor's environment is gone through
    managed: bool = False  # an administrator's list: nothing is added to it, by a rule or a yes


class UnixSockets(Value):
    """Which sockets of other programs commands may connect to by their paths; `deny` wins.

    Absolute paths, canonical when they were read.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    every: bool = False  # all of this machine but swarm's own

    def permits(self, path: str) -> bool:
        """True if a rule lets commands connect there."""
        return path not in self.deny and (self.every or path in self.allow)


def opens_tunnels(policy: NetworkPolicy | None) -> bool:
    """True where the proxy looks into tunnels, so that commands have to trust its certificates."""
    return policy is not None and policy.mode == "limited" and policy.mitm


class ResourceLimits(Value):
    """Bounds of what an agent's commands use; None means none."""

    command_memory_bytes: int | None = None  # of a command's whole tree of processes
    command_processes: int | None = None
    command_s: float | None = None  # wall time
    agent_memory_bytes: int | None = None  # of all its commands; and of its own process
    agent_processes: int | None = None


class Limits(Value):
    """An agent's whole authority; computed once by the supervisor, never widened below it."""

    sandbox: SandboxPolicy = ReadOnly()
    approval: AskForApproval = "on-request"
    reviewer: Reviewer = "nobody"
    budget: Budget = Budget()
    deadline_unix_s: float | None = None
    max_depth: int = 3
    granular: Granular | None = None  # only beside `on-request`
    network: NetworkPolicy | None = None  # None: as `sandbox` says, all or nothing
    unix_sockets: UnixSockets = UnixSockets()  # beside those that the sandbox shows anyway
