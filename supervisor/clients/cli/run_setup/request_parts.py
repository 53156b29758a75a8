"""The parts of a run request that follow from the configuration alone: context, budget, review,
schemas, switched-off features, memory. Each error names the key.
"""

from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.safe_open import open_user_file, read_start, read_user_file
from swarm.mailbox.base.written_text import NotText, decode_written, read_written_object
from swarm.mailbox.protocol.spec import ContextRules
from swarm.mailbox.protocol.values.limits import Budget, Granular
from swarm.roles.base.guidance import GuidanceRules
from swarm.roles.config.layers.features import FeatureSettings
from swarm.roles.config.schema import Config

from ....request.run_request import ReviewSettings, RunRequest

_MOST_PROMPT_BYTES = 64 << 10
_MAX_SCHEMA_BYTES = 1 << 20
REVIEWER_OFF_WARNING = "features.guardian_approval is off: what would ask the reviewer is refused"


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
        skills_percent=config.skills.budget_percent,
    )


def _compact_prompt(config: Config) -> str:
    """The configured text, else the text of the configured file, else ""."""
    if config.compact_prompt.strip() or config.experimental_compact_prompt_file is None:
        return config.compact_prompt.strip()
    path = Path(config.experimental_compact_prompt_file)
    try:
        data = read_start(open_user_file(path), most_bytes=_MOST_PROMPT_BYTES + 1)
        text = decode_written(data).strip()
    except (OSError, NotText) as error:
        raise UsageError(f"experimental_compact_prompt_file: {path}: {error}") from error
    if not text or len(text.encode()) > _MOST_PROMPT_BYTES:
        raise UsageError(f"experimental_compact_prompt_file: {path} is empty or over 64 KiB")
    return text


def review_settings(config: Config) -> ReviewSettings:
    """How the guardian reviews. Raises UsageError."""
    table = config.auto_review
    if not 1 <= table.timeout_sec <= 600:
        raise UsageError("auto_review.timeout_sec: must be between 1 and 600")
    return ReviewSettings(
        model=table.model,
        effort=table.model_reasoning_effort or None,
        policy=table.policy,
        deadline_s=table.timeout_sec,
    )


def run_budget(config: Config) -> Budget:
    """The limits of the whole run. Raises UsageError."""
    for name in ("tokens", "usd", "requests"):
        value = getattr(config.budget, name)
        if value is not None and value <= 0:
            raise UsageError(f"budget.{name}: must be more than 0")
    return config.budget


def apply_features(
    request: RunRequest, switched: FeatureSettings, warnings: list[str]
) -> RunRequest:
    """The request without the abilities that are switched off."""
    approvals = request.approvals
    prewarmed = switched.is_enabled("prewarmed_sandbox")
    if not switched.is_enabled("multi_agent"):
        team = msgspec.structs.replace(request.team, max_depth=0)
        request = msgspec.structs.replace(request, team=team)
    if not switched.is_enabled("guardian_approval") and approvals.reviewer == "guardian":
        warnings.append(REVIEWER_OFF_WARNING)
        approvals = msgspec.structs.replace(approvals, reviewer="nobody")
    if not switched.is_enabled("request_permissions_tool") and approvals.approval == "on-request":
        asks = approvals.granular or Granular(request_permissions=True, skill_approval=True)
        asks = msgspec.structs.replace(asks, request_permissions=False)
        approvals = msgspec.structs.replace(approvals, granular=asks)
    return msgspec.structs.replace(
        request,
        approvals=approvals,
        inherited=msgspec.structs.replace(request.inherited, prewarmed_sandbox=prewarmed),
        shell_snapshot=switched.is_enabled("shell_snapshot"),
    )


def load_schema(
    value: dict[str, object] | str | None, folder: str | Path, key: str
) -> dict[str, object] | None:
    """A JSON schema, or the file below `folder` that holds it. Raises UsageError that names it."""
    if isinstance(value, str):
        return _read_schema(Path(folder, value), key)
    return None if value is None else _checked(value, key)


def _read_schema(path: Path, key: str) -> dict[str, object]:
    try:
        data = read_user_file(path, most_bytes=_MAX_SCHEMA_BYTES)
    except OSError as error:
        raise UsageError(f"{key}: {path}: {error.strerror}") from error
    return _checked(read_written_object(data, f"{key}: {path}"), key)


def _checked(schema: dict[str, object], key: str) -> dict[str, object]:
    """The schema, if answers can be validated with it."""
    from swarm.mailbox.base.schema_check import SchemaUnusable, open_validator  # seldom needed

    try:
        open_validator(schema)
    except SchemaUnusable as error:
        raise UsageError(f"{key}: not a usable JSON schema: {error}") from error
    return schema
