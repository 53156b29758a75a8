"""Turns an agent's spec into the sandbox plan and the environment of its commands.

Only this module does so.

The agent shows and judges a plan, and the launcher of a locked role enforces one. Both derive the
same plan from the same spec.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from swarm.mailbox.base.path_rules import is_within, read_only_profile
from swarm.mailbox.base.secret_names import holds_secret
from swarm.mailbox.base.short_quotes import quote_head
from swarm.mailbox.protocol.approvals import ExtraPermissions
from swarm.mailbox.protocol.spec import (
    AgentSpec,
    FolderIdentity,
    HubSpec,
    ShellEnvironmentPolicy,
)
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    ProfilePolicy,
    ReadOnly,
    ResourceLimits,
    SandboxPolicy,
)

from ..sandbox.sandbox_plan import (
    SandboxPlan,
    SandboxUnavailable,
    Stack,
    allowed_sockets,
    by_depth,
    pinned_folders,
    plan_sandbox,
)
from ..sandbox.sandbox_probe import probe_sandbox
from .unattended_variables import FOR_A_PERSON, UNATTENDED_VARIABLES


class FolderHidden(SandboxUnavailable):
    """The command would start in a folder that its sandbox hides; it was not started."""


NOT_IN_COPY = "is not in this agent's copy of the project"


def is_in_copy(spec: AgentSpec, path: str) -> bool:
    """True if what is written at this canonical path goes to the agent's copy, if it has one."""
    if spec.copy.tree:
        return is_within(path, spec.copy.tree)
    return not spec.copy.mounts or any(is_within(path, one.path) for one in spec.copy.mounts)


def plan_command(
    spec: AgentSpec, policy: SandboxPolicy, cwd: str, extra: ExtraPermissions | None = None
) -> SandboxPlan:
    """The plan for what this machine offers now, with the granted permissions added to the policy.

    Raises SandboxUnavailable.
    """
    if isinstance(policy, DangerFullAccess):
        if spec.inherited.sandbox_required:
            raise SandboxUnavailable(spec.inherited.sandbox_required)
        return SandboxPlan(reason="danger-full-access: no sandbox")
    check_hidden_folders(spec.guarded.hidden_folders)
    held = spec.limits.sandbox
    if isinstance(held, ProfilePolicy) and isinstance(policy, ReadOnly):
        policy = read_only_profile(held)  # swarm's own commands see no more than the agent's
    # A granted path that has become a symlink since leads to a place that nobody reviewed: skip it.
    write, read = (_unmoved(paths) for paths in _paths_of(extra))
    facts = probe_sandbox()
    stack = facts.stack
    connects = stack == "bwrap" and facts.notifies  # without both, to no Unix socket
    sockets = allowed_sockets(spec.limits.unix_sockets) if connects else ()
    if spec.proxy.ca_bundle:
        read = (*read, spec.proxy.ca_bundle)
    read = (*read, *spec.copy.shows)  # installed packages and git's objects lie there
    # its hooks must find their scripts, wherever the person's configuration lies
    read = (*read, *{hook.plugin: "" for hook in spec.inherited.hooks if hook.plugin})
    plan = plan_sandbox(
        _with_network(spec, policy, extra),
        cwd=cwd,
        tmp_dir=private_tmp(spec, stack) or None,
        extra_roots=tuple(path for path in write if is_in_copy(spec, path)),
        extra_readable=read,
        hidden_paths=spec.guarded.hidden_paths,
        sockets=sockets,
        stack=stack,
        proxied=spec.limits.network,
    )
    _check_copy(spec, plan)
    ca_bundle = spec.proxy.ca_bundle if plan.proxied else ""
    plan = msgspec.structs.replace(plan, ca_bundle=ca_bundle, since_s=spec.run_began_s)
    return (
        _with_more_protected(spec, plan) if spec.inherited.hooks or spec.guarded.protected else plan
    )


def private_tmp(spec: AgentSpec | HubSpec, stack: Stack) -> str:
    """The folder for temporary files: bubblewrap shows it as /tmp, else its own path is used."""
    return (spec.short_tmp_dir if stack == "landlock" else "") or spec.tmp_dir


