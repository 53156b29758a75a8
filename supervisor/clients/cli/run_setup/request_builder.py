"""Builds the `RunRequest` from settings: absolute paths, files read, items found, limits narrowed.

All errors of the person are reported here, before anything is started.
"""

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.own_distribution import line_for_extra, warn_of_former_name
from swarm.mailbox.base.quantities import parse_duration, parse_option
from swarm.mailbox.protocol.hooks import Hook
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.mailbox.protocol.spec import GatewaySettings, Inherited, ShellEnvironmentPolicy
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    NetworkPolicy,
    Reviewer,
    SandboxPolicy,
    opens_tunnels,
)
from swarm.roles.base.guidance import Guidance, load_guidance
from swarm.roles.config.layers.features import resolve_features
from swarm.roles.config.part_keys import turn_program
from swarm.roles.config.resource_limits import resource_limits
from swarm.roles.config.schema import AgentsTable
from swarm.roles.parts.commands.command_expansion import expand_call, find_call
from swarm.roles.rights.narrow import (
    narrow_approval,
    narrow_budget,
    narrow_role_network,
    narrow_role_sockets,
    narrow_sandbox,
    without_direct_network,
)
from swarm.roles.rights.proxy_policy import network_policy
from swarm.roles.rights.unix_sockets import run_socket_rules
from swarm.roles.role_loader import find_role
from swarm.roles.rules.rule_loader import load_layer_rules

from ....base.file_excerpts import read_excerpt, readable_below, render_excerpts
from ....parts.fan_out.glob_search import find_paths
from ....parts.part_setup import PartsWanted, with_parts
from ....processes.machine_state import memory_bytes
from ....request.run_request import ApprovalSettings, RunLifetime, RunRequest, TeamLimits
from ....runs.image_blobs import check_image
from ....runs.paths import find_user_paths
from ...console.terminal import is_ci
from .command_settings import find_run_commands
from .config_layers import writable_config_warning
from .fan_out_request import RunLines, task_folder, with_fan_out
from .hook_settings import find_run_hooks
from .isolation_choice import with_isolation
from .mcp_settings import build_mcp, check_role_servers
from .options import RunOptions
from .provider_specs import build_providers, check_provider_exists
from .provider_use import place_of_setting, plan_provider_use
from .request_parts import (
    apply_features,
    context_rules,
    guidance_rules,
    load_schema,
    review_settings,
    run_budget,
)
from .reviewer_choice import AnswerLocation, choose_reviewer
from .role_briefs import root_brief, with_run_defaults
from .run_hosts import with_hosts
from .run_requirements import apply_requirements
from .run_settings import RunSettings, settings_without_role
from .sandbox_choice import resolve_run_sandbox
from .skill_settings import find_run_skills

CONTEXT_BYTES = 512 << 10
DEFAULT_MAX_SPAWNS = 1_000
_SYSTEM_MODELS = Path("/etc/swarm/models.toml")


class PreparedRequest(Value):
    """A request without keys and environment, the variables to remove, and warnings."""

    request: RunRequest
    literal_keys: dict[str, str] = {}  # bearer tokens written into the configuration
    mcp_literals: dict[str, str] = {}  # likewise, for MCP servers
    warnings: tuple[str, ...] = ()


