"""Administrator requirements: allowed values and pinned values. No I/O.

Requirements are no layer: they apply to the merged result, so no file, flag, task file or role can
loosen them. An explicit value that is not allowed is an error that names both sides; a built-in
default is replaced silently. A requirement that cannot be enforced or read stops the run.

Differs from Codex, which falls back with a warning if a file sets a forbidden value: that would
start a run with another policy than the written one, and nobody may be watching.
"""

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.rules import PrefixRule
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    AskForApproval,
    DangerFullAccess,
    ProfilePolicy,
    ReadOnly,
    SandboxPolicy,
)

from ..key_positions import KeyPath
from ..schema import Config, GranularPolicy, Toml
from .merge import MergedConfig, ValueOrigin, as_table, get_value, leaves, merge_tables

REQUIREMENTS_FILE = "requirements.toml"
SandboxModeName = Literal["read-only", "workspace-write", "danger-full-access", "external-sandbox"]
ReviewerName = Literal["user", "auto_review", "nobody"]
# Returns `FILE, line N, KEY` of an effective value; or its layer and KEY.
DescribePlace = Callable[[KeyPath], str]
_UNSANDBOXED_MODE = "danger-full-access"


class NetworkRequirements(Value):
    """`experimental_network`, as far as it can be enforced here."""

    enabled: bool | None = None
    domains: dict[str, Literal["allow", "deny"]] = {}
    managed_only: bool = False
    allow_local_binding: bool | None = None
    allow_upstream_proxy: bool | None = None
    # the widest list that can be allowed
    sockets: dict[str, Literal["allow", "none"]] | None = None
    all_sockets: bool | None = None


class McpIdentity(Value, forbid_unknown_fields=True):
    """What an allowed MCP server runs or connects to; exactly one of the two counts."""

    command: str | None = None
    url: str | None = None


class Requirements(Value):
    """All sources together; each field is from the first source that sets it.

    `places` gives the place of each key of the file, and of each key below it: `FILE, line N`.
    """

    approvals: tuple[AskForApproval | GranularPolicy, ...] | None = None
    reviewers: tuple[ReviewerName, ...] | None = None
    sandbox_modes: tuple[SandboxModeName, ...] | None = None
    profiles: tuple[str, ...] | None = None
    web_search: tuple[str, ...] | None = None
    features: dict[str, bool] = {}
    prefix_rules: tuple[PrefixRule, ...] = ()
    network: NetworkRequirements | None = None
    deny_read: tuple[str, ...] = ()
    mcp_servers: dict[str, McpIdentity] | None = None  # None: any
    managed_hooks_only: bool = False
    plugins: tuple[str, ...] | None = None  # ids; None: any
    plugin_marketplaces: tuple[str, ...] | None = None  # sources; None: any
    reviewer_policy: str | None = None
    pins: Toml = {}
    places: dict[str, str] = {}
    broken: str = ""  # why a source could not be read; no run starts then

    def place(self, key: str) -> str:
        """The place of a key, else of the table that holds it."""
        return self.places.get(key) or self.places.get(key.partition(".")[0], REQUIREMENTS_FILE)

    @property
    def sandbox_required(self) -> str:
        """Why no command may run without a sandbox; "" if one may."""
        if self.deny_read:
            key = "permissions"
        elif self.network is not None and self.network.enabled:
            key = "experimental_network"
        else:
            return ""
        return f"{self.place(key)}: {key} can only be kept in a sandbox, so nothing runs without"


NO_REQUIREMENTS = Requirements()


def apply_requirements(
    merged: MergedConfig, config: Config, required: Requirements, where: DescribePlace
) -> MergedConfig:
    """Apply the requirements to the merged values.

    Args:
        merged: The merged values of all layers.
        config: The same values with types.
        required: The requirements.
        where: Describes the place of a value that is not allowed.

    Raises:
        UsageError: An explicit value is not allowed.
    """
    if required.broken:
        raise UsageError(required.broken)
    forced: list[tuple[KeyPath, object, str]] = []  # path, value, key of the requirement
    for key, allowed, fallback in _choices(config, required):
        demand, given = _REQUIREMENT_KEYS[key], get_value(merged.values, (key,))
        if given is None:
            if fallback is not None:
                forced.append(((key,), fallback, demand))
        elif not allowed(given):
            raise UsageError(_refusal(where((key,)), given, required, demand))
    _check_sandbox_required(config, required, where)
    _check_profile(merged, config, required, where)
    forced += _pinned(merged, required, where)
    forced += _network(merged, required, where)
    forced += [
        (("features", name), on, f"features.{name}") for name, on in required.features.items()
    ]
    for path, value, key in forced:
        merged = _with_value(merged, path, value, required.place(key))
    return merged


