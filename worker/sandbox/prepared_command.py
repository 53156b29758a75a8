"""Turns a command and its plan into what is really started: arguments, environment, filter.

With bubblewrap the filter is passed by `--seccomp`; without it the command's thread or forked child
confines itself before it becomes the command. The entrypoint that runs inside before the command
(`bwrap.py:entrypoint_argv`: it takes the terminal, or opens the route to the proxy) is under the
filter already. `close` undoes all that the preparation did to the folder.
"""

import os
from functools import cache

import msgspec

from swarm.mailbox.protocol.values.base import Value

from .bwrap import bwrap_arguments, entrypoint_argv
from .connect_broker import ConnectRules
from .file_policy import FilePolicy, file_policy
from .landlock import LandlockRules, scope_only_rules
from .landlock_rules import broker_rules, landlock_rules
from .package_caches import cache_variables
from .placeholders import PlaceholderGuard
from .proxy_variables import node_options, proxy_environment, with_node_preload
from .sandbox_plan import SandboxPlan, SandboxUnavailable
from .sandbox_probe import probe_sandbox
from .seccomp import FilterRequest, build_filter


class BrokerConfig(Value):
    """What a broker does for a command, because Landlock rules for it would allow too much."""

    policy: FilePolicy
    rules: LandlockRules | None  # the broker's own; they include all that the command's grant


class Confinement(Value):
    """What a thread or forked child does to itself before it becomes the command."""

    broker: BrokerConfig | None = None
    landlock: LandlockRules | None = None
    seccomp: bytes = b""
    connect: ConnectRules | None = None  # connections wait for the launcher, which makes them
    drop_capabilities: bool = True  # a root user's bwrap needs them, and drops them itself


class PreparedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Ready to be started. Call `close` when the command's whole tree has ended or never began."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    confinement: Confinement | None
    filter_fd: int | None  # for the child's fd `bwrap.SECCOMP_FD`; closed by `close`
    wrapped: bool  # the first process is bwrap, not the command
    guard: PlaceholderGuard | None

    def close(self) -> tuple[str, ...]:
        """Release everything; return what has appeared at protected names."""
        if self.filter_fd is not None:
            os.close(self.filter_fd)
        return self.guard.close() if self.guard else ()


def prepare_command(
    plan: SandboxPlan, argv: tuple[str, ...], environment: dict[str, str], *, tty: bool
) -> PreparedCommand:
    """Raises SandboxUnavailable if the plan's stack does not work, OSError if the setup fails."""
    if plan.stack == "none":
        return PreparedCommand(
            argv=argv, environment=environment, confinement=None, filter_fd=None,
            wrapped=False, guard=None,
        )  # fmt: skip
    plan = with_node_preload(plan)
    said = environment.get("NODE_OPTIONS", "")
    caches = cache_variables(plan, environment)
    environment = {**environment, **caches, **sandbox_environment(plan), **node_options(plan, said)}
    broker = None
    if plan.stack == "landlock" and probe_sandbox().answers:
        broker = BrokerConfig(policy=file_policy(plan), rules=broker_rules(plan))
    program = build_filter(
        FilterRequest(
            network=plan.network,
            connect=plan.stack == "bwrap" or broker is not None,
            answered=broker is not None,
            loopback=plan.stack == "bwrap" and not plan.network,
            unix=probe_sandbox().notifies if plan.stack == "bwrap" else broker is not None,
            shared=plan.stack != "bwrap",
        )
    )
    guard = None
    if plan.missing or plan.links:
        guard = PlaceholderGuard(plan, brokered=broker is not None)
    if guard and plan.stack == "bwrap":
        plan = msgspec.structs.replace(plan, missing=guard.placeholders)
    if plan.stack == "landlock":
        rules = landlock_rules(plan, brokered=broker is not None)
        connect = ConnectRules(since_s=plan.since_s) if broker is not None else None
        confinement = Confinement(landlock=rules, seccomp=program, broker=broker, connect=connect)
        return PreparedCommand(
            argv=argv, environment=environment, confinement=confinement, filter_fd=None,
            wrapped=False, guard=guard,
        )  # fmt: skip
    try:
        words, outer = _wrap_in_bwrap(plan, argv, environment, tty=tty)
        filter_fd = _filter_fd(program)
    except BaseException:
        if guard:
            guard.close()
        raise
    return PreparedCommand(
        argv=words, environment=outer, confinement=_bwrap_confinement(plan), filter_fd=filter_fd,
        wrapped=True, guard=guard,
    )  # fmt: skip


