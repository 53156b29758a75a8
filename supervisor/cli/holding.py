"""A run held to the administrator's requirements, when it starts and whenever it goes on.

Guards: what reaches the supervisor is within the requirements of today, whatever the configuration,
a role, or the request that was saved says. Nothing here ever widens a request.
"""

import glob
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.limits import (
    DangerFullAccess,
    Granular,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from swarm.mailbox.protocol.rules import Rules
from swarm.roles.config.load import read_requirements
from swarm.roles.config.merge import leaves
from swarm.roles.config.paths import is_list
from swarm.roles.config.positions import KeyPath
from swarm.roles.config.requirements import NONE, Requirements, refused_policy
from swarm.roles.config.resources import resource_limits
from swarm.roles.config.schema import GranularPolicy, LimitsTable
from swarm.roles.loader import hold_roles
from swarm.roles.narrow import without_direct_network
from swarm.roles.network import tighten_network
from swarm.roles.sockets import tighten_sockets

from ..places import find_places
from ..request import HeldChoices, RunRequest
from .memory_size import memory_bytes

MOST_DENIED = 2_000
_REVIEWERS = {"person": "user", "guardian": "auto_review", "nobody": "nobody"}
_Get = Callable[[RunRequest], object]


def find_requirements(environment: Mapping[str, str]) -> Requirements:
    """Of this machine. `broken` where they cannot be read: then nothing may start."""
    return read_requirements(find_places(dict(environment)).system)


def hold_new(request: RunRequest, held: Requirements) -> RunRequest:
    """A new run's request; its values were held to the requirements as configuration already.

    Raises UsageError for what only shows in the result.
    """
    if held == NONE:
        return request
    for policy in (request.sandbox, request.fan_sandbox):
        if policy is not None and (why := refused_policy(policy, held)) is not None:
            raise UsageError(why)
    for why in _refused_choices(request, held):
        raise UsageError(f"a run cannot start with {why}")
    model = held.pins.get("model")
    return msgspec.structs.replace(
        _held_network(request, held),
        deny_read=denied_paths(held),
        held=HeldChoices(
            model=model if isinstance(model, str) else None,
            approvals=None
            if held.approvals is None
            else tuple(one if isinstance(one, str) else "on-request" for one in held.approvals),
            sandbox_modes=held.sandbox_modes,
        ),
        sandbox_required=held.sandbox_required,
    )


def hold_saved(request: RunRequest, held: Requirements) -> RunRequest:
    """A saved request that shall go on: today's requirements bind it as they bind a new one.

    Raises UsageError that says what the run was started with, and which requirement forbids it.
    """
    request = msgspec.structs.replace(
        request, deny_read=(), held=HeldChoices(), sandbox_required=""
    )
    if held == NONE:
        return request
    if held.broken:
        raise UsageError(held.broken)
    for why in (*_refused_choices(request, held), *_refused_pins(request, held)):
        raise UsageError(f"this run was started with {why}; start it anew")
    return hold_new(
        msgspec.structs.replace(
            request, roles=hold_roles(request.roles, held), rules=hold_rules(request.rules, held)
        ),
        held,
    )


def refused_standalone(mode: str, held: Requirements, *, network: bool) -> str | None:
    """Why `swarm sandbox` may not give a command this; None if it may."""
    if held.broken:
        return held.broken
    if network and held.network is not None and held.network.enabled:
        key = "experimental_network"
        return f"--network is not allowed: {held.place(key)}, {key}: only the proxy leads out"
    policies: dict[str, SandboxPolicy] = {
        "workspace-write": WorkspaceWrite(), "danger-full-access": DangerFullAccess(),
    }  # fmt: skip
    return refused_policy(policies.get(mode, ReadOnly()), held)


def _held_network(request: RunRequest, held: Requirements) -> RunRequest:
    if held.network is None:
        return request
    if held.network.enabled:  # the proxy is the only way out, also where there is none to it
        request = msgspec.structs.replace(request, sandbox=without_direct_network(request.sandbox))
    return msgspec.structs.replace(
        request,
        network=tighten_network(request.network, held.network),
        fan_network=tighten_network(request.fan_network, held.network),
        unix_sockets=tighten_sockets(request.unix_sockets, held.network),
        fan_unix_sockets=tighten_sockets(request.fan_unix_sockets, held.network),
    )


def hold_rules(rules: Rules, held: Requirements) -> Rules:
    """A saved run's rules, and those that are required. Raises UsageError while some are broken."""
    if not held.prefix_rules:
        return rules
    if rules.broken:
        raise UsageError(f"{rules.broken}; {held.place('rules')} requires rules that can be read")
    missing = tuple(rule for rule in held.prefix_rules if rule not in rules.prefixes)
    return msgspec.structs.replace(rules, prefixes=(*rules.prefixes, *missing))


def denied_paths(held: Requirements) -> tuple[str, ...]:
    """`deny_read` as paths: what a pattern fits now, all else as it is written.

    Raises UsageError for far too many.
    """
    found: list[str] = []
    for pattern in held.deny_read:
        if glob.has_magic(pattern):
            fits = glob.iglob(pattern, recursive=True, include_hidden=True)  # noqa: PTH207
            found += islice(fits, MOST_DENIED + 1 - len(found))
        else:
            found.append(pattern)
        if len(found) > MOST_DENIED:
            raise UsageError(
                f"{held.place('permissions')}: deny_read fits more than {MOST_DENIED} paths; "
                "name the folders above them"
            )
    return tuple(dict.fromkeys(found))


def _refused_choices(request: RunRequest, held: Requirements) -> Iterator[str]:
    if held.approvals is not None and _approval(request) not in held.approvals:
        yield _forbidden(f"approval {request.approval}", held, "allowed_approval_policies")
    reviewer = _REVIEWERS[request.reviewer]
    if held.reviewers is not None and reviewer not in (*held.reviewers, "nobody"):
        yield _forbidden(f"reviewer {request.reviewer}", held, "allowed_approvals_reviewers")
    if held.reviewer_policy not in (None, request.auto_review.policy):
        yield _forbidden("another policy of the reviewer", held, "guardian_policy_config")


def _forbidden(what: str, held: Requirements, key: str) -> str:
    return f"{what}, which {held.place(key)}, {key} forbids"


def _approval(request: RunRequest) -> str | GranularPolicy:
    """In the words of the configuration. A role may have made it stricter: that is its own."""
    if request.granular is None or request.approval != "on-request":
        return request.approval
    table: dict[str, Any] = {name: getattr(request.granular, name) for name in _KINDS}
    return msgspec.convert({"granular": table}, GranularPolicy)


_KINDS = Granular.__struct_fields__
# How a saved request says what can be pinned; what it does not hold is read anew by every resume.
_PINNED: dict[KeyPath, _Get] = {
    ("model",): lambda request: request.model,
    ("model_provider",): lambda request: request.provider,
    ("allow_commit",): lambda request: request.allow_commit,
    ("agents", "max_threads"): lambda request: request.max_agents - 1,
    ("agents", "max_depth"): lambda request: request.max_depth,
    ("agents", "max_total"): lambda request: request.max_spawns,
    ("auto_review", "model"): lambda request: request.auto_review.model,
    **{("budget", name): attrgetter(f"budget.{name}") for name in ("tokens", "usd", "requests")},
    **{
        ("shell_environment_policy", name): attrgetter(f"shell_environment.{name}")
        for name in ("inherit", "ignore_default_excludes", "exclude", "include_only")
    },
}
_LIMITS = {
    "command_memory": "command_memory_bytes",
    "command_processes": "command_processes",
    "command_seconds": "command_s",
    "agent_memory": "agent_memory_bytes",
    "agent_processes": "agent_processes",
}


def _refused_pins(request: RunRequest, held: Requirements) -> Iterator[str]:
    for path, value in leaves(held.pins):
        if path[0] == "limits":
            table = msgspec.convert({path[1]: value}, LimitsTable)
            name = _LIMITS[path[1]]
            wanted = getattr(resource_limits(table, ram_bytes=memory_bytes()), name)
            own = getattr(request.resources, name)
        elif (get := _PINNED.get(path)) is not None:
            own, wanted = get(request), tuple(value) if is_list(value) else value
        else:
            continue
        if own != wanted:
            shown = msgspec.json.encode(own).decode()
            key = ".".join(path)
            yield _forbidden(f"{key} = {shown}", held, f"pins.{key}")