def build_request(
    options: RunOptions,
    settings: RunSettings,
    *,
    environment: Mapping[str, str],
    run_lines: RunLines,
    answering: AnswerLocation = "nowhere",
) -> PreparedRequest:
    """Resolve everything.

    Args:
        options: The command line.
        settings: Task and merged configuration.
        environment: Without any key; what agents and commands may see.
        run_lines: Runs a fan-out's command in a folder, in the read-only sandbox or (`policy=`) a
            profile's; returns its output.
        answering: Where a person could answer this run's approvals.

    Raises:
        UsageError: With the option, or the file and key, that is wrong.
    """
    config, cwd, role = settings.config, Path(settings.cwd), settings.role
    warnings = [*settings.loaded.warnings]
    providers, literal = build_providers(config, warnings)
    check_provider_exists(config.model_provider, config, providers)
    use = plan_provider_use(settings.loaded, settings.roles, role, providers)
    warnings += use.warnings
    add_dirs = tuple(_folder(name, "--add-dir") for name in options.add_dir)
    granted = resolve_run_sandbox(settings.loaded, cwd=settings.cwd, add_dirs=add_dirs)
    warnings += granted.warnings
    network = network_policy(config, granted.network)
    sandbox = _narrow_sandbox(settings, granted.policy, network, warnings)
    guidance = _guidance(cwd, settings, sandbox, warnings)
    required = settings.loaded.requirements
    roles = check_role_servers(use.roles, config)
    find_role(roles, role.name)
    warnings += roles.warnings
    mcp = build_mcp(
        config,
        settings.loaded.layers,
        role,
        chosen=options.mcp,
        environment=dict(environment),
        required=required,
        warnings=warnings,
    )
    rules = load_layer_rules(settings.loaded.layers, required)
    warnings += rules.warnings
    skills = find_run_skills(
        settings.loaded,
        Path(settings.config_folder),
        cwd=cwd,
        memory=find_user_paths(dict(environment)).state,
    )
    hooks = find_run_hooks(settings.loaded, Path(settings.config_folder))
    commands = find_run_commands(settings.loaded, Path(settings.config_folder))
    warnings += (*skills.warnings, *hooks.warnings, *commands.warnings)
    if (call := find_call(settings.task.body, commands.commands)) is not None:
        expand_call(call)  # what is wrong with it is said before anything starts
    request = RunRequest(
        task=settings.task.name,
        prompt=_prompt_with_context(settings, cwd, sandbox, warnings),
        images=checked_images(options.image),
        cwd=settings.cwd,
        add_dirs=add_dirs,
        role=root_brief(role, settings),
        roles=with_run_defaults(roles, settings),
        model_settings=ModelSettings(
            model=config.model,
            provider=config.model_provider,
            fallback=use.fallback,
            effort=config.model_reasoning_effort,
            summary=config.model_reasoning_summary,
            verbosity=config.model_verbosity,
        ),
        gateway=GatewaySettings(
            providers=providers,
            further=use.further,
            catalogue=_catalogues(settings),
            model_reasons=config.model_supports_reasoning_summaries,
            record=_absolute(options.record),
            replay=None if options.replay is None else _file(options.replay, "--replay"),
        ),
        inherited=_inherited(settings, guidance, hooks.hooks),
        sandbox=sandbox,
        network=narrow_role_network(network, role),
        unix_sockets=narrow_role_sockets(run_socket_rules(config, granted.network), role),
        approvals=_approvals(settings, choose_reviewer(config, warnings, at=answering)),
        require_sandbox=_required(options.require_sandbox),
        team=_team_limits(settings),
        budget=narrow_budget(run_budget(config), role.budget),
        deadline_s=_seconds(settings, "deadline", config.deadline),
        output_schema=_output_schema(options, settings),
        accept_truncated=options.accept_truncated,
        rules=rules.rules,
        skill_set=skills.chosen,
        commands=commands.commands,
        notify=turn_program(config),
        ephemeral=options.ephemeral,
        plan=options.plan,
        lifetime=RunLifetime(
            keep_open=options.keep_open,
            idle_timeout_s=idle_seconds(options.idle_timeout, keep_open=options.keep_open),
        ),
        mcp=mcp.settings,
        environment=dict(environment),
    )
    if settings.task.front.fan_out is not None:
        request = with_fan_out(request, settings, run_lines)
    if (former := warn_of_former_name()) is not None:
        warnings.append(former)
    switched = resolve_features(
        config.features,
        pins=required.features,
        warn_of_unstable=not config.suppress_unstable_features_warning,
    )
    warnings += switched.warnings
    request = with_isolation(request, options, settings, warnings)
    request = with_hosts(request, settings, options.hosts)
    is_persons = options.waits_for_limits and not is_ci(environment)
    wanted = PartsWanted(config, settings.task.front, options, is_persons)
    request = with_parts(request, wanted, is_enabled=switched.is_enabled)
    return PreparedRequest(
        request=apply_requirements(apply_features(request, switched, warnings), required),
        literal_keys=literal,
        mcp_literals=mcp.literals,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _inherited(settings: RunSettings, guidance: Guidance, hooks: tuple[Hook, ...]) -> Inherited:
    """What each agent gets from the run as it is."""
    config, folder = settings.config, Path(settings.config_folder)
    return Inherited(
        shell_environment=msgspec.convert(
            config.shell_environment_policy, ShellEnvironmentPolicy, from_attributes=True
        ),
        resources=resource_limits(config.limits, ram_bytes=memory_bytes()),
        allow_commit=config.allow_commit,
        user_instructions=guidance.text,
        guidance_files=guidance.files,
        hooks=hooks,
        context=context_rules(settings_without_role(settings.loaded), folder),
    )


def _approvals(settings: RunSettings, reviewer: Reviewer) -> ApprovalSettings:
    """When agents ask, and who answers."""
    config = settings.config
    return ApprovalSettings(
        approval=narrow_approval(config.approval, settings.role.approval),
        granular=config.granular,
        reviewer=reviewer,
        auto_review=review_settings(config),
        approval_timeout_s=_seconds(settings, "approval_timeout", config.approval_timeout),
    )


def _team_limits(settings: RunSettings) -> TeamLimits:
    table = msgspec.convert(settings.config.agents, AgentsTable)
    return TeamLimits(
        max_agents=default_max_agents() if table.children is None else table.children + 1,
        max_depth=3 if table.max_depth is None else table.max_depth,
        max_spawns=DEFAULT_MAX_SPAWNS if table.max_total is None else table.max_total,
        wake_parents=table.wake_parents,
        job_seconds=table.job_max_runtime_seconds,
    )


def _narrow_sandbox(
    settings: RunSettings, policy: SandboxPolicy, network: NetworkPolicy | None, warnings: list[str]
) -> SandboxPolicy:
    """The root's sandbox: narrowed by its role, without direct network if there is a proxy."""
    sandbox = narrow_sandbox(policy, settings.role)
    if network is not None or settings.role.network is not None:
        sandbox = without_direct_network(sandbox)
        if isinstance(sandbox, DangerFullAccess):
            warnings.append("without a sandbox nothing holds commands to the network's list")
    if opens_tunnels(network) and find_spec("cryptography") is None:
        raise UsageError(f"network.mitm needs the package `cryptography`: {line_for_extra('mitm')}")
    if (why := writable_config_warning(settings.config_folder, sandbox, settings.cwd)) is not None:
        warnings.append(why)
    return sandbox


def _seconds(settings: RunSettings, key: str, span: str | float | None) -> float | None:
    """Seconds of a key of the configuration. Raises UsageError that says where it stands."""
    try:
        return None if span is None else parse_duration(span)
    except UsageError as error:
        raise UsageError(f"{place_of_setting(settings.loaded, key)}: {error}") from error


def idle_seconds(span: str | None, *, keep_open: bool) -> float | None:
    """The value of `--idle-timeout`. Raises UsageError."""
    if span is not None and not keep_open:
        raise UsageError("--idle-timeout is for a run that stays open; add --keep-open")
    return None if span is None else parse_option("--idle-timeout", span)


def _output_schema(options: RunOptions, settings: RunSettings) -> dict[str, object] | None:
    if options.output_schema is not None:
        return load_schema(options.output_schema, "", "--output-schema")
    return load_schema(settings.task.front.output_schema, task_folder(settings), "output_schema")


def default_max_agents() -> int:
    """max(8, 2 × cores) live agents, including the root."""
    return max(8, 2 * (os.cpu_count() or 1))


def _prompt_with_context(
    settings: RunSettings, cwd: Path, sandbox: SandboxPolicy, warnings: list[str]
) -> str:
    """The task's body and the files that its `context` names."""
    patterns = settings.task.front.context
    if not patterns:
        return settings.task.body
    names = find_paths(cwd, patterns, kind="files")
    if not names:
        warnings.append(f"context: no file below {cwd} fits {', '.join(patterns)}")
        return settings.task.body
    may = readable_below(cwd, sandbox)
    read = [one for name in names if (one := read_excerpt(cwd / name, name, may)) is not None]
    total = sum(len(one.text.encode()) for one in read)
    if total > CONTEXT_BYTES:
        warnings.append(
            f"context: {len(read)} files hold {total:,} bytes; the longest are cut to fit "
            f"{CONTEXT_BYTES:,}"
        )
    if skipped := len(names) - len(read):
        warnings.append(f"context: {skipped} files left out (binary, empty or unreadable)")
    return f"{settings.task.body}\n\n{render_excerpts(read, limit_bytes=CONTEXT_BYTES)}"


def _guidance(
    cwd: Path, settings: RunSettings, sandbox: SandboxPolicy, warnings: list[str]
) -> Guidance:
    rules = msgspec.structs.replace(guidance_rules(settings.config), sandbox=sandbox)
    guidance = load_guidance(cwd, config_folder=Path(settings.config_folder), rules=rules)
    warnings += guidance.warnings
    return guidance


def _catalogues(settings: RunSettings) -> tuple[str, ...]:
    paths = (_SYSTEM_MODELS, Path(settings.config_folder) / "models.toml")
    return tuple(str(path) for path in paths if path.is_file())


def _required(wanted: str | None) -> tuple[Literal["fs", "net"], ...]:
    parts: list[Literal["fs", "net"]] = []
    for word in (wanted or "").replace(" ", "").split(","):
        match word:
            case "fs" | "net":
                parts.append(word)
            case "":
                pass
            case _:
                raise UsageError(f"--require-sandbox knows fs and net, not {word!r}")
    return tuple(dict.fromkeys(parts))


def _file(name: str, option: str) -> str:
    path = Path(name).absolute()
    if not path.is_file():
        raise UsageError(f"{option}: there is no file {path}")
    return str(path)


def checked_images(names: Sequence[str]) -> tuple[str, ...]:
    """The canonical paths of images, checked before the run starts. Raises UsageError."""
    # no later link can redirect the run
    paths = tuple(os.path.realpath(_file(name, "--image")) for name in names)
    for path in paths:
        check_image(Path(path))
    return paths


def _folder(name: str, option: str) -> str:
    path = Path(name).absolute()
    if not path.is_dir():
        raise UsageError(f"{option}: there is no folder {path}")
    return os.path.normpath(path)


def _absolute(name: str | None) -> str | None:
    return None if name is None else str(Path(name).absolute())