def _check_copy(spec: AgentSpec, plan: SandboxPlan) -> None:
    """Raises SandboxUnavailable if a command could write past the agent's copy."""
    for path in plan.writable:
        if not is_in_copy(spec, path):
            raise SandboxUnavailable(f"{path} {NOT_IN_COPY}, so no command may write there")


def plan_hook(spec: AgentSpec, *, network: bool) -> SandboxPlan:
    """The plan for a hook of this agent: as for a command, but without network unless it asks.

    A locked role's launcher allows nothing but the role's own plan. Raises SandboxUnavailable.
    """
    policy, limits = spec.limits.sandbox, spec.limits
    if spec.role.locked or isinstance(policy, DangerFullAccess):
        return plan_command(spec, policy, spec.cwd)
    if limits.network is None:
        policy = msgspec.structs.replace(policy, network_access=network)
    elif not network:
        spec = msgspec.structs.replace(spec, limits=msgspec.structs.replace(limits, network=None))
        policy = msgspec.structs.replace(policy, network_access=False)
    return plan_command(spec, policy, spec.cwd)


def _with_more_protected(spec: AgentSpec, plan: SandboxPlan) -> SandboxPlan:
    """No command may change a script of a hook or what the run protects, or rename a folder above.

    What is itself named as a writable root is open: that is the person's own word.
    """
    named = {
        script.path for hook in spec.inherited.hooks for script in hook.scripts if script.sha256
    }
    named |= {*spec.guarded.protected, *_in_copy_tree(spec)} - set(plan.writable)
    return with_protected(plan, named)


def _in_copy_tree(spec: AgentSpec) -> Iterator[str]:
    """What is protected, in a copy of the project that is another folder: that may be merged."""
    if not spec.copy.tree:
        return
    for path in spec.guarded.protected:
        if is_within(path, spec.copy.origin):
            yield spec.copy.tree + path.removeprefix(spec.copy.origin.rstrip("/"))


def with_protected(plan: SandboxPlan, paths: Iterable[str]) -> SandboxPlan:
    """The plan, in which those of the canonical paths that exist can be read alone, nor moved."""
    found = [
        path
        for path in sorted(set(paths))
        if os.path.exists(path)  # noqa: PTH110
        and any(is_within(path, root) for root in plan.writable)
        and not any(is_within(path, shut) for shut in plan.protected)
    ]
    if not found:
        return plan
    protected = (*plan.protected, *found)
    closed = (*protected, *plan.hidden, *plan.covered)
    pinned = {*plan.pinned, *pinned_folders(plan.writable, closed=closed, others=plan.missing)}
    return msgspec.structs.replace(
        plan,
        protected=tuple(sorted(protected, key=by_depth)),
        pinned=tuple(sorted(pinned, key=by_depth)),
    )


def with_memory_limit(resources: ResourceLimits, limit_bytes: int | None) -> ResourceLimits:
    """The limits with one more on a command's memory; the smaller one counts."""
    bounds = [one for one in (resources.command_memory_bytes, limit_bytes) if one is not None]
    lowest = min(bounds, default=None)
    if lowest == resources.command_memory_bytes:
        return resources
    return msgspec.structs.replace(resources, command_memory_bytes=lowest)


def check_hidden_folders(folders: tuple[FolderIdentity, ...]) -> None:
    """Check that each path still leads to the folder that must be hidden.

    Otherwise the mask would cover the wrong folder, and the hidden one would be open under another
    path. Raises SandboxUnavailable.
    """
    for mark in folders:
        try:
            found = os.stat(mark.path)  # noqa: PTH116
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != (mark.device, mark.inode):
            raise SandboxUnavailable(
                f"{mark.path} was moved or replaced since this run began, so commands would see "
                "what is hidden there; move it back, or end the run and resume it"
            )


def check_workdir(plan: SandboxPlan, workdir: str) -> None:
    """Check that the sandbox shows the folder in which a command is to start.

    bwrap would silently start it elsewhere. Raises FolderHidden.
    """
    folder = os.path.realpath(workdir)
    shown = (*plan.visible, *plan.writable, *plan.readable)
    closing = (*plan.covered, *plan.hidden, *plan.denied)
    if folder not in plan.covered and _deepest(folder, closing) >= _deepest(folder, shown):
        raise FolderHidden(
            f"{quote_head(workdir)} cannot be seen in the sandbox; start it in another folder"
        )


