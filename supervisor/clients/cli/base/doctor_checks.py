"""The checks of `doctor`, one function per subject. Each finding includes the exact fix.

A check never fails by itself: what cannot be determined is a warning that says so.
"""

import importlib.util
import os
import platform
import resource
import shutil
import sys
from pathlib import Path

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.own_distribution import (
    line_for_extra,
    read_installation,
    warn_of_former_name,
)
from swarm.roles.config.schema import Config

from ....agents.descriptor_limit import max_agents_for
from ....processes.machine_sandbox import SandboxProbeFailed, probe_sandbox
from ....runs.paths import UserPaths
from ....runs.run_metadata import network_filesystem_of
from .provider_checks import Check, check_providers

_SOCKET_PATH_BYTES = 100


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
        return Check.ok("system", system)
    return Check.fail("system", f"{system}: only Linux can run agents yet")


def check_python() -> Check:
    """Which Python runs; one older than 3.11 could not have parsed this file."""
    return Check.ok("python", f"{platform.python_version()}, {sys.executable}")


def check_package() -> Check:
    """Where this copy came from. Where another package hides it, no command starts."""
    if (former := warn_of_former_name()) is not None:
        detail, _, fix = former.partition("; to move: ")
        return Check.warn("package", detail, fix=fix)
    here = read_installation()
    kind = "used in place" if here.is_editable else "installed from"
    return Check.ok("package", f"{here.name or 'not installed'}, {kind} {here.source or '?'}")


def check_sandbox() -> list[Check]:
    """What the worker's own sandbox probe finds."""
    try:
        report = probe_sandbox()
    except SandboxProbeFailed as error:
        return [Check.fail("sandbox", str(error))]
    if report.stack == "none":
        first = Check.fail("sandbox", "no stack works", fix="see below")
    else:
        detail = f"{report.stack}, guarantees {' and '.join(report.guarantees) or 'nothing'}"
        whole = {"fs", "net"} <= set(report.guarantees)
        first = Check.ok("sandbox", detail) if whole else Check.warn("sandbox", detail)
    states = {True: "ok", False: "warn"}
    return [
        first,
        *(
            Check(name=one.name, state=states[one.works], detail=one.detail, fix=one.fix)
            for one in report.findings
        ),
    ]


def check_program(name: str, package: str, without: str) -> Check:
    if (path := shutil.which(name)) is not None:
        return Check.ok(name, path)
    fix = f"install the package `{package}` (apt, dnf, pacman, apk)"
    fix += f", or {line_for_extra('search')}" if name == "rg" else ""
    return Check.warn(name, f"not installed; {without}", fix=fix)


def check_state(places: UserPaths) -> Check:
    """Whether the state folder is writable and on no network file system."""
    existing = next(folder for folder in (places.runs, *places.runs.parents) if folder.exists())
    fix = "make it writable, or set SWARM_HOME or XDG_STATE_HOME to a local folder that is"
    if not os.access(existing, os.W_OK | os.X_OK):
        return Check.fail("state folder", f"{existing} is read-only", fix=fix)
    if (kind := network_filesystem_of(existing)) is not None:
        detail = f"{places.runs} lies on {kind}: locks are unsafe there"
        return Check.warn("state folder", detail, fix=fix)
    free = shutil.disk_usage(existing).free
    if free < 200 << 20:
        detail = f"only {free >> 20} MiB are free at {existing}"
        return Check.warn("state folder", detail, fix="swarm prune --keep 5")
    return Check.ok("state folder", str(places.runs))


def check_sockets(places: UserPaths) -> Check:
    folder = places.runtime
    fix = "set XDG_RUNTIME_DIR to a short folder of your own"
    if len(str(folder)) + 20 > _SOCKET_PATH_BYTES:
        return Check.fail("sockets", f"{folder} is too long", fix=fix)
    try:
        facts = folder.lstat()
    except FileNotFoundError:
        parent = next(one for one in folder.parents if one.exists())
        if os.access(parent, os.W_OK | os.X_OK):
            return Check.ok("sockets", f"{folder}, made when needed")
        return Check.fail("sockets", f"{parent} is read-only", fix=fix)
    except OSError as error:
        return Check.fail("sockets", f"{folder}: {error.strerror}", fix=fix)
    if facts.st_uid != os.getuid() or Path(folder).is_symlink():
        return Check.fail("sockets", f"{folder} is someone else's", fix=fix)
    return Check.ok("sockets", str(folder))


def check_open_files() -> Check:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= 4096:
        return Check.ok("open files", f"limit {hard}")
    fix = "raise the hard limit: ulimit -Hn 65536, or LimitNOFILE= of the service"
    return Check.warn("open files", f"limit {hard}: {max_agents_for(hard)} agents at once", fix=fix)


def check_local_model() -> list[Check]:
    """The embedded provider needs its library and one model file."""
    from .models_process import query_models

    if importlib.util.find_spec("xllamacpp") is None:
        library = Check.warn(
            "local library", "xllamacpp is not installed", fix=line_for_extra("local")
        )
    else:
        library = Check.ok("local library", "xllamacpp")
    try:
        here = [line.name for line in query_models("list") if line.here]
    except (SwarmError, OSError) as error:
        return [library, Check.warn("local model", str(error))]
    if here:
        return [library, Check.ok("local model", ", ".join(here))]
    fix = "swarm models pull smollm2"
    return [library, Check.warn("local model", "no model file is here", fix=fix)]
