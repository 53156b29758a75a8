"""The checks of `doctor`, one function per subject. Each finding includes the exact fix.

A check never fails by itself: what cannot be determined is a warning that says so.
"""

import importlib.util
import os
import platform
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from swarm.mailbox.errors import SwarmError
from swarm.roles.config.schema import Config

from ..agents.descriptor_limit import max_agents_for
from ..runs.paths import UserPaths
from ..runs.run_metadata import network_filesystem_of
from .provider_checks import Check, check_providers

_SOCKET_PATH_BYTES = 100
_PROBE_LIMIT_S = 20.0


def all_checks(places: UserPaths, config: Config) -> list[Check]:
    """All checks, in the order in which a person would fix the findings."""
    return [
        check_system(),
        check_python(),
        check_package(),
        *check_sandbox(),
        check_program("rg", "ripgrep", "agents search with grep then, which is slower"),
        check_program("git", "git", "agents cannot see the history or diffs of a repository"),
        check_state(places),
        check_sockets(places),
        check_open_files(),
        *check_providers(config, os.environ),
        *check_local_model(),
    ]


def check_system() -> Check:
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    if platform.system() == "Linux":
        return Check(name="system", state="ok", detail=system)
    return Check(name="system", state="fail", detail=f"{system}: only Linux can run agents yet")


def check_python() -> Check:
    """Which Python runs; one older than 3.11 could not have parsed this file."""
    return Check(name="python", state="ok", detail=f"{platform.python_version()}, {sys.executable}")


def check_package() -> Check:
    """Another package called `swarm` may hide this one in a wheel installation."""
    spec = importlib.util.find_spec("swarm")
    if spec is not None and spec.origin not in {None, "namespace"}:
        return Check(
            name="package",
            state="fail",
            detail=f"another package called swarm is installed: {spec.origin}",
            fix="uninstall it, or install swarm-agents into an environment of its own",
        )
    return Check(name="package", state="ok", detail="swarm is ours alone")


class _Finding(msgspec.Struct):
    name: str
    works: bool
    detail: str = ""
    fix: str = ""


class _Report(msgspec.Struct):
    stack: str
    guarantees: list[str] = []
    findings: list[_Finding] = []


def check_sandbox() -> list[Check]:
    """The result of the worker's own sandbox probe, run in a separate process."""
    words = [sys.executable, "-P", "-m", "swarm.worker.sandbox.sandbox_report"]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_LIMIT_S,
            check=False,
        )  # fmt: skip
        report = msgspec.json.decode(done.stdout, type=_Report)
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError) as error:
        return [Check(name="sandbox", state="fail", detail=f"cannot be tried: {error}")]
    if report.stack == "none":
        first = Check(name="sandbox", state="fail", detail="no stack works", fix="see below")
    else:
        held = " and ".join(report.guarantees) or "nothing"
        detail = f"{report.stack}, guarantees {held}"
        whole = {"fs", "net"} <= set(report.guarantees)
        first = Check(name="sandbox", state="ok" if whole else "warn", detail=detail)
    return [
        first,
        *(
            Check(
                name=one.name,
                state="ok" if one.works else "warn",
                detail=one.detail,
                fix=one.fix,
            )
            for one in report.findings
        ),
    ]


def check_program(name: str, package: str, without: str) -> Check:
    if (path := shutil.which(name)) is not None:
        return Check(name=name, state="ok", detail=path)
    fix = f"install the package `{package}` (apt, dnf, pacman, apk)"
    return Check(name=name, state="warn", detail=f"not installed; {without}", fix=fix)


def check_state(places: UserPaths) -> Check:
    """Whether the state folder is writable and on no network file system."""
    existing = next(folder for folder in (places.runs, *places.runs.parents) if folder.exists())
    fix = "make it writable, or set SWARM_HOME or XDG_STATE_HOME to a local folder that is"
    if not os.access(existing, os.W_OK | os.X_OK):
        return Check(name="state folder", state="fail", detail=f"{existing} is read-only", fix=fix)
    if (kind := network_filesystem_of(existing)) is not None:
        detail = f"{places.runs} lies on {kind}: locks are unsafe there"
        return Check(name="state folder", state="warn", detail=detail, fix=fix)
    free = shutil.disk_usage(existing).free
    if free < 200 << 20:
        detail = f"only {free >> 20} MiB are free at {existing}"
        return Check(name="state folder", state="warn", detail=detail, fix="swarm prune --keep 5")
    return Check(name="state folder", state="ok", detail=str(places.runs))


def check_sockets(places: UserPaths) -> Check:
    folder = places.runtime
    fix = "set XDG_RUNTIME_DIR to a short folder of your own"
    if len(str(folder)) + 20 > _SOCKET_PATH_BYTES:
        return Check(name="sockets", state="fail", detail=f"{folder} is too long", fix=fix)
    try:
        facts = folder.lstat()
    except FileNotFoundError:
        parent = next(one for one in folder.parents if one.exists())
        writable = os.access(parent, os.W_OK | os.X_OK)
        detail = f"{folder}, made when needed" if writable else f"{parent} is read-only"
        return Check(
            name="sockets", state="ok" if writable else "fail", detail=detail,
            fix="" if writable else fix,
        )  # fmt: skip
    except OSError as error:
        return Check(name="sockets", state="fail", detail=f"{folder}: {error.strerror}", fix=fix)
    if facts.st_uid != os.getuid() or Path(folder).is_symlink():
        return Check(name="sockets", state="fail", detail=f"{folder} is someone else's", fix=fix)
    return Check(name="sockets", state="ok", detail=str(folder))


def check_open_files() -> Check:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= 4096:
        return Check(name="open files", state="ok", detail=f"limit {hard}")
    return Check(
        name="open files", state="warn",
        detail=f"limit {hard}: {max_agents_for(hard)} agents at once",
        fix="raise the hard limit: ulimit -Hn 65536, or LimitNOFILE= of the service",
    )  # fmt: skip


def check_local_model() -> list[Check]:
    """The embedded provider needs its library and one model file."""
    from .models_process import query_models

    checks: list[Check] = []
    if importlib.util.find_spec("xllamacpp") is None:
        checks.append(
            Check(
                name="local library", state="warn", detail="xllamacpp is not installed",
                fix="pip install 'swarm-agents[local]'",
            )
        )  # fmt: skip
    else:
        checks.append(Check(name="local library", state="ok", detail="xllamacpp"))
    try:
        here = [line.name for line in query_models("list") if line.here]
    except (SwarmError, OSError) as error:
        return [*checks, Check(name="local model", state="warn", detail=str(error))]
    if here:
        return [*checks, Check(name="local model", state="ok", detail=", ".join(here))]
    fix = "swarm models pull smollm2"
    return [
        *checks,
        Check(name="local model", state="warn", detail="no model file is here", fix=fix),
    ]
