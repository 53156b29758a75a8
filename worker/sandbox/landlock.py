"""Landlock through ctypes: rules as a value, applied by a thread to itself. Best effort, ABI 1-7.

What the kernel cannot enforce is left out only where `sandbox_probe` has reported it. A rule set
that cannot be applied at all is an OSError, never silently skipped.
"""

import ctypes
import os
import stat
from functools import cache

from swarm.mailbox.base.safe_open import NOFOLLOW_FLAGS, open_canonical
from swarm.mailbox.protocol.events import LockGap
from swarm.mailbox.protocol.values.base import Value

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on every architecture
_VERSION_FLAG = 1
_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE, _MAKE_REGULAR = (1 << 4) | (1 << 5), (1 << 7) | (1 << 8) | (1 << 9) | (1 << 10) | (1 << 12)
_REFER, _TRUNCATE, IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
# Devices can never be made: no MAKE_CHAR (1 << 6), no MAKE_BLOCK (1 << 11).
WRITE = READ | WRITE_FILE | _REMOVE | _MAKE_REGULAR | _REFER | _TRUNCATE
DEVICE = READ_FILE | WRITE_FILE | IOCTL_DEVICE
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | IOCTL_DEVICE
_TCP = 0b11  # bind, connect
_SCOPES = 0b11  # abstract Unix sockets, signals
_TCP_SINCE, _SCOPES_SINCE = 4, 6


class LandlockGrant(Value):
    """`access` bits for everything at and below `path`."""

    path: str
    access: int


class LandlockRules(Value):
    """All that a command may reach. Paths that have vanished are skipped, which grants less."""

    grants: tuple[LandlockGrant, ...] = ()
    network: bool = False
    files: bool = True  # False: every file stays reachable, and mounting allowed


class _RulesetAttribute(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


_libc = ctypes.CDLL(None, use_errno=True)


@cache
def landlock_abi() -> int:
    """The kernel's Landlock version; 0 when it has none or it is switched off."""
    return max(0, int(_libc.syscall(_CREATE, None, 0, _VERSION_FLAG)))


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def forbid_new_privileges() -> None:
    """Set PR_SET_NO_NEW_PRIVS on the calling thread, for good. Raises OSError."""
    _checked(_libc.prctl(38, 1, 0, 0, 0), "no_new_privs")


def drop_capabilities() -> None:
    """Drop all capabilities of this thread; after `forbid_new_privileges` none comes back.

    Otherwise a command of a root user could read other processes' memory maps and variables:
    CAP_PERFMON passes where Landlock's ptrace rule would refuse. Raises OSError.
    """
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    none = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(header, none), "capset")


def has_scopes() -> bool:
    """True where rules also stop signals and connections to abstract names outside the domain."""
    return landlock_abi() >= _SCOPES_SINCE


def scope_only_rules() -> LandlockRules | None:
    """Rules for a process that still has to mount: no abstract socket and no signal leads out.

    None where the kernel has no such rules. There is no rule about files, because it would forbid
    every mount, and none about TCP: commands without the network have their own loopback device,
    where they may run servers.
    """
    return LandlockRules(network=True, files=False) if has_scopes() else None


def _handled_files(abi: int) -> int:
    bits = 13 if abi == 1 else 14 if abi == 2 else 15 if abi < 5 else 16
    return (1 << bits) - 1


def apply_landlock(rules: LandlockRules) -> None:
    """Confine this thread and its future children, irrevocably. Needs no_new_privs first.

    Raises OSError when the kernel has no Landlock or refuses.
    """
    abi = landlock_abi()
    handled = _handled_files(abi) if rules.files else 0
    attribute = _RulesetAttribute(
        handled,
        _TCP if abi >= _TCP_SINCE and not rules.network else 0,
        _SCOPES if abi >= _SCOPES_SINCE else 0,
    )
    size = 8 if abi < _TCP_SINCE else 16 if abi < _SCOPES_SINCE else 24
    ruleset = _checked(_libc.syscall(_CREATE, ctypes.byref(attribute), size, 0), "landlock ruleset")
    for grant in rules.grants:
        _add(ruleset, grant, handled)
    _checked(_libc.syscall(_RESTRICT, ruleset, 0), "landlock restrict")
    os.close(ruleset)


def _add(ruleset: int, grant: LandlockGrant, handled: int) -> None:
    try:
        # No step of a canonical path may have become a link: otherwise a command that runs
        # meanwhile could redirect the grant.
        fd = open_canonical(grant.path, NOFOLLOW_FLAGS)
    except OSError:
        return
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISLNK(mode):
            return
        access = grant.access & handled & (-1 if stat.S_ISDIR(mode) else _ON_FILES)
        rule = _PathBeneath(access, fd)
        if access:
            done = _libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
            _checked(done, f"landlock rule for {grant.path}")
    finally:
        os.close(fd)


_TRUNCATE_SINCE_ABI = 3


def lock_gap(abi: int | None = None) -> LockGap:
    """What cannot be locked: everything, truncation of files that it may read, or nothing ("")."""
    found = landlock_abi() if abi is None else abi
    if not found:
        return "all"
    return "truncation" if found < _TRUNCATE_SINCE_ABI else ""
