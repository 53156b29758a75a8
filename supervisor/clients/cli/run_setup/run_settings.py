"""Merges the layers of a run (files, role, task file, `-c`, flags) into one typed configuration.

Precedence for every key: built-in < system < user < profile < project < role < task file < `-c` <
flags.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.model_reference import SCRIPTED
from swarm.mailbox.base.safe_open import read_user_file
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.config.file_reading import FILE_BYTES
from swarm.roles.config.layers.config_loader import LoadedConfig, load_config
from swarm.roles.config.layers.features import feature_overrides
from swarm.roles.config.layers.layer_paths import absolute_paths, scripted_path
from swarm.roles.config.layers.merge import Layer, merge_layers, merge_tables, parse_override
from swarm.roles.config.layers.project_servers import without_known_servers
from swarm.roles.config.layers.requirements import Requirements
from swarm.roles.config.mcp_table import read_mcp_json
from swarm.roles.config.part_keys import notify_variables
from swarm.roles.config.schema import Config, Toml
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import REVIEW_ROLE, Roles, apply_review_model, find_role, load_roles

from ....parts.part_setup import part_key_variables
from ....runs.paths import find_user_paths
from .config_layers import AskTrust, ConfigQuery, find_layers
from .options import RunOptions
from .run_requirements import find_requirements
from .task_file import FrontMatter, NetworkTaskTable, Task

BUILT_IN_KEYS = ("OPENAI_API_KEY", "OPENAI_ORGANIZATION", "OPENAI_PROJECT", "ANTHROPIC_API_KEY")
ROLE_LAYER = "role "  # before the name of the root's role
_REVIEWERS = {"person": "user", "guardian": "auto_review", "nobody": "nobody"}


class RunSettings(Value):
    """A task and all settings for running it."""

    task: Task
    cwd: str
    config_folder: str
    loaded: LoadedConfig
    roles: Roles
    role: Role
    key_variables: tuple[str, ...]

    @property
    def config(self) -> Config:
        return self.loaded.config


def load_settings(
    options: RunOptions, task: Task, environment: Mapping[str, str], *, ask: AskTrust | None = None
) -> RunSettings:
    """Read the configuration for a run; `ask` asks whether to trust the project.

    Raises UsageError with file, line and key.
    """
    cwd = find_cwd(options.cd)
    folder = find_user_paths(dict(environment)).config
    switches = feature_overrides(options.enable, options.disable)
    override = override_layer((*options.config, *switches), cwd)
    wanted = ConfigQuery(
        cwd=cwd, profile=options.profile, flags=override.values, trust_once=options.trust_once
    )
    files = find_layers(environment, wanted, ask=ask)
    required = find_requirements(environment)
    roles = load_roles((*files, override), required)
    role = find_role(roles, options.role or task.front.role or "default")
    files = (*files, *mcp_file_layers(options.mcp_config, files))
    layers = (*files, role_layer(role), task_layer(task), override, flag_layer(options))
    loaded = load_config(layers, strict=options.strict_config, requirements=required)
    if (model := _review_model(loaded.config, required)) is not None:
        roles = apply_review_model(roles, model)
        if role.model is None and (options.reviews or role.name == REVIEW_ROLE):
            role = msgspec.structs.replace(role, model=model)
            layers = (*files, role_layer(role), *layers[-3:])
            loaded = load_config(layers, strict=options.strict_config, requirements=required)
    return RunSettings(
        task=task,
        cwd=str(cwd),
        config_folder=str(folder),
        loaded=loaded,
        roles=roles,
        role=role,
        key_variables=key_variables(loaded.config),
    )


def load_config_here(
    overrides: tuple[str, ...] = (),
    *,
    profile: str | None = None,
    flags: Layer | None = None,
    lenient: bool = False,
) -> LoadedConfig:
    """The configuration of a run that is started in this folder; nobody is asked about trust.

    With `lenient` a faulty layer is left out and reported. Raises UsageError.
    """
    cwd = find_cwd(None)
    override = override_layer(overrides, cwd)
    files = find_layers(os.environ, ConfigQuery(cwd=cwd, profile=profile, flags=override.values))
    layers = (*files, override, flags or Layer(name="flags"))
    return load_config(layers, lenient=lenient, requirements=find_requirements(os.environ))


def _review_model(config: Config, required: Requirements) -> str | None:
    """A model that is required of every agent is also the reviewer's model."""
    return None if required.pins.get("model") is not None else config.review_model


def find_cwd(wanted: str | None) -> Path:
    """The agents' working folder: absolute, existing. Raises UsageError."""
    try:
        folder = Path(wanted).absolute() if wanted else Path.cwd()
    except OSError as error:
        raise UsageError(f"the current folder is gone: {error.strerror}") from error
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise UsageError(f"{folder}: you may not read this folder; agents would not see it either")
    return Path(os.path.normpath(folder))


def override_layer(overrides: tuple[str, ...], cwd: Path) -> Layer:
    """All `-c key=value`, left to right, as one layer."""
    values: Toml = {}
    for raw in overrides:
        values = merge_tables(values, parse_override(raw))
    return Layer(name="-c", values=absolute_paths(values, cwd))


