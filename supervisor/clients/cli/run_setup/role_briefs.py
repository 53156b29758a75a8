"""What a run's configuration and a role together say to the role's agents."""

from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.safe_open import read_user_file
from swarm.mailbox.base.written_text import NotText, decode_written
from swarm.mailbox.protocol.spec import ContextOverrides, RoleBrief
from swarm.roles.config.file_reading import FILE_BYTES
from swarm.roles.config.schema import Config
from swarm.roles.rights.role import Role, with_run_settings
from swarm.roles.role_loader import Roles

from .run_settings import RunSettings, settings_without_role


def brief_of(role: Role, settings: RunSettings) -> RoleBrief:
    """The role's instructions; where it has none, those of the configuration."""
    config = settings.config
    role = with_run_settings(role, settings_without_role(settings.loaded))
    brief = role.brief()
    tools = config.tool_choice.narrowed(brief.tools)
    base = brief.base_instructions
    if not base and (name := config.model_instructions_file) is not None:
        base = _read_text(Path(name), settings.loaded.trusted_file(name))
    own = brief.developer_instructions or config.developer_instructions
    return msgspec.structs.replace(
        brief, base_instructions=base, developer_instructions=own, tools=tools
    )


def root_brief(role: Role, settings: RunSettings) -> RoleBrief:
    """The same for the root, whose role is a layer of the configuration, below `-c`."""
    return msgspec.structs.replace(
        brief_of(role, settings),
        prompt=settings.config.prompt,
        sampling=settings.config.sampling,
        context=_root_context(role, settings.config),
    )


def _root_context(role: Role, config: Config) -> ContextOverrides:
    """What holds for the root alone, if its role says something; else the run's rules do."""
    if role.context == ContextOverrides():
        return role.context
    return ContextOverrides(
        compact_tokens=config.model_auto_compact_token_limit,
        window_tokens=config.model_context_window,
        compact_prompt=config.compact_prompt or None,
        permissions=config.include_permissions_instructions,
        environment=config.include_environment_context,
    )


def with_run_defaults(roles: Roles, settings: RunSettings) -> Roles:
    """The roles with what the configuration says where a role says nothing itself."""
    keys = settings_without_role(settings.loaded)
    known = {name: with_run_settings(role, keys) for name, role in roles.known.items()}
    return msgspec.structs.replace(roles, known=known)


def _read_text(path: Path, trusted: bytes | None) -> str:
    try:
        data = read_user_file(path, most_bytes=FILE_BYTES) if trusted is None else trusted
        text = decode_written(data).strip()
    except (OSError, NotText) as error:
        raise UsageError(f"failed to read model instructions file {path}: {error}") from error
    if not text:
        raise UsageError(f"failed to read model instructions file {path}: it is empty")
    return text
