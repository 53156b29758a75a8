"""Puts this process into its own copy of the project: a mount namespace with overlays.

The project keeps its path. Whatever this process and all that it starts write there goes to the
upper layer. Call it in a process with one thread, before its launcher is forked, before Trio,
ZeroMQ and any lock. A root user needs no user namespace; everybody else gets one in which user and
group are the same as outside, and gives up its capabilities there afterwards.
"""

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.safe_open import FOLDER_FLAGS, PATH_FLAGS, open_beneath, open_canonical
from swarm.mailbox.protocol.spec import CopyMount, LiveFolder

from ...sandbox.landlock import drop_capabilities
from ...sandbox.sandbox_probe import probe_sandbox

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_PRIVATE = 0x2, 0x4, 0x4000, 0x40000
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_CAP_SYS_ADMIN = 21
_OVERLAY_MAGIC = 0x794C7630
_NO_COPY = "no copy of the project can be had here"

_libc = ctypes.CDLL(None, use_errno=True)


class CopyUnavailable(SwarmError):
    """The copy of the project cannot be mounted; the process must not go on without it."""

    exit_code = 6


class _StatFs(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_long), ("rest", ctypes.c_byte * 256))


def enter_copies(copies: tuple[CopyMount, ...]) -> None:
    """Mount all copies over the project for this process and its descendants.

    Raises CopyUnavailable, after which the process must end.
    """
    if probe_sandbox().stack != "bwrap":
        raise CopyUnavailable(
            f"{_NO_COPY}: without bubblewrap nothing holds commands to it; `swarm doctor` shows "
            "how to fix it"
        )
    try:
        with ExitStack() as opened:
            _enter_namespace()
            found = [_Layers(opened, one) for one in copies]  # before anything lies over them
            for layers in found:
                layers.mount()
        if os.geteuid() != 0:
            drop_capabilities()
    except OSError as error:
        raise CopyUnavailable(f"{_NO_COPY}: {error}; `swarm doctor` shows what is missing") from (
            error
        )


class _Layers:
    """The open folders of one copy, and of the folders in it that are shown as they are."""

    def __init__(self, opened: ExitStack, copy: CopyMount) -> None:
        self._copy = copy
        self._place = _open(opened, copy.path)
        self._lowers = (*_open_made(opened, copy), _open(opened, copy.base))
        self._own = tuple(_open(opened, path) for path in (copy.upper, copy.work))
        self._live: list[tuple[LiveFolder, tuple[int, ...], tuple[int, ...]]] = []
        for folder in copy.live:
            try:
                lower = _open(opened, folder.lower or f"{copy.path}/{folder.name}")
            except OSError:
                continue  # it is gone: the copy has an empty folder in its place
            lowers = (*_open_made(opened, folder), lower)
            own = tuple(_open(opened, path) for path in (folder.upper, folder.work))
            self._live.append((folder, lowers, own))

    def mount(self) -> None:
        """Raises OSError."""
        _mount_overlay(self._lowers, self._own, _fd_path(self._place))
        top = open_canonical(self._copy.path, FOLDER_FLAGS)
        try:
            if not _is_overlay(top):
                raise OSError(errno.EINVAL, f"{self._copy.path} shows the project itself")
            for folder, lowers, own in self._live:
                self._mount_live(top, folder, lowers, own)
        finally:
            os.close(top)

    def _mount_live(
        self, top: int, folder: LiveFolder, lowers: tuple[int, ...], own: tuple[int, ...]
    ) -> None:
        """Mount over the folder in the copy, unless an earlier process of the agent removed it."""
        try:
            place = open_beneath(top, folder.name, PATH_FLAGS)
        except OSError:
            return
        try:
            _mount_overlay(lowers, own, _fd_path(place))
        finally:
            os.close(place)


def _mount_overlay(lowers: tuple[int, ...], own: tuple[int, ...], place: str) -> None:
    """`lowers`: the topmost one first; `own`: upper and work."""
    lower, (upper, work) = ":".join(map(_fd_path, lowers)), map(_fd_path, own)
    options = f"lowerdir={lower},upperdir={upper},workdir={work},userxattr"
    _checked(
        _libc.mount(
            b"overlay", place.encode(), b"overlay", _MS_NOSUID | _MS_NODEV, options.encode()
        ),
        "overlay",
    )


def _open(opened: ExitStack, path: str) -> int:
    fd = open_canonical(path, PATH_FLAGS)
    opened.callback(os.close, fd)
    return fd


def _open_made(opened: ExitStack, folder: CopyMount | LiveFolder) -> tuple[int, ...]:
    """The layers under the agent's own that never change, the topmost first."""
    return tuple(_open(opened, path) for path in folder.made)


def _fd_path(fd: int) -> str:
    """A path without signs that a mount option would have to escape."""
    return f"/proc/self/fd/{fd}"


def _is_overlay(fd: int) -> bool:
    found = _StatFs()
    _checked(_libc.fstatfs(fd, ctypes.byref(found)), "fstatfs")
    return bool(found.kind == _OVERLAY_MAGIC)


def _enter_namespace() -> None:
    if _may_mount():
        _checked(_libc.unshare(_CLONE_NEWNS), "unshare")
    else:
        user, group = os.geteuid(), os.getegid()
        _checked(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWUSER), "user namespace")
        with _own_proc_files():
            _write("setgroups", "deny")
            _write("uid_map", f"{user} {user} 1")
            _write("gid_map", f"{group} {group} 1")
    # nothing that is mounted outside from now on lies over the copy, and nothing of ours shows
    _checked(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "mount")


def _may_mount() -> bool:
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("CapEff:"):
            return bool(os.geteuid() == 0 and int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


@contextmanager
def _own_proc_files() -> Iterator[None]:
    """Files in /proc of a process that cannot be dumped belong to root, who is not mapped yet."""
    before = _libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    _checked(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl")
    try:
        yield
    finally:
        if before != 1:
            _checked(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl")


def _write(name: str, text: str) -> None:
    fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
