"""Turns a plan into bubblewrap's arguments. Pure: paths in, arguments out.

Mounts are ordered from shallow to deep, and at the same depth from weak to strong, so that a mask
or a read-only folder always lies on top of what it guards. All paths are absolute (bubblewrap 0.8
cannot bind relative ones onto a read-only root).
"""

from swarm.mailbox.path_rules import is_within

from .sandbox_plan import SandboxPlan

SECCOMP_FD = 3  # where the launcher puts the filter in the child
_SIZED = ("--size", str(2 << 30))  # these files belong to no process: the watchdog misses them
ROUTE_FD = 4  # the socket by which the entrypoint sends its listener


def bwrap_arguments(plan: SandboxPlan, *, bwrap: str, filtered: bool) -> tuple[str, ...]:
    """The whole command line up to and with `--`; the command's own words follow.

    Args:
        plan: Its missing paths must exist as placeholders by now.
        bwrap: Absolute path of the binary.
        filtered: Read a seccomp program from `SECCOMP_FD`.
    """
    root: tuple[str, ...] = ("--bind" if "/" in plan.writable else "--ro-bind", "/", "/")
    if "/" not in plan.readable:  # the sandbox has only what is named
        root = (*_SIZED, "--tmpfs", "/")
    words = [bwrap, "--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc"]
    words += ["--unshare-uts", "--cap-drop", "ALL"]
    if not plan.network:
        words.append("--unshare-net")
    words += [*root, "--dev", "/dev", "--perms", "1777", *_SIZED, "--tmpfs", "/dev/shm"]
    words += ["--remount-ro", "/dev", "--proc", "/proc"]
    # The kernel lets user 0 write its settings without any capability, and bwrap leaves them
    # writable.
    words += ["--ro-bind", "/proc/sys", "/proc/sys"]
    for name, target in plan.aliases:
        words += ["--symlink", target, name]
    masks = tuple(path for path in plan.hidden if not _is_covered(path, plan))
    closed = tuple(path for path in plan.denied if not _is_covered(path, plan))
    for _, _, step in sorted((*_mount_steps(plan, masks), *_denied_mount_steps(plan, closed))):
        words += step
    for path in (*masks, *closed, *_remounted_read_only(plan)):
        words += ["--remount-ro", path]
    if filtered:
        words += ["--seccomp", str(SECCOMP_FD)]
    return (*words, "--")


def _remounted_read_only(plan: SandboxPlan) -> tuple[str, ...]:
    """Trees that become read-only once all mounts inside them are in place."""
    own_tmp = plan.tmp_dir is not None and "/tmp" in plan.covered and not plan.tmp_writable
    return (*(("/tmp",) if own_tmp else ()), *(() if "/" in plan.readable else ("/",)))


_MountStep = tuple[int, int, tuple[str, ...]]  # depth, strength, words


def _mount_steps(plan: SandboxPlan, masks: tuple[str, ...]) -> list[_MountStep]:
    found: list[_MountStep] = []

    def add(path: str, strength: int, *words: str) -> None:
        found.append((0 if path == "/" else path.count("/"), strength, words))

    for path in plan.covered:
        if path != "/tmp" or plan.tmp_dir is None:
            add(path, 0, *_SIZED, "--tmpfs", path)
        else:
            add(path, 0, "--bind", plan.tmp_dir, path)
    for path in (*plan.visible, *_own_readable(plan)):
        add(path, 1, "--ro-bind", path, path)
    for path in (*plan.writable, *plan.pinned):
        if path != "/":
            add(path, 2, "--bind", path, path)
    for path in (*plan.protected, *plan.missing):
        add(path, 3, "--ro-bind", path, path)
    for path in plan.hidden_files:
        if not _is_covered(path, plan):
            add(path, 4, "--ro-bind", "/dev/null", path)
    for path in plan.sockets:
        if any(is_within(path, root) for root in plan.writable):
            continue  # visible anyway, and may be replaced
        add(path, 5, "--ro-bind-try", path, path)  # its program may have ended since
    for path in masks:
        add(path, 4, "--perms", "0555", "--tmpfs", path)
    return found


def _own_readable(plan: SandboxPlan) -> tuple[str, ...]:
    """Readable paths that need their own mount. The sandbox has its own `/proc` and `/dev`."""
    return tuple(
        path
        for path in plan.readable
        if path != "/" and not any(is_within(path, tree) for tree in ("/proc", "/dev"))
    )


def _denied_mount_steps(plan: SandboxPlan, closed: tuple[str, ...]) -> list[_MountStep]:
    """Masks over what a profile denies: nothing there opens, and a file is not an empty one.

    (A device on a mount without devices gives EACCES.) A denied folder on the way to something
    shown can be traversed.
    """
    shown = (*plan.writable, *plan.visible, *plan.readable)
    steps: list[_MountStep] = []
    for path in closed:
        passed = any(one != path and is_within(one, path) for one in shown)
        words = ("--perms", "0111" if passed else "0000", "--tmpfs", path)
        steps.append((path.count("/"), 4, words))
    files = (path for path in plan.denied_files if not _is_covered(path, plan))
    steps += [(path.count("/"), 4, ("--ro-bind", "/dev/null", path)) for path in files]
    return steps


def _is_covered(path: str, plan: SandboxPlan) -> bool:
    """True if `path` is not visible: a private tree hides it, or the root is not readable."""
    hiding = [tree for tree in plan.covered if is_within(path, tree)]
    if not hiding and "/" in plan.readable:
        return False
    shown = (*plan.writable, *plan.visible, *plan.readable)
    return not any(one != "/" and is_within(path, one) for one in shown)