_REQUIREMENT_KEYS = {
    "approval_policy": "allowed_approval_policies",
    "approvals_reviewer": "allowed_approvals_reviewers",
    "sandbox_mode": "allowed_sandbox_modes",
    "default_permissions": "allowed_permission_profiles",
    "web_search": "allowed_web_search_modes",
}


def _choices(
    config: Config, required: Requirements
) -> Iterator[tuple[str, Callable[[object], bool], object]]:
    """(key, predicate for allowed values, default when nothing is set; None: no default)."""
    if required.approvals is not None:
        first = msgspec.to_builtins(required.approvals[0])
        default_stays = Config().approval_policy in required.approvals
        yield (
            "approval_policy",
            lambda _: config.approval_policy in (required.approvals or ()),
            (None if default_stays else first),
        )
    if required.reviewers is not None:
        only = [word for word in required.reviewers if word != "nobody"]
        yield "approvals_reviewer", lambda word: _reviewer(word) in (
            *(required.reviewers or ()), "nobody",  # it asks nobody, so it grants nothing
        ), (only[0] if len(only) == 1 else None if only else "nobody")  # fmt: skip
    if required.sandbox_modes is not None:
        modes = required.sandbox_modes
        stays = Config().sandbox_mode in modes
        yield "sandbox_mode", lambda word: word in modes, None if stays else "read-only"
    if required.profiles is not None:
        profiles = required.profiles
        yield "default_permissions", lambda word: word in profiles, None
    if required.web_search is not None:
        searches = (*required.web_search, "disabled")
        yield "web_search", lambda word: word in searches, None


def _reviewer(word: object) -> object:
    return "auto_review" if word == "guardian_subagent" else word


def _check_sandbox_required(config: Config, required: Requirements, where: DescribePlace) -> None:
    if (why := required.sandbox_required) and config.sandbox_mode == _UNSANDBOXED_MODE:
        raise UsageError(
            f"{where(('sandbox_mode',))} = {_shown(_UNSANDBOXED_MODE)} is not allowed: {why}"
        )


def _check_profile(
    merged: MergedConfig, config: Config, required: Requirements, where: DescribePlace
) -> None:
    """Check the chosen permission profile against the allowed sandbox modes.

    A profile may allow more than any mode, and its author chooses its name. So if modes are
    limited, the profile must be built in, or listed and defined only by the administrator.
    """
    name, modes = config.default_permissions, required.sandbox_modes
    if name is None or modes is None or _UNSANDBOXED_MODE in modes:
        return
    key = "allowed_sandbox_modes"
    if (mode := _PROFILE_MODES.get(name)) is not None:
        if mode not in modes:
            raise UsageError(_refusal(where(("default_permissions",)), name, required, key))
        return
    origin = merged.origin(("permissions", name))
    written_here = origin is not None and origin.layer == "system"
    if name not in (required.profiles or ()) or not written_here:
        place = f"{where(('default_permissions',))} = {_shown(name)}"
        raise UsageError(
            f"{place} is not allowed: {required.place(key)}, {key}: beside it a profile counts "
            "only where allowed_permission_profiles lists it and the system's file alone defines it"
        )


_PROFILE_MODES = {
    ":read-only": "read-only",
    ":workspace": "workspace-write",
    ":danger-full-access": _UNSANDBOXED_MODE,
    ":danger-no-sandbox": _UNSANDBOXED_MODE,
}


def _pinned(
    merged: MergedConfig, required: Requirements, where: DescribePlace
) -> Iterator[tuple[KeyPath, object, str]]:
    for path, value in leaves(required.pins):
        key, given = ".".join(("pins", *path)), get_value(merged.values, path)
        if given is not None and given != value:
            raise UsageError(
                f"{where(path)} = {_shown(given)} is not allowed: {required.place(key)} pins it to "
                f"{_shown(value)}"
            )
        yield path, value, key
    text = required.reviewer_policy
    if text is not None:
        given = get_value(merged.values, ("auto_review", "policy"))
        if given is not None and given != text:
            raise UsageError(
                f"{where(('auto_review', 'policy'))} is not allowed: "
                f"{required.place('guardian_policy_config')} sets the reviewer's policy"
            )
        yield ("auto_review", "policy"), text, "guardian_policy_config"


