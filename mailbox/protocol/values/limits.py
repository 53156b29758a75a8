"""An agent's authority as values: sandbox, approval, network, budget."""

from typing import Literal

from .base import Tagged, Value


class ReadOnly(Tagged, tag="read-only"):
    """Read everything; write only the agent's private /tmp."""

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
    """The access to a path and all below it, until a deeper rule applies."""

    path: str  # absolute; canonical when the rule was made
    access: Access


class ProfilePolicy(Tagged, tag="permission-profile"):
    """A resolved permission profile: the deepest rule decides; a path without a rule is denied.

    `/tmp` and `/run` are private as under every policy: of the machine's own, commands see only
    what a rule names inside them. The private /tmp is always readable; `tmp` says whether it is
    writable.
    """

    name: str = ""
    rules: tuple[PathRule, ...] = ()
    # absolute; files that match when a command starts are denied too
    deny_globs: tuple[str, ...] = ()
    glob_depth: int | None = None  # levels that are searched below a pattern's fixed part
    tmp: Access = "deny"
    workspace: tuple[str, ...] = ()  # the working folder and its extra roots, absolute
    network_access: bool = False


SandboxPolicy = ReadOnly | WorkspaceWrite | DangerFullAccess | ProfilePolicy

AskForApproval = Literal["untrusted", "on-failure", "on-request", "never"]
Reviewer = Literal["person", "guardian", "nobody"]  # nobody: what would ask is refused


class Granular(Value):
    """Which kinds of questions `on-request` may ask; the others are refused without asking."""

    sandbox_approval: bool = True
    rules: bool = True
    skill_approval: bool = False
    request_permissions: bool = False
    mcp_elicitations: bool = True


class Budget(Value):
    """Limits of a subtree; None means no limit of its own."""

    tokens: int | None = None
    usd: float | None = None
    requests: int | None = None


class NetworkSettings(Value):
    """What `[network]` says that counts as it stands."""

    mode: Literal["full", "limited"] = "full"  # limited: only GET, HEAD and OPTIONS, no tunnels
    allow_local_binding: bool = False  # allow addresses of this machine and of private networks
    enable_socks5: bool = True
    mitm: bool = False  # in limited mode: tunnels are decrypted and held to the same methods


class NetworkPolicy(NetworkSettings):
    """What commands may reach through the network proxy; all else is refused.

    Patterns are in normal form (`host_patterns.normalize_pattern`). `deny` wins over `ask`, and
    `ask` over `allow`. An allowed pattern without a port covers the web ports (80, 443); `deny` and
    `ask` cover all ports.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()  # counts as not allowed, even if `allow` names it
    upstream: bool = False  # connect through the proxy of the supervisor's environment
    managed: bool = False  # an administrator's list: no rule or approval adds to it


class UnixSockets(Value):
    """Which Unix sockets of other programs commands may connect to; `deny` wins.

    Absolute paths, canonical when they were read.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    every: bool = False  # all of this machine except swarm's own

    def permits(self, path: str) -> bool:
        """True if commands may connect to this path."""
        return path not in self.deny and (self.every or path in self.allow)


def opens_tunnels(policy: NetworkPolicy | None) -> bool:
    """True if the proxy decrypts tunnels, so that commands must trust its certificates."""
    return policy is not None and policy.mode == "limited" and policy.mitm


class ResourceLimits(Value):
    """Limits of what an agent's commands use; None means no limit."""

    command_memory_bytes: int | None = None  # of a command's whole process tree
    command_processes: int | None = None
    command_s: float | None = None  # wall time
    agent_memory_bytes: int | None = None  # of all its commands, and of its own process
    agent_processes: int | None = None


class McpAccess(Value):
    """An MCP server that an agent may use; `tools` are the server's own names, None: all."""

    server: str
    tools: tuple[str, ...] | None = None


Isolation = Literal["shared", "copy"]
# run: the root as well; children (or copy): what the root starts; auto: who writes beside others
RunIsolation = Literal["shared", "auto", "copy", "children", "run"]
MergeAtEnd = Literal["auto", "ask", "leave"]


class Limits(Value):
    """An agent's whole authority, computed once by the supervisor. No child gets more."""

    sandbox: SandboxPolicy = ReadOnly()
    approval: AskForApproval = "on-request"
    reviewer: Reviewer = "nobody"
    budget: Budget = Budget()
    deadline_unix_s: float | None = None
    max_depth: int = 3
    granular: Granular | None = None  # only with `on-request`
    network: NetworkPolicy | None = None  # None: as `sandbox` says, all or nothing
    unix_sockets: UnixSockets = UnixSockets()  # in addition to those that the sandbox shows anyway
    planning: bool = False  # plan mode: it only reads, until a person accepts its plan
    mcp: tuple[McpAccess, ...] = ()  # no other MCP server can be used
    isolation: Isolation = "shared"  # "copy": what it writes goes to a layer of its own
    only_merges: bool = False  # it writes by merges of its agents' copies alone; else it reads