def sandbox_environment(plan: SandboxPlan) -> dict[str, str]:
    """Variables that tell a command about its sandbox."""
    if plan.proxied is not None:
        marks = proxy_environment(plan.proxied, ca_bundle=plan.ca_bundle)
    else:
        marks = {} if plan.network else {"SWARM_SANDBOX_NETWORK_DISABLED": "1"}
    tmp = "/tmp" if plan.stack == "bwrap" else plan.tmp_dir
    # tmux ignores TMPDIR; a tmux server of the user's is out of reach anyway.
    return {**marks, "TMPDIR": tmp, "TMUX_TMPDIR": tmp} if tmp else marks


def is_loader_variable(name: str) -> bool:
    """True for a variable that can make a program load or write other files at its start."""
    return name.startswith("LD_") or name in ("GCONV_PATH", "LOCPATH", "MALLOC_TRACE")


def _wrap_in_bwrap(
    plan: SandboxPlan, argv: tuple[str, ...], environment: dict[str, str], *, tty: bool
) -> tuple[tuple[str, ...], dict[str, str]]:
    """bwrap's arguments and its own environment, which may not steer its loader."""
    bwrap = probe_sandbox().bwrap
    if bwrap is None:
        raise SandboxUnavailable("bubblewrap does not work here; `swarm doctor` says why")
    words = bwrap_arguments(plan, bwrap=bwrap, filtered=True)[:-1]
    outer: dict[str, str] = {}
    for name, value in environment.items():
        if is_loader_variable(name):
            words += ("--setenv", name, value)  # bwrap runs outside: only the command gets it
        else:
            outer[name] = value
    return (*words, "--", *entrypoint_argv(tty=tty, proxied=plan.proxied is not None), *argv), outer


def _bwrap_confinement(plan: SandboxPlan) -> Confinement:
    """The confinement of bwrap itself, so that nothing has to run inside before the command.

    Landlock, in case a namespace does not hold, and for the host's network, whose abstract sockets
    no mount hides; and the launcher's check of each connection, because read-only mounts stop none.
    """
    rules = scope_only_rules()
    # If connections cannot be checked, the filter lets no Unix socket be made.
    connect = ConnectRules(sockets=plan.sockets, own=_own_trees(plan), since_s=plan.since_s)
    # Rules about files would forbid every mount, so this broker has only its own checks.
    broker = BrokerConfig(policy=file_policy(plan), rules=None) if plan.committing else None
    return Confinement(
        landlock=rules,
        connect=connect if probe_sandbox().notifies else None,
        broker=broker,
        drop_capabilities=False,
    )


def _own_trees(plan: SandboxPlan) -> tuple[str, ...]:
    """If a command may write everywhere: the trees that are nevertheless its own."""
    if "/" not in plan.writable:
        return ()
    return (*(root for root in plan.writable if root != "/"), *plan.covered, "/dev/shm")


@cache
def _program_file(program: bytes) -> int:
    fd = os.memfd_create("swarm-seccomp", os.MFD_CLOEXEC)
    os.write(fd, program)
    return fd


def _filter_fd(program: bytes) -> int:
    # Opened again each time: a shared file description would share its read position.
    return os.open(f"/proc/self/fd/{_program_file(program)}", os.O_RDONLY | os.O_CLOEXEC)