def _network(
    merged: MergedConfig, required: Requirements, where: DescribePlace
) -> Iterator[tuple[KeyPath, object, str]]:
    """Force the proxy's switches and lists; only permitted additions are accepted."""
    demand = required.network
    if demand is None:
        return
    key = "experimental_network"
    for name in ("enabled", "allow_local_binding", "allow_upstream_proxy"):
        wanted = getattr(demand, name)
        given = get_value(merged.values, ("network", name))
        if wanted is None:
            continue
        if given is not None and given != wanted:
            raise UsageError(_refusal(where(("network", name)), given, required, key))
        yield ("network", name), wanted, f"{key}.{name}"
    for pattern, word in as_table(get_value(merged.values, ("network", "domains"))).items():
        fixed = demand.domains.get(pattern)
        if (demand.managed_only and word == "allow" and fixed != "allow") or (
            fixed == "deny" and word != "deny"
        ):
            raise UsageError(_refusal(where(("network", "domains", pattern)), word, required, key))
    for pattern, word in demand.domains.items():
        if get_value(merged.values, ("network", "domains", pattern)) != "deny":
            yield ("network", "domains", pattern), word, f"{key}.domains.{pattern}"
    yield from _sockets(merged, demand, required, where)


def _sockets(
    merged: MergedConfig, demand: NetworkRequirements, required: Requirements, where: DescribePlace
) -> Iterator[tuple[KeyPath, object, str]]:
    """Check and force the sockets: the list always applies, and nobody may allow more."""
    key, path = "experimental_network", ("network", "dangerously_allow_all_unix_sockets")
    listed = demand.sockets is not None
    if get_value(merged.values, path) is True and (
        demand.all_sockets is False or (listed and not demand.all_sockets)
    ):
        raise UsageError(_refusal(where(path), True, required, key))
    table = ("network", "unix_sockets")
    for name, word in as_table(get_value(merged.values, table)).items():
        fixed = (demand.sockets or {}).get(name)
        if word == "allow" and listed and fixed != "allow":
            raise UsageError(_refusal(where((*table, name)), word, required, key))
    for name, word in (demand.sockets or {}).items():
        if get_value(merged.values, (*table, name)) != "none":
            yield (*table, name), word, f"{key}.unix_sockets.{name}"


def _with_value(merged: MergedConfig, path: KeyPath, value: object, place: str) -> MergedConfig:
    """Set the value; if it changed, the requirement becomes its origin."""
    if get_value(merged.values, path) == value:
        return merged
    nested = value
    for step in reversed(path):
        nested = {step: nested}
    table = as_table(nested)
    file, _, line = place.rpartition(", line ")
    origin = ValueOrigin(layer="requirements", file=file, line=int(line) if line.isdigit() else 0)
    kept = {old: one for old, one in merged.origins.items() if old[: len(path)] != path}
    new = {leaf: origin for leaf, _ in leaves(table)}
    return MergedConfig(values=merge_tables(merged.values, table), origins={**kept, **new})


def _refusal(place: str, given: object, required: Requirements, key: str) -> str:
    allowed = {
        "allowed_approval_policies": required.approvals,
        "allowed_approvals_reviewers": required.reviewers,
        "allowed_sandbox_modes": required.sandbox_modes,
        "allowed_permission_profiles": required.profiles,
        "allowed_web_search_modes": required.web_search,
    }.get(key)
    text = f" allows only {', '.join(map(_shown, allowed))}" if allowed is not None else " forbids"
    return f"{place} = {_shown(given)} is not allowed: {required.place(key)}, {key}{text}"


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else text[:199] + "…"


def role_refusal(
    approval: str | None,
    mode: str | None,
    model: str | None,
    required: Requirements,
    *,
    provider: str | None = None,
) -> str | None:
    """Why a role with these settings may not be used; None if it may."""
    if (
        approval is not None
        and required.approvals is not None
        and approval not in required.approvals
    ):
        return _refusal("approval_policy", approval, required, "allowed_approval_policies")
    if (
        mode is not None
        and required.sandbox_modes is not None
        and mode not in required.sandbox_modes
    ):
        return _refusal("sandbox_mode", mode, required, "allowed_sandbox_modes")
    pinned = required.pins.get("model")
    if model is not None and pinned is not None and model != pinned:
        place = required.place("pins.model")
        return f'model = "{model}" is not allowed: {place} pins it to {_shown(pinned)}'
    pinned = required.pins.get("model_provider")
    if provider is not None and pinned is not None and provider != pinned:
        place = required.place("pins.model_provider")
        return f'model_provider = "{provider}" is not allowed: {place} pins it to {_shown(pinned)}'
    return None


def sandbox_refusal(policy: SandboxPolicy, required: Requirements) -> str | None:
    """Why commands may not get this sandbox, whatever chose it; None if they may."""
    match policy:
        case DangerFullAccess():
            mode = _UNSANDBOXED_MODE
        case ReadOnly():
            return None
        case ProfilePolicy(rules=rules) if not any(rule.access == "write" for rule in rules):
            return None
        case _:
            mode = "workspace-write"
    if required.sandbox_modes is not None and mode not in required.sandbox_modes:
        return _refusal("sandbox", mode, required, "allowed_sandbox_modes")
    if mode == _UNSANDBOXED_MODE and (why := required.sandbox_required):
        return f"sandbox = {_shown(mode)} is not allowed: {why}"
    return None