def _deepest(folder: str, trees: tuple[str, ...]) -> int:
    """The length of the longest of `trees` that contains `folder`; 0 if none does."""
    return max((len(tree) for tree in trees if is_within(folder, tree)), default=0)


def _with_network(
    spec: AgentSpec, policy: SandboxPolicy, extra: ExtraPermissions | None
) -> SandboxPolicy:
    """The policy with network access if that was granted; a run with a proxy keeps to its proxy."""
    if extra is None or not extra.network or spec.limits.network is not None:
        return policy
    if isinstance(policy, DangerFullAccess):
        return policy
    return msgspec.structs.replace(policy, network_access=True)


def _paths_of(extra: ExtraPermissions | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return ((), ()) if extra is None else (extra.write, extra.read)


def _unmoved(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path for path in paths if os.path.realpath(path) == path)


CORE_VARIABLES = frozenset(
    "PATH SHELL TMPDIR TEMP TMP HOME LANG LC_ALL LC_CTYPE LOGNAME USER".split()  # noqa: SIM905
)
# Settings for a program without a user: no paging, no editor, no colour, a fixed language.
FORCED_VARIABLES: dict[str, str] = {
    "NO_COLOR": "1",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "LC_CTYPE": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "COLORTERM": "",
    **UNATTENDED_VARIABLES,
    "SWARM_CI": "1",
}

# LD_PRELOAD, LD_AUDIT and the like; files that a shell reads by itself; functions that shadow
# commands. LD_LIBRARY_PATH stays: compilers and GPU tools need it, and it names folders, not code
# to run.
_CODE_INJECTING = re.compile(
    r"(?!LD_LIBRARY_PATH$)(?:LD_.*|DYLD_.*|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS4"
    r"|GCONV_PATH|BASH_FUNC_.*)",
    re.DOTALL,
)
_SETTABLE = re.compile(r"[^=\0]+")


def command_environment(
    base: Mapping[str, str], policy: ShellEnvironmentPolicy, extra: Mapping[str, str]
) -> dict[str, str]:
    """Build the environment of a command.

    Args:
        base: The environment to inherit from, already without any provider's key.
        policy: Applied in the order inherit → default excludes → exclude → set → include_only.
        extra: Swarm's own marks and forced values; no rule of the policy drops them.

    Returns:
        A new dict. A variable that runs code before the command is kept only if the user wrote its
        name in `set`: that is their own decision.
    """
    inherited = {name: value for name, value in base.items() if _is_inherited(name, policy)}
    if not policy.ignore_default_excludes:
        inherited = {
            name: value for name, value in inherited.items() if not holds_secret(name, value)
        }
    inherited = _without(inherited, policy.exclude)
    chosen = {**inherited, **policy.set}
    if policy.include_only:
        keep = _matcher(tuple(policy.include_only))
        chosen = {name: value for name, value in chosen.items() if keep.fullmatch(name)}
    chosen.update(extra)
    return {
        name: value
        for name, value in chosen.items()
        if _SETTABLE.fullmatch(name) and "\0" not in value
    }


def _is_inherited(name: str, policy: ShellEnvironmentPolicy) -> bool:
    if name in FOR_A_PERSON or _CODE_INJECTING.fullmatch(name):
        return False
    match policy.inherit:
        case "all":
            return True
        case "core":
            return name in CORE_VARIABLES
        case _:  # "none", and any unknown value: inherit nothing
            return False


def _without(variables: dict[str, str], patterns: Iterable[str]) -> dict[str, str]:
    drop = _matcher(tuple(patterns))
    return {name: value for name, value in variables.items() if not drop.fullmatch(name)}


@lru_cache(maxsize=64)
def _matcher(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Match whole names, any case; `*` is any run, `?` one character; no patterns match nothing."""
    if not patterns:
        return re.compile(r"(?!)")
    words = (re.escape(one).replace(r"\*", ".*").replace(r"\?", ".") for one in patterns)
    return re.compile("|".join(words), re.IGNORECASE | re.DOTALL)
