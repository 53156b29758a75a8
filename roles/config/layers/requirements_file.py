"""Reads `requirements.toml`. Imported only if there is such a file.

An unknown key, or one that cannot be enforced here, is an error, so that nobody relies on a limit
that does not hold.
"""

import os
import re
import socket
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.host_patterns import InvalidHost, normalize_pattern
from swarm.mailbox.protocol.rules import PrefixRule
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import AskForApproval

from ..file_reading import decode_text, parse_toml
from ..key_positions import KeyPath
from ..schema import GranularPolicy, Toml
from .layer_check import check_layer, error_at, explain_error, find_key_position
from .merge import Layer, leaves
from .requirements import (
    McpIdentity,
    NetworkRequirements,
    Requirements,
    ReviewerName,
    SandboxModeName,
)

_Switch = Literal["allow", "deny"]
_ALIASES = {"feature_requirements": "features"}
# Keys that a pin fixes in a run, in the agents that it starts, and after a resume.
PINNABLE = (
    "model", "model_provider", "openai_base_url", "allow_commit", "merge", "wait_for_limit",
    "agents.max_threads", "agents.max_depth", "agents.max_total",
    "budget.tokens", "budget.usd", "budget.requests",
    "limits.command_memory", "limits.command_processes", "limits.command_seconds",
    "limits.agent_memory", "limits.agent_processes", "auto_review.model",
    "shell_environment_policy.inherit", "shell_environment_policy.ignore_default_excludes",
    "shell_environment_policy.exclude", "shell_environment_policy.include_only",
)  # fmt: skip


class _Remote(Value, forbid_unknown_fields=True):
    hostname_patterns: tuple[str, ...]
    allowed_sandbox_modes: tuple[SandboxModeName, ...]


class _Element(Value, forbid_unknown_fields=True):
    token: str | None = None
    any_of: tuple[str, ...] | None = None


class _PrefixRule(Value, forbid_unknown_fields=True):
    pattern: tuple[_Element, ...]
    decision: Literal["prompt", "forbidden"]
    justification: str | None = None


class _Rules(Value, forbid_unknown_fields=True):
    prefix_rules: tuple[_PrefixRule, ...] = ()


class _Network(Value, forbid_unknown_fields=True):
    enabled: bool | None = None
    domains: dict[str, _Switch] | None = None
    allowed_domains: tuple[str, ...] | None = None
    denied_domains: tuple[str, ...] | None = None
    managed_allowed_domains_only: bool = False
    allow_local_binding: bool | None = None
    dangerously_allow_all_unix_sockets: bool | None = None
    unix_sockets: dict[str, Literal["allow", "none"]] | None = None
    allow_unix_sockets: tuple[str, ...] | None = None
    allow_upstream_proxy: bool | None = None
    # Nothing to enforce: the proxy has no ports.
    http_port: int | None = None
    socks_port: int | None = None
    dangerously_allow_non_loopback_proxy: bool | None = None


class _Filesystem(Value, forbid_unknown_fields=True):
    deny_read: tuple[str, ...] = ()


class _Permissions(Value, forbid_unknown_fields=True):
    filesystem: _Filesystem = _Filesystem()


class _McpServer(Value, forbid_unknown_fields=True):
    identity: McpIdentity


class _App(Value):
    enabled: bool = True


class RequirementsFile(Value, forbid_unknown_fields=True):
    """The file's keys: Codex's, and swarm's own `pins`."""

    allowed_approval_policies: tuple[AskForApproval | GranularPolicy, ...] | None = None
    allowed_approvals_reviewers: (
        tuple[Literal["user", "guardian_subagent", "auto_review", "nobody"], ...] | None
    ) = None
    allowed_sandbox_modes: tuple[SandboxModeName, ...] | None = None
    remote_sandbox_config: tuple[_Remote, ...] = ()
    allowed_web_search_modes: tuple[Literal["disabled", "cached", "live"], ...] | None = None
    allowed_permission_profiles: tuple[str, ...] | None = None
    features: dict[str, bool] | None = None
    feature_requirements: dict[str, bool] | None = None
    mcp_servers: dict[str, _McpServer] | None = None
    apps: dict[str, _App] | None = None  # there are none here
    rules: _Rules | None = None
    enforce_residency: str | None = None
    experimental_network: _Network | None = None
    permissions: _Permissions | None = None
    guardian_policy_config: str | None = None
    allow_managed_hooks_only: bool | None = None
    allowed_plugins: tuple[str, ...] | None = None
    allowed_plugin_marketplaces: tuple[str, ...] | None = None
    pins: Toml | None = None


