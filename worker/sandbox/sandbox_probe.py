"""Finds out by trying what this machine can enforce; once per process, and before any fork.

A weaker stack is never chosen silently: every gap has a reason and a fix that `swarm doctor` shows,
and `require_sandbox` turns it into a failure. A forked child inherits the result.
"""

import os
import re
import stat
import subprocess
from collections.abc import Collection
from functools import cache
from pathlib import Path

from swarm.mailbox.protocol.values.base import Value

from .landlock import landlock_abi
from .notify_filter import can_notify
from .sandbox_plan import SandboxUnavailable, Stack
from .seccomp import FilterRequest, UnsupportedMachine, build_filter

_SAFE_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
_PROBE_LIMIT_S = 5.0
_NEEDED_LANDLOCK = 3  # below it truncating a file outside the roots is not prevented


class SandboxFinding(Value):
    """The result of one probe."""

    name: str
    works: bool
    detail: str = ""
    fix: str = ""  # what a user can do about it; empty when it works


class SandboxFacts(Value):
    """All findings, and what follows from them."""

    bwrap: str | None  # absolute path of a binary that works
    landlock_abi: int
    seccomp: bool
    notifies: bool  # a command's connections can wait for the launcher
    findings: tuple[SandboxFinding, ...]
    answers: bool = False  # a command's system calls can wait for the launcher's answer

    @property
    def stack(self) -> Stack:
        """The strongest stack that works here."""
        if self.bwrap and self.seccomp:
            return "bwrap"
        return "landlock" if self.landlock_abi and self.seccomp else "none"

    @property
    def guarantees(self) -> frozenset[str]:
        """Which of "fs" and "net" hold fully."""
        held = {"net"} if self.stack != "none" else set[str]()
        if self.stack == "bwrap" or (
            self.stack == "landlock" and self.landlock_abi >= _NEEDED_LANDLOCK
        ):
            held.add("fs")
        return frozenset(held)


def find_system_program(name: str) -> str | None:
    """A program in the system's own folders; PATH is ignored, a project could be on it."""
    for folder in _SAFE_FOLDERS:
        path = Path(folder, name)
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None


@cache
def probe_sandbox() -> SandboxFacts:
    """Try everything; about 10 ms, so call it before forking and never in a hot path."""
    bwrap, found = _try_bwrap()
    seccomp = _try_seccomp()
    abi = landlock_abi()
    landlock = SandboxFinding(
        name="landlock",
        works=abi >= _NEEDED_LANDLOCK,
        detail=f"ABI {abi}" if abi else "the kernel offers no Landlock",
        fix=""
        if abi >= _NEEDED_LANDLOCK
        else "use a kernel of 6.2 or later with `landlock` in its `lsm=` list",
    )
    notifying = _try_notifying(bwrap)
    answers = _try_answers()
    findings = (found, _try_user_namespaces(), landlock, seccomp, notifying, answers)
    return SandboxFacts(
        bwrap=bwrap,
        landlock_abi=abi,
        seccomp=seccomp.works,
        notifies=notifying.works,
        answers=answers.works,
        findings=findings,
    )


def require_sandbox(wanted: Collection[str], facts: SandboxFacts) -> None:
    """`--require-sandbox fs,net`. Raises SandboxUnavailable: what is missing and how to fix it."""
    unknown = sorted(set(wanted) - {"fs", "net"})
    if unknown:
        raise SandboxUnavailable(f"--require-sandbox knows fs and net, not {', '.join(unknown)}")
    lacking = sorted(set(wanted) - facts.guarantees)
    if lacking:
        causes = "; ".join(f"{f.name}: {f.detail}; {f.fix}" for f in facts.findings if not f.works)
        raise SandboxUnavailable(f"the sandbox cannot guarantee {', '.join(lacking)}: {causes}")


