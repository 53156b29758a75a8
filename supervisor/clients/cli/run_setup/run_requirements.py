"""Applies the administrator's requirements to a run, at its start and at every resume.

The request that reaches the supervisor fulfils the present requirements, whatever the
configuration, a role or the saved request says. Nothing here widens a request.
"""

import glob
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from operator import attrgetter

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.rules import RuleSet
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    Granular,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from swarm.roles.config.key_positions import KeyPath
from swarm.roles.config.layers.config_loader import read_requirements
from swarm.roles.config.layers.layer_paths import is_list
from swarm.roles.config.layers.merge import leaves
from swarm.roles.config.layers.requirements import NO_REQUIREMENTS, Requirements, sandbox_refusal
from swarm.roles.config.resource_limits import resource_limits
from swarm.roles.config.schema import GranularPolicy, LimitsTable
from swarm.roles.config.wait_for_limit import check_wait_for_limit
from swarm.roles.rights.narrow import without_direct_network
from swarm.roles.rights.proxy_policy import apply_network_requirements
from swarm.roles.rights.unix_sockets import apply_socket_requirements
from swarm.roles.role_loader import apply_role_requirements

from ....processes.machine_state import memory_bytes
from ....request.run_request import ItemAgents, RequiredChoices, RunRequest, with_items
from ....runs.paths import find_user_paths
from .provider_use import provider_violations

MAX_DENIED_PATHS = 2_000
_REVIEWERS = {"person": "user", "guardian": "auto_review", "nobody": "nobody"}
_Get = Callable[[RunRequest], object]


def find_requirements(environment: Mapping[str, str]) -> Requirements:
    """The requirements of this machine. If `broken` is set, nothing may start."""
    return read_requirements(find_user_paths(dict(environment)).system)


def apply_requirements(request: RunRequest, required: Requirements) -> RunRequest:
    """Apply the requirements to a new run's request, whose configuration already fulfils them.

    Raises UsageError for a violation that shows only in the finished request.
    """
    if required == NO_REQUIREMENTS:
        return request
    items = None if request.fan_out is None else request.fan_out.agents.sandbox
    for policy in (request.sandbox, items):
        if policy is not None and (why := sandbox_refusal(policy, required)) is not None:
            raise UsageError(why)
    violations = (_choice_violations, provider_violations)
    for why in (text for find in violations for text in find(request, required)):
        raise UsageError(f"a run cannot start with {why}")
    model = required.pins.get("model")
    held = RequiredChoices(
        model=model if isinstance(model, str) else None,
        approvals=None
        if required.approvals is None
        else tuple(one if isinstance(one, str) else "on-request" for one in required.approvals),
        sandbox_modes=required.sandbox_modes,
    )
    hooks = request.inherited.hooks
    if required.managed_hooks_only:
        hooks = tuple(hook for hook in hooks if hook.managed)
    return msgspec.structs.replace(
        _restrict_network(request, required),
        deny_read=denied_paths(required),
        approvals=msgspec.structs.replace(request.approvals, held=held),
        inherited=msgspec.structs.replace(
            request.inherited, hooks=hooks, sandbox_required=required.sandbox_required
        ),
    )


def apply_requirements_to_saved(request: RunRequest, required: Requirements) -> RunRequest:
    """Apply the present requirements to a saved request, as to a new one.

    Raises UsageError that says what the run was started with, and which requirement forbids it.
    """
    request = msgspec.structs.replace(
        request,
        deny_read=(),
        approvals=msgspec.structs.replace(request.approvals, held=RequiredChoices()),
        inherited=msgspec.structs.replace(request.inherited, sandbox_required=""),
    )
    if required == NO_REQUIREMENTS:
        return request
    if required.broken:
        raise UsageError(required.broken)
    for why in (*_choice_violations(request, required), *_pin_violations(request, required)):
        raise UsageError(f"this run was started with {why}; start a new run")
    return apply_requirements(
        msgspec.structs.replace(
            request,
            roles=apply_role_requirements(request.roles, required),
            rules=add_required_rules(request.rules, required),
        ),
        required,
    )


def standalone_refusal(mode: str, required: Requirements, *, network: bool) -> str | None:
    """Why `swarm sandbox` may not run a command this way; None if it may."""
    if required.broken:
        return required.broken
    if network and required.network is not None and required.network.enabled:
        key = "experimental_network"
        return f"--network is not allowed: {required.place(key)}, {key}: only the proxy leads out"
    policies: dict[str, SandboxPolicy] = {
        "workspace-write": WorkspaceWrite(), "danger-full-access": DangerFullAccess(),
    }  # fmt: skip
    return sandbox_refusal(policies.get(mode, ReadOnly()), required)


