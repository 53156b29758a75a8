"""Configuration keys about context and AGENTS.md → `ContextRules` and `GuidanceRules`."""

from pathlib import Path

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.spec import ContextRules
from swarm.mailbox.safe_open import open_user_file, read_start
from swarm.roles.config.schema import Config
from swarm.roles.guidance import GuidanceRules

_MOST_PROMPT_BYTES = 64 << 10


def guidance_rules(config: Config) -> GuidanceRules:
    """How the AGENTS.md files are read."""
    return GuidanceRules(
        limit_bytes=config.project_doc_max_bytes,
        fallback_names=config.project_doc_fallback_filenames,
        root_markers=config.project_root_markers,
    )


def context_rules(config: Config, config_folder: Path) -> ContextRules:
    """What context agents' models receive, and when histories are compacted. Raises UsageError."""
    for key in ("model_context_window", "model_auto_compact_token_limit"):
        value = getattr(config, key)
        if value is not None and value < 1:
            raise UsageError(f"{key}: must be more than 0")
    return ContextRules(
        compact_tokens=config.model_auto_compact_token_limit,
        window_tokens=config.model_context_window,
        compact_prompt=_compact_prompt(config),
        permissions=config.include_permissions_instructions,
        environment=config.include_environment_context,
        guidance_bytes=max(0, config.project_doc_max_bytes),
        guidance_names=config.project_doc_fallback_filenames,
        root_markers=config.project_root_markers,
        guidance_home=str(config_folder),
    )


def _compact_prompt(config: Config) -> str:
    """The configured text, else the text of the configured file, else ""."""
    if config.compact_prompt.strip() or config.experimental_compact_prompt_file is None:
        return config.compact_prompt.strip()
    path = Path(config.experimental_compact_prompt_file)
    try:
        data = read_start(open_user_file(path), most_bytes=_MOST_PROMPT_BYTES + 1)
        text = data.decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"experimental_compact_prompt_file: {path}: {error}") from error
    if not text or len(text.encode()) > _MOST_PROMPT_BYTES:
        raise UsageError(f"experimental_compact_prompt_file: {path} is empty or over 64 KiB")
    return text