def mcp_file_layers(path: str | None, files: Sequence[Layer]) -> tuple[Layer, ...]:
    """The servers of `--mcp-config FILE`, above the layers of files; no FILE, no layer.

    As those of a project they never replace a server that is configured, and stay in the sandbox.
    Raises UsageError.
    """
    if path is None:
        return ()
    name = str(Path(path).absolute())
    try:
        data = read_user_file(name, most_bytes=FILE_BYTES)
    except OSError as error:
        raise UsageError(f"--mcp-config {name}: {error.strerror}") from error
    values: Toml = {"mcp_servers": read_mcp_json(data, name)}
    # without a source: no rules and no roles are read from the folder of such a file
    values = absolute_paths(values, Path(name).parent)
    layer = Layer(name=f"--mcp-config {name}", values=values)
    return (without_known_servers(layer, merge_layers(files).values),)


def role_layer(role: Role) -> Layer:
    """What the root's role sets. Without its sandbox and approval, which only narrow."""
    values = {
        "model": role.model,
        "model_provider": role.model_provider,
        "fallback": role.fallback,
        "prompt": role.prompt or None,
        **msgspec.structs.asdict(role.sampling),
        "model_reasoning_summary": role.summary,
        "model_verbosity": role.verbosity,
        "model_context_window": role.context.window_tokens,
        "model_auto_compact_token_limit": role.context.compact_tokens,
        "compact_prompt": role.context.compact_prompt,
        "include_permissions_instructions": role.context.permissions,
        "include_environment_context": role.context.environment,
        "model_reasoning_effort": role.effort,
    }
    return Layer(name=f"{ROLE_LAYER}{role.name}", values=_without_unset(values))


def settings_without_role(loaded: LoadedConfig) -> Config:
    """What the configuration says to agents of other roles than the root's."""
    layers = [layer for layer in loaded.layers if not layer.name.startswith(ROLE_LAYER)]
    return msgspec.convert(merge_layers(layers).values, Config)


def task_layer(task: Task) -> Layer:
    front = task.front
    values = _common(front) | {
        "model": front.model,
        "model_provider": _scripted(front.provider, Path(task.folder or ".")),
        "model_reasoning_effort": front.effort,
        "sandbox_mode": front.sandbox,
        "deadline": front.deadline,
        "wait_for_limit": front.wait_for_limit,
        "network": None if front.network is None else _network(front.network),
        "budget": _without_unset(
            {name: getattr(front.budget, name, None) for name in ("tokens", "usd", "requests")}
        ),
    }
    return Layer(name=f"task file {task.name}", values=_without_unset(values))


def flag_layer(options: RunOptions) -> Layer:
    values = _common(options) | {
        "model": options.model,
        "model_provider": _scripted(options.provider, Path()),
        "model_reasoning_effort": options.effort,
        "sandbox_mode": options.sandbox,
        "deadline": options.deadline,
        "wait_for_limit": options.wait_for_limit,
        "network": _network(NetworkTaskTable(allow=options.allow_domain))
        if options.allow_domain
        else None,
        "budget": _without_unset(
            {
                "tokens": options.budget_tokens,
                "usd": options.budget_usd,
                "requests": options.budget_requests,
            }
        ),
    }
    return Layer(name="flags", values=_without_unset(values))


def _common(given: FrontMatter | RunOptions) -> Toml:
    threads = None if given.max_agents is None else given.max_agents - 1
    return {
        "approval_policy": given.approval,
        "approvals_reviewer": _REVIEWERS.get(given.reviewer or ""),
        "allow_commit": given.allow_commit,
        "merge": given.merge,
        "agents": _without_unset(
            {
                "max_threads": threads,
                "max_depth": given.max_depth,
                "max_total": given.max_spawns,
            }
        ),
    }


def _network(front: NetworkTaskTable) -> Toml:
    """Switches the proxy on and adds these hosts to those of the lower layers."""
    hosts: dict[str, object] = dict.fromkeys(front.allow, "allow")
    return {"enabled": True, "domains": hosts | dict.fromkeys(front.deny, "deny")}


def _without_unset(values: Mapping[str, object]) -> Toml:
    return {key: value for key, value in values.items() if value is not None and value != {}}


def _scripted(provider: str | None, folder: Path) -> str | None:
    """`scripted:FILE` with an absolute path, independent of the working folder."""
    found = None if provider is None else scripted_path(provider, folder.absolute())
    if found is not None and found.startswith(SCRIPTED):
        path = Path(found.removeprefix(SCRIPTED))
        if not path.is_file():
            raise UsageError(f"provider {provider}: there is no file {path}")
    return found


def key_variables(config: Config) -> tuple[str, ...]:
    """Variables that hold keys; they leave the environment before anything is started."""
    names: list[str] = [*BUILT_IN_KEYS]
    for provider in config.model_providers.values():
        names += [provider.env_key] if provider.env_key else []
        names += (*provider.env_http_headers.values(), *part_key_variables(provider))
    names += notify_variables(config)
    return tuple(dict.fromkeys(names))