def _restrict_network(request: RunRequest, required: Requirements) -> RunRequest:
    if required.network is None:
        return request
    if required.network.enabled:  # the proxy is the only way out, also for a run without one
        request = msgspec.structs.replace(request, sandbox=without_direct_network(request.sandbox))
    listed = required.network

    def restrict(items: ItemAgents) -> ItemAgents:
        return msgspec.structs.replace(
            items,
            network=apply_network_requirements(items.network, listed),
            unix_sockets=apply_socket_requirements(items.unix_sockets, listed),
        )

    request = with_items(request, restrict)
    return msgspec.structs.replace(
        request,
        network=apply_network_requirements(request.network, listed),
        unix_sockets=apply_socket_requirements(request.unix_sockets, listed),
    )


def add_required_rules(rules: RuleSet, required: Requirements) -> RuleSet:
    """A saved run's rules plus the required ones. Raises UsageError if the rules are broken."""
    if not required.prefix_rules:
        return rules
    if rules.broken:
        raise UsageError(
            f"{rules.broken}; {required.place('rules')} requires rules that can be read"
        )
    missing = tuple(rule for rule in required.prefix_rules if rule not in rules.prefixes)
    return msgspec.structs.replace(rules, prefixes=(*rules.prefixes, *missing))


def denied_paths(required: Requirements) -> tuple[str, ...]:
    """`deny_read` as paths: patterns expanded to their present matches, other entries unchanged.

    Raises UsageError if there are more than MAX_DENIED_PATHS.
    """
    found: list[str] = []
    for pattern in required.deny_read:
        if glob.has_magic(pattern):
            fits = glob.iglob(pattern, recursive=True, include_hidden=True)  # noqa: PTH207
            found += islice(fits, MAX_DENIED_PATHS + 1 - len(found))
        else:
            found.append(pattern)
        if len(found) > MAX_DENIED_PATHS:
            raise UsageError(
                f"{required.place('permissions')}: deny_read fits more than {MAX_DENIED_PATHS} "
                "paths; name the folders above them"
            )
    return tuple(dict.fromkeys(found))


def _choice_violations(request: RunRequest, required: Requirements) -> Iterator[str]:
    if required.approvals is not None and _approval(request) not in required.approvals:
        yield _forbidden(
            f"approval {request.approvals.approval}", required, "allowed_approval_policies"
        )
    reviewer = _REVIEWERS[request.approvals.reviewer]
    if required.reviewers is not None and reviewer not in (*required.reviewers, "nobody"):
        yield _forbidden(
            f"reviewer {request.approvals.reviewer}", required, "allowed_approvals_reviewers"
        )
    if required.reviewer_policy not in (None, request.approvals.auto_review.policy):
        yield _forbidden("another policy of the reviewer", required, "guardian_policy_config")


def _forbidden(what: str, required: Requirements, key: str) -> str:
    return f"{what}, which {required.place(key)}, {key} forbids"


def _approval(request: RunRequest) -> str | GranularPolicy:
    """The approval policy in the configuration's format."""
    if request.approvals.granular is None or request.approvals.approval != "on-request":
        return request.approvals.approval
    table: dict[str, object] = {name: getattr(request.approvals.granular, name) for name in _KINDS}
    return msgspec.convert({"granular": table}, GranularPolicy)


_KINDS = Granular.__struct_fields__
# How a saved request states the keys that can be pinned; other keys are read again at every resume.
_PINNED: dict[KeyPath, _Get] = {
    ("model",): lambda request: request.model_settings.model,
    ("model_provider",): lambda request: request.model_settings.provider,
    ("allow_commit",): lambda request: request.inherited.allow_commit,
    ("merge",): lambda request: request.copies.merge,
    ("agents", "max_threads"): lambda request: request.team.max_agents - 1,
    ("agents", "max_depth"): lambda request: request.team.max_depth,
    ("agents", "max_total"): lambda request: request.team.max_spawns,
    ("auto_review", "model"): lambda request: request.approvals.auto_review.model,
    **{("budget", name): attrgetter(f"budget.{name}") for name in ("tokens", "usd", "requests")},
    **{
        ("shell_environment_policy", name): attrgetter(f"inherited.shell_environment.{name}")
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


def _pin_violations(request: RunRequest, required: Requirements) -> Iterator[str]:
    for path, value in leaves(required.pins):
        if path[0] == "limits":
            table = msgspec.convert({path[1]: value}, LimitsTable)
            name = _LIMITS[path[1]]
            wanted = getattr(resource_limits(table, ram_bytes=memory_bytes()), name)
            own = getattr(request.inherited.resources, name)
        elif path == ("wait_for_limit",):
            own = request.parts.wakeups.wait_for_limit_s
            wanted = check_wait_for_limit(str(value), is_persons=False)
        elif (get := _PINNED.get(path)) is not None:
            own, wanted = get(request), tuple(value) if is_list(value) else value
        else:
            continue
        if own != wanted:
            shown = msgspec.json.encode(own).decode()
            key = ".".join(path)
            yield _forbidden(f"{key} = {shown}", required, f"pins.{key}")
