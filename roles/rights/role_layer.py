"""A role's file as a layer of the configuration: which keys are obeyed, which are refused.

A role takes rights away and adds none. So a key that would widen rights, or decide where data goes,
is refused by name; a key of the whole run, and Codex's keys without effect here, give a warning.
"""

from collections.abc import Iterator

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.settings import ToolChoice

from ..config.layers.features import ALIASES
from ..config.layers.layer_check import describe_place, error_at, unknown_key
from ..config.layers.merge import Layer, as_table
from ..config.part_keys import PART_KEYS
from ..config.schema import CODEX_KEYS, Config, Toml

WIDENS = (
    "allow_commit", "approval_timeout", "approvals_reviewer", "auto_review", "default_permissions",
    "limits", "model_providers", "notify", "openai_base_url", "permissions",
    "shell_environment_policy",
)  # fmt: skip
OF_THE_RUN = (
    "agents", "deadline", "experimental_compact_prompt_file", "merge",
    "project_doc_fallback_filenames", "project_doc_max_bytes", "project_root_markers",
    "review_model", "suppress_unstable_features_warning",
    *(key for key, part in PART_KEYS.items() if part.of_the_run),
)  # fmt: skip
_TEAM = (
    "spawn_agent", "send_message", "followup_task", "wait_agent", "list_agents", "interrupt_agent",
    "close_agent", "spawn_agents_on_csv",
)  # fmt: skip
# What a feature that a role switches off takes away.
_TOOLS_OF_FEATURES = {
    "multi_agent": _TEAM,
    "request_permissions_tool": ("request_permissions",),
}


def obeyed_keys(layer: Layer, known: tuple[str, ...]) -> tuple[Toml, tuple[str, ...]]:
    """The keys that a role obeys, and warnings about those that have no effect.

    Args:
        layer: The role's file.
        known: The keys that a role's file has.

    Raises:
        UsageError: With file, line and key: it would widen rights, or nothing has it.
    """
    values = {key: value for key, value in layer.values.items() if key in known}
    idle: list[str] = []
    for key in layer.values:
        if key in known:
            continue
        if key in WIDENS:
            raise error_at(layer, key, "a role may not set it: a role only takes rights away")
        if key not in OF_THE_RUN and key not in CODEX_KEYS:
            raise UsageError(unknown_key(layer, (key,), (*known, *Config.__struct_fields__)))
        idle.append(key)
    warnings = (*_idle_warnings(layer, idle), *_feature_warnings(layer))
    return values, warnings


def _idle_warnings(layer: Layer, keys: list[str]) -> Iterator[str]:
    for key in keys:
        why = "a setting of the whole run; it has no effect in a role"
        if key in CODEX_KEYS:
            why = "a key of Codex that has no effect here"
        yield f"{describe_place(layer, key)}: {why}"


def _feature_warnings(layer: Layer) -> Iterator[str]:
    for word in as_table(layer.values.get("features")):
        if ALIASES.get(word, word) not in _TOOLS_OF_FEATURES:
            yield (
                f"{describe_place(layer, ('features', word))}: no feature that a role can switch "
                f"off; these are {', '.join(_TOOLS_OF_FEATURES)}"
            )


def tools_without_features(features: dict[str, bool | Toml]) -> ToolChoice:
    """The tools that are left. A feature that the role switches on adds nothing."""
    gone: list[str] = []
    for word, value in features.items():
        is_on = value if isinstance(value, bool) else value.get("enabled", True) is not False
        if not is_on:
            gone += _TOOLS_OF_FEATURES.get(ALIASES.get(word, word), ())
    return ToolChoice(exclude=tuple(gone))