def read_requirements_file(path: Path, data: bytes) -> Requirements:
    """Parse one file. Raises UsageError with file, line and key."""
    text = decode_text(data, path)
    layer = Layer(name="requirements", source=str(path), text=text, values=parse_toml(text, path))
    known = RequirementsFile.__struct_fields__
    for key in layer.values:
        if key not in known:
            raise error_at(layer, (key,), f"unknown requirement; known are {', '.join(known)}")
    try:
        file = msgspec.convert(layer.values, RequirementsFile)
    except msgspec.ValidationError as error:
        raise UsageError(explain_error(layer, error, kind=RequirementsFile)) from error
    found = _translate(file, layer)
    paths = [(key,) for key in layer.values] + [path for path, _ in leaves(layer.values)]
    places = {
        ".".join((_ALIASES.get(path[0], path[0]), *path[1:])): _place(layer, path) for path in paths
    }
    if found.sandbox_modes is not None and found.sandbox_modes != file.allowed_sandbox_modes:
        places["allowed_sandbox_modes"] = places["remote_sandbox_config"]
    return msgspec.structs.replace(found, places=places)


def _place(layer: Layer, path: KeyPath) -> str:
    place = find_key_position(layer, path)
    return f"{layer.source}, line {place.line}" if place else layer.source


def _translate(file: RequirementsFile, layer: Layer) -> Requirements:
    if file.enforce_residency is not None:
        raise error_at(
            layer, "enforce_residency", "cannot be honoured: no provider here promises it"
        )
    for key in ("allowed_approval_policies", "allowed_permission_profiles"):
        if getattr(file, key) == ():
            raise error_at(layer, key, f"field `{key}` cannot be empty")
    if file.features is not None and file.feature_requirements is not None:
        raise error_at(layer, "feature_requirements", "the same as `features`; give one of them")
    modes = _sandbox_modes(file, layer)
    deny_read = file.permissions.filesystem.deny_read if file.permissions else ()
    for path in deny_read:
        if not path.startswith("/") or ".." in path.split("/"):
            raise error_at(layer, "permissions.filesystem.deny_read", f"{path!r} must be absolute")
    return Requirements(
        approvals=file.allowed_approval_policies,
        reviewers=_reviewers(file.allowed_approvals_reviewers),
        sandbox_modes=modes,
        profiles=file.allowed_permission_profiles,
        web_search=file.allowed_web_search_modes,
        features=file.features or file.feature_requirements or {},
        plugins=file.allowed_plugins,
        plugin_marketplaces=file.allowed_plugin_marketplaces,
        prefix_rules=_prefix_rules(file.rules, layer),
        network=_network(file.experimental_network, layer),
        deny_read=deny_read,
        mcp_servers=None
        if file.mcp_servers is None
        else {name: one.identity for name, one in file.mcp_servers.items()},
        reviewer_policy=file.guardian_policy_config,
        managed_hooks_only=bool(file.allow_managed_hooks_only),
        pins=_pins(file.pins, layer),
    )


def _reviewers(names: tuple[str, ...] | None) -> tuple[ReviewerName, ...] | None:
    if names is None:
        return None
    known: dict[str, ReviewerName] = {
        "user": "user", "nobody": "nobody",
        "auto_review": "auto_review", "guardian_subagent": "auto_review",
    }  # fmt: skip
    return tuple(dict.fromkeys(known[name] for name in names))


def _sandbox_modes(file: RequirementsFile, layer: Layer) -> tuple[SandboxModeName, ...] | None:
    modes, key = file.allowed_sandbox_modes, "allowed_sandbox_modes"
    if file.remote_sandbox_config:
        for remote in file.remote_sandbox_config:
            if _is_here(remote.hostname_patterns):
                modes, key = remote.allowed_sandbox_modes, "remote_sandbox_config"
                break
    if modes is not None and "read-only" not in modes:
        raise error_at(layer, key, "must include `read-only`, which every run may narrow itself to")
    return modes


def _is_here(patterns: tuple[str, ...]) -> bool:
    """True if this host's short or full name matches; `*` and `?` match any characters."""
    names = {os.uname().nodename, socket.getfqdn()}
    plain = [re.sub(r"\[", "[[]", pattern.lower()) for pattern in patterns]
    return any(
        fnmatchcase(name.lower().rstrip("."), pattern) for name in names for pattern in plain
    )


