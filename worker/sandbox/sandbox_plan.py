"""Turns a policy into a plan: what a command may write, what stays read-only, what is hidden.

The plan only names paths and reads the file system; it changes nothing. Every path in it is
canonical, so that no link inside a writable root decides where a mount or a grant lands.

A plan also names the Unix sockets of other programs that a rule opens. A key agent or a container
daemon behind a socket could do what the sandbox forbids, so `connect_broker.py` lets a command
reach only its own sockets and these.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.path_rules import (
    KERNEL_TREES,
    PLACEHOLDER_MTIME_NS,
    PRIVATE_TREES,
    PROTECTED_NAMES,
    is_within,
)
from swarm.mailbox.base.protected_paths import find_git_folders
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    NetworkPolicy,
    ProfilePolicy,
    SandboxPolicy,
    UnixSockets,
    WorkspaceWrite,
)

Stack = Literal["bwrap", "landlock", "none"]

# Parts of /run without which programs or host names are not found.
_NEEDED_IN_RUN = ("current-system", "booted-system", "opengl-driver", "wrappers")
_NEEDED_FOR_NETWORK = ("systemd/resolve", "resolvconf", "NetworkManager/resolv.conf")


class SandboxUnavailable(SwarmError):
    """This machine cannot provide the requested sandbox; nothing was started."""

    exit_code = 6


class SandboxPlan(Value):
    """The sandbox of one command. Made by `plan_sandbox`, enforced by both stacks."""

    stack: Stack = "none"
    writable: tuple[str, ...] = ()  # roots, shallow first
    pinned: tuple[str, ...] = ()  # writable, but not renamable: paths below are relied on
    protected: tuple[str, ...] = ()  # exist below a root and are read-only
    missing: tuple[str, ...] = ()  # do not exist below a root and must not come to exist
    committing: tuple[str, ...] = ()  # git folders: read-only, but a broker writes for git
    links: tuple[str, ...] = ()  # protected names that are links: their targets are protected
    covered: tuple[str, ...] = ()  # trees replaced by private ones
    visible: tuple[str, ...] = ()  # read-only parts of a covered tree that show through
    readable: tuple[str, ...] = ("/",)  # visible roots, also below a denied folder
    denied: tuple[str, ...] = ()  # folders that a profile closes
    denied_files: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()  # links in `/`, where that is not readable as a whole
    hidden: tuple[str, ...] = ()  # folders that exist and are masked
    hidden_files: tuple[str, ...] = ()  # files and sockets, likewise
    sockets: tuple[str, ...] = ()  # of other programs, that a rule opens; only with bubblewrap
    tmp_dir: str | None = None  # the agent's own /tmp; None: an empty one for this command
    tmp_writable: bool = True
    network: bool = True
    proxied: NetworkPolicy | None = None  # with `network` False: only the proxy
    since_s: float = 0.0  # when the run began: an older socket is not the command's
    ca_bundle: str = ""  # certificates that commands trust if the proxy decrypts tunnels
    reason: str = ""

    @property
    def is_sandboxed(self) -> bool:
        return self.stack != "none"


def plan_sandbox(  # noqa: PLR0913 - each names one thing that a command may see or write
    policy: SandboxPolicy,
    *,
    cwd: str,
    tmp_dir: str | None,
    extra_roots: Sequence[str] = (),
    extra_readable: Sequence[str] = (),
    hidden_paths: Sequence[str] = (),
    sockets: Sequence[str] = (),
    stack: Stack,
    proxied: NetworkPolicy | None = None,
) -> SandboxPlan:
    """The plan for one command.

    Args:
        cwd: Where it runs; a writable root under workspace-write.
        tmp_dir: The agent's private folder, shown as /tmp and kept across its commands.
        extra_roots: Granted beyond the policy: made writable under any policy.
        extra_readable: Likewise: shown where a covered tree would hide them. Hidden paths stay
            hidden.
        hidden_paths: Never visible: the run's sockets and the folder of all runs.
        sockets: Sockets of other programs that a rule opens. The plan contains none that is hidden
            or denied, and none without bubblewrap, where one socket cannot be told from others.
        stack: What enforces the plan here (`SandboxFacts.stack`).
        proxied: If the policy gives no network, the network proxy can be reached.

    Raises:
        SandboxUnavailable: the policy asks for a sandbox and `stack` is "none", or for the proxy,
            which needs a network namespace.
    """
    if isinstance(policy, DangerFullAccess):
        return SandboxPlan(reason="danger-full-access: no sandbox")
    if stack == "none":
        raise SandboxUnavailable(
            "this machine offers neither bubblewrap nor Landlock, so sandboxed commands cannot "
            "run; `swarm doctor` shows how to fix it"
        )
    proxied = None if policy.network_access else proxied
    if proxied is not None and stack != "bwrap":
        raise SandboxUnavailable(
            "commands of this run reach the network only through its proxy, and that needs "
            "bubblewrap, which does not work here; `swarm doctor` shows how to fix it"
        )
    if isinstance(policy, ProfilePolicy):
        from .profile_plan import PlanRequest, plan_profile  # few runs have a profile

        request = PlanRequest(
            cwd=cwd, tmp_dir=tmp_dir, extra_roots=tuple(extra_roots),
            extra_readable=tuple(extra_readable), hidden_paths=tuple(hidden_paths),
            sockets=tuple(sockets),
        )  # fmt: skip
        return plan_profile(policy, request, stack=stack, proxied=proxied)
    hidden = canonical_paths(hidden_paths)
    writes = isinstance(policy, WorkspaceWrite)
    wanted = (cwd, *policy.writable_roots) if isinstance(policy, WorkspaceWrite) else ()
    roots = _roots((*wanted, *extra_roots), hidden)
    guarded = find_protected_paths(roots)
    covered = tuple(
        sorted({os.path.realpath(path) for path in PRIVATE_TREES if Path(path).is_dir()})
    )
    return SandboxPlan(
        stack=stack,
        writable=roots,
        pinned=pinned_folders(
            roots, closed=(*guarded.protected, *hidden, *covered), others=guarded.missing
        ),
        protected=guarded.protected,
        missing=guarded.missing,
        links=guarded.links,
        covered=covered,
        visible=_visible(
            cwd,
            roots,
            covered,
            (*needed_run_paths(network=policy.network_access), *_roots(extra_readable, hidden)),
        ),
        hidden=tuple(path for path in hidden if Path(path).is_dir()),
        hidden_files=tuple(path for path in hidden if not Path(path).is_dir()),
        sockets=visible_sockets(sockets, hidden, stack=stack),
        tmp_dir=os.path.realpath(tmp_dir) if tmp_dir else None,
        tmp_writable=not (isinstance(policy, WorkspaceWrite) and policy.exclude_slash_tmp),
        network=policy.network_access,
        proxied=proxied,
        reason=f"{'workspace-write' if writes else 'read-only'} by {stack}",
    )


def canonical_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """The paths that exist, links resolved, shallow first."""
    real = {os.path.realpath(path) for path in paths if path}
    return tuple(sorted((path for path in real if os.path.lexists(path)), key=by_depth))


def by_depth(path: str) -> tuple[int, str]:
    """A sort key that puts shallow paths first."""
    return (0 if path == "/" else path.count("/"), path)


def _roots(wanted: Sequence[str], hidden: Sequence[str]) -> tuple[str, ...]:
    """Existing roots, shallow first. /tmp is always the private one; hidden paths stay hidden."""
    return tuple(
        root
        for root in canonical_paths(wanted)
        if root != "/tmp" and not any(is_within(root, mask) for mask in hidden)
    )


def visible_sockets(
    sockets: Sequence[str], hidden: Sequence[str], *, stack: Stack
) -> tuple[str, ...]:
    """The sockets that can be opened; hidden ones stay hidden."""
    if stack != "bwrap":
        return ()
    return tuple(path for path in sockets if not any(is_within(path, tree) for tree in hidden))


def is_placeholder(path: str) -> bool:
    """True for an empty folder that a guard made (`placeholders.py`), untouched since."""
    try:
        return os.lstat(path).st_mtime_ns == PLACEHOLDER_MTIME_NS and not any(os.scandir(path))
    except OSError:
        return False


class ProtectedPaths(Value):
    """What stays read-only below writable roots, grouped by how that is enforced."""

    protected: tuple[str, ...]
    missing: tuple[str, ...]
    links: tuple[str, ...]


def find_protected_paths(roots: tuple[str, ...]) -> ProtectedPaths:
    """The protected names below these roots."""
    protected: set[str] = set()
    missing: list[str] = []
    links: list[str] = []
    for root in (root for root in roots if Path(root).is_dir()):
        for name in PROTECTED_NAMES:
            path = f"{root.rstrip('/')}/{name}"
            is_link = Path(path).is_symlink()
            if is_link:
                links.append(path)
            if Path(path).exists() and not is_placeholder(path):
                protected.add(os.path.realpath(path))
            elif not is_link:
                missing.append(path)
        protected.update(find_git_folders(Path(root, ".git")))
    # Outside every root it is read-only anyway; a path that is itself a root was granted.
    inside = {p for p in protected if p not in roots and any(is_within(p, r) for r in roots)}
    return ProtectedPaths(
        protected=tuple(sorted(inside, key=by_depth)),
        missing=tuple(path for path in missing if path not in roots),
        links=tuple(links),
    )


def pinned_folders(
    roots: Sequence[str], *, closed: Sequence[str], others: Sequence[str] = ()
) -> tuple[str, ...]:
    """Writable folders between a root and a path that the plan relies on.

    Such paths are closed ones, other roots and `others`. If a folder above one were renamed, the
    next command, which is planned by paths, would find the same files open.

    Args:
        closed: What commands cannot write anyway: nothing in it has to be pinned, since pinning
            would open it.
    """
    shut = (*closed, *KERNEL_TREES)

    def is_open(folder: str) -> bool:
        above = max((root for root in roots if is_within(folder, root)), key=len, default=folder)
        inside = (one for one in shut if is_within(folder, one) and is_within(one, above))
        return folder != above and not any(inside)

    found = {str(parent) for path in (*closed, *roots, *others) for parent in Path(path).parents}
    return tuple(sorted((folder for folder in found if is_open(folder)), key=by_depth))


def needed_run_paths(*, network: bool) -> tuple[str, ...]:
    """What programs look for in /run."""
    names = _NEEDED_IN_RUN + (_NEEDED_FOR_NETWORK if network else ())
    return tuple(f"/run/{name}" for name in names)


def _visible(
    cwd: str, roots: tuple[str, ...], covered: tuple[str, ...], wanted: tuple[str, ...]
) -> tuple[str, ...]:
    """Existing paths inside covered trees that must stay readable, without what a root shows."""

    def is_inside(path: str) -> bool:
        return any(is_within(path, tree) and path != tree for tree in covered)

    found = {path for path in wanted if Path(path).exists() and is_inside(path)}
    here = os.path.realpath(cwd)
    if is_inside(here):
        found.add(here)
    shown = tuple(root for root in roots if is_inside(root))
    kept = {path for path in found if not any(is_within(path, root) for root in shown)}
    return tuple(sorted(kept - set(roots), key=by_depth))


_LISTENS = 0x10000
_DATAGRAM = "0002"
_MOST = 64


def _listening_sockets() -> tuple[str, ...]:
    """Paths of the Unix sockets on this machine that a program listens at.

    By their bound names: sockets that were renamed since, or have a line break in their path, are
    missing.
    """
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()[1:]
    except OSError:
        return ()
    found: dict[str, None] = {}
    for line in lines:
        # Num RefCount Protocol Flags Type St Inode Path; an abstract name begins with @
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and fields[7].startswith("/") and _accepts_messages(fields):
            found[fields[7]] = None
    outside = (path for path in found if not any(is_within(path, tree) for tree in KERNEL_TREES))
    return tuple(path for path in outside if _is_socket(path))[:_MOST]


def allowed_sockets(rules: UnixSockets) -> tuple[str, ...]:
    """The existing sockets that the rules name; a symlink in a socket's place opens nothing.

    With `every`, at most 64 listening sockets are added.
    """
    found = dict.fromkeys(rules.allow)
    if rules.every:
        found |= dict.fromkeys(_listening_sockets())
    return tuple(
        path
        for path in found
        if rules.permits(path) and os.path.realpath(path) == path and _is_socket(path)
    )


def _accepts_messages(fields: list[str]) -> bool:
    """True if the socket listens, or takes datagrams, which needs no listener."""
    return bool(int(fields[3], 16) & _LISTENS) or fields[4] == _DATAGRAM


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
