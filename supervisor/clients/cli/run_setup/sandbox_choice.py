"""Chooses the sandbox of a run, before roles narrow it: a sandbox mode or a permission profile.

The highest layer that names a mode or a profile decides which of the two counts.
"""

import os
from pathlib import Path

import click
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from swarm.roles.config.layers.config_loader import LoadedConfig, load_config
from swarm.roles.config.layers.merge import Layer, MergedConfig, as_table
from swarm.roles.config.layers.requirements import sandbox_refusal
from swarm.roles.config.schema import Config
from swarm.roles.rights.narrow import intersect_sandboxes
from swarm.roles.rights.permission_profiles import (
    ProfileContext,
    ResolvedProfile,
    chosen_profile,
    resolve_profile,
)

from .config_layers import ConfigQuery, find_layers
from .run_requirements import find_requirements
from .run_settings import find_cwd


def resolve_run_sandbox(
    loaded: LoadedConfig, *, cwd: str, add_dirs: tuple[str, ...] = (), profile: str | None = None
) -> ResolvedProfile:
    """The sandbox of a run here. Raises UsageError for a profile that cannot be enforced.

    Args:
        loaded: All layers, merged.
        cwd: Where the agents work.
        add_dirs: Further folders of the agents, absolute.
        profile: Replaces the choice of the layers.
    """
    config, merged, required = loaded.config, loaded.merged, loaded.requirements
    name = profile or chosen_profile(loaded.layers)
    mode = sandbox_of_mode(config, add_dirs)
    if name is None:
        return ResolvedProfile(policy=mode)
    if required.profiles is not None and name not in required.profiles:
        place = required.place("allowed_permission_profiles")
        allowed = ", ".join(required.profiles)
        raise UsageError(f"permission profile {name} is not allowed: {place} allows only {allowed}")
    tables = as_table(merged.values.get("permissions"))
    granted = resolve_profile(
        name, tables, ProfileContext(cwd=cwd, roots=add_dirs, home=str(Path.home()))
    )
    if _required_value(merged, "sandbox_mode"):  # a profile must not bypass a required mode
        narrowed = intersect_sandboxes(granted.policy, mode)
        if narrowed != granted.policy:
            text = f"permission profile {name} is narrowed: {config.sandbox_mode} is required"
            granted = msgspec.structs.replace(
                granted, policy=narrowed, warnings=(*granted.warnings, text)
            )
    if (why := sandbox_refusal(granted.policy, required)) is not None:
        raise UsageError(f"permission profile {name}: {why}")
    return granted


def _required_value(merged: MergedConfig, key: str) -> str | None:
    """The value that the administrator's requirements force; None if they force none."""
    origin = merged.origins.get((key,))
    value = merged.values.get(key)
    forced = origin is not None and origin.layer == "requirements"
    return value if forced and isinstance(value, str) else None


def resolve_profile_in(name: str, folder: str) -> SandboxPolicy:
    """A profile for one command in this folder; its warnings go to stderr. Raises UsageError."""
    cwd = find_cwd(folder)
    required = find_requirements(os.environ)
    chosen = Layer(name="-P", values={"default_permissions": name})
    layers = (*find_layers(os.environ, ConfigQuery(cwd=cwd)), chosen)
    granted = resolve_run_sandbox(load_config(layers, requirements=required), cwd=str(cwd))
    for warning in granted.warnings:
        click.echo(f"swarm: warning: {warning}", err=True)
    if granted.network is not None and granted.network.enabled:
        click.echo("swarm: warning: the profile's network needs a run; here it is off", err=True)
    return granted.policy


def sandbox_of_mode(config: Config, add_dirs: tuple[str, ...]) -> SandboxPolicy:
    table = config.sandbox_workspace_write
    match config.sandbox_mode:
        case "read-only":
            return ReadOnly()
        case "danger-full-access":
            return DangerFullAccess()
        case "workspace-write":
            policy = msgspec.convert(table, WorkspaceWrite, from_attributes=True)
            roots = tuple(dict.fromkeys((*table.writable_roots, *add_dirs)))
            return msgspec.structs.replace(policy, writable_roots=roots)
