"""Turns a permission profile into a plan: what each rule means for this machine's folders.

A right counts only where its path still is what it was when the profile was resolved. What is
denied stays denied by whatever path it is reached. A folder is pinned in its place while something
in it is closed, because the next command is planned by paths.
"""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from swarm.mailbox.base.path_rules import (
    PRIVATE_TREES,
    access_at,
    compile_glob,
    glob_base,
    is_explicitly_denied,
    is_within,
    may_read,
)
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import NetworkPolicy, ProfilePolicy

from .sandbox_plan import (
    SandboxPlan,
    SandboxUnavailable,
    Stack,
    by_depth,
    canonical_paths,
    find_protected_paths,
    needed_run_paths,
    pinned_folders,
    visible_sockets,
)

_MOST_MATCHES = 4096  # each is a mount, or a hole that grants must leave out
_SCAN_S = 5.0


class PlanRequest(Value):
    """What a plan is wanted for; the fields are those of `plan_sandbox`."""

    cwd: str
    tmp_dir: str | None
    extra_roots: tuple[str, ...] = ()
    extra_readable: tuple[str, ...] = ()
    hidden_paths: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()


class _ResolvedRules(Value):
    """The rules resolved on this machine; every path canonical and existing."""

    readable: tuple[str, ...]
    writable: tuple[str, ...]
    closed_to_writing: tuple[str, ...]  # read-only below something writable
    denied: tuple[str, ...]


def plan_profile(
    policy: ProfilePolicy, wanted: PlanRequest, *, stack: Stack, proxied: NetworkPolicy | None
) -> SandboxPlan:
    """The plan for one command. Raises SandboxUnavailable for a profile that cannot be enforced."""
    if not may_read(policy, os.path.realpath(wanted.cwd)):
        raise SandboxUnavailable(
            f"permission profile {policy.name} does not let commands read {wanted.cwd}"
        )
    hidden = canonical_paths(wanted.hidden_paths)
    covered = tuple(
        sorted({os.path.realpath(path) for path in PRIVATE_TREES if Path(path).is_dir()})
    )
    shape = _resolve_rules(policy, wanted, masks=hidden, covered=covered)
    roots = shape.writable
    guarded = find_protected_paths(roots)
    closed = tuple(sorted({*guarded.protected, *shape.closed_to_writing}, key=by_depth))
    folders = tuple(path for path in shape.denied if Path(path).is_dir())
    aloud = tuple(path for path in wanted.sockets if is_explicitly_denied(policy, path))
    network = "" if not policy.network_access else "with the network, "
    return SandboxPlan(
        stack=stack,
        writable=roots,
        pinned=pinned_folders(
            roots, closed=(*closed, *shape.denied, *hidden, *covered), others=guarded.missing
        ),
        protected=closed,
        missing=guarded.missing,
        links=guarded.links,
        covered=covered,
        visible=_visible_run_paths(policy, roots),
        readable=shape.readable,
        denied=folders,
        denied_files=tuple(path for path in shape.denied if path not in folders),
        aliases=() if "/" in shape.readable else _aliases(),
        hidden=tuple(path for path in hidden if Path(path).is_dir()),
        hidden_files=tuple(path for path in hidden if not Path(path).is_dir()),
        sockets=visible_sockets(wanted.sockets, (*hidden, *shape.denied, *aloud), stack=stack),
        tmp_dir=os.path.realpath(wanted.tmp_dir) if wanted.tmp_dir else None,
        tmp_writable=policy.tmp == "write",
        network=policy.network_access,
        proxied=proxied,
        reason=f"permission profile {policy.name} {network}by {stack}",
    )


def _resolve_rules(
    policy: ProfilePolicy, wanted: PlanRequest, *, masks: tuple[str, ...], covered: tuple[str, ...]
) -> _ResolvedRules:
    readable, writable = list(wanted.extra_readable), list(wanted.extra_roots)
    denied = list(_matches(policy))
    for rule in policy.rules:
        if rule.path in covered or not os.path.lexists(rule.path):
            continue
        if rule.access == "deny":
            denied.append(os.path.realpath(rule.path))
        elif rule.access == "write":
            writable.append(rule.path)
        else:
            readable.append(rule.path)

    def counts(path: str) -> bool:
        # A link in its place leads to a place nobody reviewed; masked or denied paths are never
        # granted.
        unmoved = path != "/tmp" and os.path.lexists(path) and os.path.realpath(path) == path
        masked = any(is_within(path, mask) for mask in masks)
        return unmoved and not masked and not is_explicitly_denied(policy, path)

    writes = {path for path in writable if counts(path)}
    reads = {path for path in readable if counts(path)} - writes
    return _ResolvedRules(
        readable=_sorted(reads | writes),
        writable=_sorted(writes),
        closed_to_writing=_sorted(p for p in reads if any(is_within(p, root) for root in writes)),
        denied=_sorted(path for path in denied if not any(is_within(path, m) for m in masks)),
    )


def _sorted(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(paths), key=by_depth))


def _visible_run_paths(policy: ProfilePolicy, roots: tuple[str, ...]) -> tuple[str, ...]:
    """Paths in /run that programs need, if commands may read the system's own folders at all."""
    if access_at(policy.rules, "/etc") == "deny":
        return ()
    found = needed_run_paths(network=policy.network_access)
    return tuple(
        path
        for path in found
        if Path(path).exists() and path not in roots and not is_explicitly_denied(policy, path)
    )


def _aliases() -> tuple[tuple[str, str], ...]:
    """Links such as `/bin -> usr/bin`: names only, which open nothing."""
    with os.scandir("/") as entries:
        links = sorted(entry.path for entry in entries if entry.is_symlink())
    return tuple((path, str(Path(path).readlink())) for path in links)


def _matches(policy: ProfilePolicy) -> Iterator[str]:
    """Paths that the deny patterns match now, links resolved.

    Raises SandboxUnavailable if there are too many to be closed.
    """
    deadline, count = time.monotonic() + _SCAN_S, 0
    for glob in policy.deny_globs:
        for path in _search(glob, policy.glob_depth, deadline):
            count += 1
            if count > _MOST_MATCHES:
                raise SandboxUnavailable(
                    f"permission profile {policy.name}: more than {_MOST_MATCHES} files fit its "
                    "patterns; deny their folders instead"
                )
            yield os.path.realpath(path)


def _search(glob: str, depth: int | None, deadline: float) -> Iterator[str]:
    pattern, waiting = compile_glob(glob), [(glob_base(glob), 0)]
    while waiting:
        folder, level = waiting.pop()
        if time.monotonic() > deadline:
            raise SandboxUnavailable(
                f"searching for {glob} took longer than {_SCAN_S:.0f} s; set glob_scan_max_depth, "
                "or begin the pattern with a deeper folder"
            )
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if pattern.fullmatch(entry.path):
                        yield entry.path
                    elif entry.is_dir(follow_symlinks=False) and (
                        depth is None or level + 1 < depth
                    ):
                        waiting.append((entry.path, level + 1))
        except FileNotFoundError:
            continue
        except OSError:
            yield folder  # its owner could open it and read what was not searched