def _prefix_rules(rules: _Rules | None, layer: Layer) -> tuple[PrefixRule, ...]:
    found: list[PrefixRule] = []
    for rule in rules.prefix_rules if rules else ():
        pattern: list[tuple[str, ...]] = []
        for one in rule.pattern:
            alternatives = one.any_of if one.token is None else (one.token,)
            if (one.token is None) == (one.any_of is None) or not alternatives:
                raise error_at(
                    layer,
                    ("rules", "prefix_rules", "pattern"),
                    "each element is either `token` or a non-empty `any_of`",
                )
            pattern.append(alternatives)
        if not pattern:
            raise error_at(layer, ("rules", "prefix_rules", "pattern"), "cannot be empty")
        found.append(
            PrefixRule(
                pattern=tuple(pattern), decision=rule.decision, justification=rule.justification
            )
        )
    return tuple(found)


def _network(table: _Network | None, layer: Layer) -> NetworkRequirements | None:
    if table is None:
        return None
    key = "experimental_network"
    lists = (table.allowed_domains, table.denied_domains)
    if table.domains is not None and lists != (None, None):
        raise error_at(layer, key, "give `domains`, or `allowed_domains` and `denied_domains`")
    if table.unix_sockets is not None and table.allow_unix_sockets is not None:
        raise error_at(layer, key, "give `unix_sockets` or `allow_unix_sockets`")
    domains: dict[str, _Switch] = dict(table.domains or {})
    domains |= dict.fromkeys(table.allowed_domains or (), "allow")
    domains |= dict.fromkeys(table.denied_domains or (), "deny")
    for pattern, word in domains.items():
        try:
            normalize_pattern(pattern, denies=word == "deny")
        except InvalidHost as error:
            raise error_at(layer, (key, "domains"), str(error)) from error
    return NetworkRequirements(
        enabled=table.enabled,
        domains=domains,
        managed_only=table.managed_allowed_domains_only,
        allow_local_binding=table.allow_local_binding,
        allow_upstream_proxy=table.allow_upstream_proxy,
        sockets=_sockets(table, layer),
        all_sockets=table.dangerously_allow_all_unix_sockets,
    )


def _sockets(table: _Network, layer: Layer) -> dict[str, Literal["allow", "none"]] | None:
    if table.unix_sockets is None and table.allow_unix_sockets is None:
        return None
    listed: dict[str, Literal["allow", "none"]] = dict(table.unix_sockets or {})
    listed |= dict.fromkeys(table.allow_unix_sockets or (), "allow")
    for path in listed:
        if not path.startswith("/"):
            raise error_at(layer, ("experimental_network",), f"`{path}` is not an absolute path")
    return listed


def _pins(pins: Toml | None, layer: Layer) -> Toml:
    """Check the pins as a configuration of their own. Raises UsageError."""
    if not pins:
        return {}
    for path, _ in leaves(pins):
        if ".".join(path) not in PINNABLE:
            raise error_at(
                layer, ("pins", *path), f"cannot be pinned; these can: {', '.join(PINNABLE)}"
            )
    check_layer(Layer(name="pins", source=layer.source, values=pins))
    return pins


def fill_unset(first: Requirements, second: Requirements) -> Requirements:
    """Each key from the first source that sets it."""
    places: Mapping[str, str] = {**second.places, **first.places}
    changes: dict[str, object] = {"places": dict(places)}
    for key, field in _FIELDS.items():
        if key not in first.places and key in second.places:
            changes[field] = getattr(second, field)
    # by name, which a test compares with the struct's
    return msgspec.structs.replace(first, **changes)  # type: ignore[arg-type]


_FIELDS = {
    "allowed_approval_policies": "approvals",
    "allowed_approvals_reviewers": "reviewers",
    "allowed_sandbox_modes": "sandbox_modes",
    "allowed_permission_profiles": "profiles",
    "allowed_web_search_modes": "web_search",
    "features": "features",
    "rules": "prefix_rules",
    "experimental_network": "network",
    "permissions": "deny_read",
    "guardian_policy_config": "reviewer_policy",
    "pins": "pins",
    "allowed_plugins": "plugins",
    "allowed_plugin_marketplaces": "plugin_marketplaces",
}