def _try_bwrap() -> tuple[str | None, SandboxFinding]:
    path = find_system_program("bwrap")
    if path is None:
        fix = "install the package `bubblewrap` (apt, dnf, pacman, apk)"
        return None, SandboxFinding(name="bwrap", works=False, detail="not installed", fix=fix)
    words = [path, "--unshare-user", "--unshare-pid", "--unshare-net", "--die-with-parent"]
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--", "/bin/true"]
    code, said = _run(words)
    if code == 0:
        return path, SandboxFinding(name="bwrap", works=True, detail=path)
    fix = "allow unprivileged user namespaces, see `user namespaces` below"
    if "proc" in said:
        fix = "unmask the container's /proc (docker: `--security-opt systempaths=unconfined`)"
    return None, SandboxFinding(name="bwrap", works=False, detail=said or f"exit {code}", fix=fix)


def _try_user_namespaces() -> SandboxFinding:
    unshare = find_system_program("unshare")
    if unshare is None:
        return SandboxFinding(name="user namespaces", works=False,
        detail="`unshare` is not installed",
                       fix="install util-linux, or ignore this if bwrap works")  # fmt: skip
    code, said = _run([unshare, "--user", "--map-root-user", "/bin/true"])
    if code == 0:
        return SandboxFinding(name="user namespaces", works=True)
    return SandboxFinding(
        name="user namespaces", works=False, detail=said or f"exit {code}", fix=_namespace_fix()
    )


def _namespace_fix() -> str:
    switches = {
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": ("1", "0"),
        "/proc/sys/kernel/unprivileged_userns_clone": ("0", "1"),
        "/proc/sys/user/max_user_namespaces": ("0", "15000"),
    }
    for switch, (bad, good) in switches.items():
        try:
            value = Path(switch).read_text("ascii").strip()
        except OSError:
            continue
        if value == bad:
            return f"sudo sysctl -w {switch.removeprefix('/proc/sys/').replace('/', '.')}={good}"
    return (
        "in a container, allow the calls clone, unshare and mount (a seccomp profile forbids them)"
    )


def _try_seccomp() -> SandboxFinding:
    try:
        build_filter(FilterRequest(network=False))
        filters = Path("/proc/sys/kernel/seccomp/actions_avail").read_text("ascii").split()
    except UnsupportedMachine as error:
        return SandboxFinding(
            name="seccomp", works=False, detail=str(error), fix="use x86-64 or aarch64"
        )
    except OSError:
        filters = ["errno"] if Path("/proc/self/seccomp").exists() or _in_status() else []
    works = "errno" in filters
    fix = "" if works else "use a kernel with CONFIG_SECCOMP_FILTER"
    return SandboxFinding(
        name="seccomp", works=works, detail="filters" if works else "none", fix=fix
    )


def _try_notifying(bwrap: str | None) -> SandboxFinding:
    """Without notifications no Unix socket can be made in bubblewrap."""
    name = "unix connections"
    if bwrap and os.getuid() and os.stat(bwrap).st_mode & stat.S_ISUID:  # noqa: PTH116
        return SandboxFinding(
            name=name, works=False, detail=f"{bwrap} is setuid",
            fix="allow unprivileged user namespaces and take the setuid bit away",
        )  # fmt: skip
    works = can_notify()
    fix = "use a kernel of 5.6 or later; inside another sandbox it cannot be had"
    return SandboxFinding(
        name=name, works=works, detail="checked one by one" if works else "cannot be checked",
        fix="" if works else fix,
    )  # fmt: skip


def _try_answers() -> SandboxFinding:
    works = can_notify() and _is_linux_at_least(5, 14)  # whose answers can carry descriptors
    fix = "use a kernel of 5.14 or later, outside of other sandboxes; without bubblewrap, commands "
    fix += "can make nothing new beside a protected name until then"
    return SandboxFinding(name="answered calls", works=works, fix="" if works else fix)


def _is_linux_at_least(major: int, minor: int) -> bool:
    numbers = re.findall(r"\d+", os.uname().release)[:2]
    return tuple(map(int, numbers)) >= (major, minor)


def _in_status() -> bool:
    return "\nSeccomp:" in Path("/proc/self/status").read_text("ascii")


def _run(words: list[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_LIMIT_S,
            check=False, env={"PATH": "/usr/bin:/bin"}, cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)
    return done.returncode, done.stderr.decode("utf-8", "replace").strip()[:300]
