"""Turns a plan into bubblewrap's arguments, and gives the entrypoint that runs inside it.

Mounts are ordered from shallow to deep, and at the same depth from weak to strong, so that a mask
or a read-only folder always lies on top of what it guards. All paths are absolute (bubblewrap 0.8
cannot bind relative ones onto a read-only root).

The entrypoint becomes the command after some 6 ms. With a terminal it starts a session and takes
the terminal. With the network proxy it listens on the loopback device of the command's own
namespace and sends the listener out by an inherited socket. So no process of swarm stays inside,
and only this command can connect there. It is already under the command's filter. It opens no file
and reads no variable but PATH (Python runs isolated), and passes none of its descriptors on.
"""

import os
from functools import cache

from swarm.mailbox.base.path_rules import OWN_TREES, is_within

from .proxy_variables import PROXY_PORT
from .sandbox_plan import SandboxPlan, SandboxUnavailable
from .sandbox_probe import find_system_program

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
    if "/" in plan.writable:
        words += ["--ro-bind-try", "/sys", "/sys"]
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
    """Readable paths that need their own mount."""
    return tuple(
        path
        for path in plan.readable
        if path != "/" and not any(is_within(path, tree) for tree in OWN_TREES)
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


# With bwrap in the terminal's foreground group, Ctrl-C would kill it.
_TERMINAL = """if posix.isatty(0):
 import fcntl,termios
 posix.setsid()
 fcntl.ioctl(0,termios.TIOCSCTTY,0)
"""
# `_socket` and `posix`: importing `socket` takes as long as starting Python, `os` a millisecond.
_LISTENER = f"""import _socket
s=_socket.socket(2,1)
s.setsockopt(1,2,1)
s.bind(("127.0.0.1",{PROXY_PORT}))
s.listen(128)
u=_socket.socket(fileno={ROUTE_FD})
u.sendmsg([b"\\0"],[(1,1,s.fileno().to_bytes(4,sys.byteorder))])
u.close()
"""
# Python ignores these two signals; the command must not start so. Then execvp, by hand.
_EXEC = """import _signal
for n in (_signal.SIGPIPE,_signal.SIGXFSZ):
 _signal.signal(n,_signal.SIG_DFL)
w,e=sys.argv[1:],2
path=posix.environ.get(b"PATH",b"/usr/bin:/bin").decode("utf-8","surrogateescape")
for d in [""] if "/" in w[0] else path.split(":"):
 try:
  posix.execv(d+"/"+w[0] if d else w[0],w)
 except OSError as x:
  e=x.errno if x.errno!=2 else e
posix.write(2,f"{w[0]}: {posix.strerror(e)}\\n".encode("utf-8","replace"))
posix._exit(126 if e==13 else 127)
"""


@cache
def entrypoint_argv(*, tty: bool, proxied: bool) -> tuple[str, ...]:
    """Arguments to put before the command's own; none if there is nothing to do.

    Raises SandboxUnavailable: the route to the proxy needs a system Python.
    """
    if not tty and not proxied:
        return ()
    if not proxied and (setsid := find_system_program("setsid")):
        return (setsid, "-c")
    python = find_system_program("python3")
    if python is None and proxied:
        raise SandboxUnavailable(
            "the way to the network proxy needs a python3 in /usr/bin or /usr/local/bin; install "
            "the package `python3`"
        )
    # The same code with and without a terminal: a locked role's launcher compares it.
    code = "import posix,sys\n" + _TERMINAL + _LISTENER * proxied + _EXEC
    return (os.path.realpath(python or "python3"), "-I", "-S", "-c", code)
