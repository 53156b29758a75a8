"""`[features]`: the feature switches, each with its stage. No I/O.

A switch has the described effect, or a warning says that it has none. An administrator's pin
overrides all other settings.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Literal

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.base import Value

from ..part_keys import PART_FEATURES
from .merge import as_table, is_table

Stage = Literal["under development", "experimental", "stable", "deprecated", "removed"]


class Feature(Value):
    name: str
    stage: Stage
    default: bool
    meaning: str


class FeatureSettings(Value):
    """The state of every feature, and warnings about the settings."""

    values: dict[str, bool] = {}
    warnings: tuple[str, ...] = ()

    def is_enabled(self, name: str) -> bool:
        """True if the feature is on. Raises KeyError for an unknown name."""
        return self.values[name]


FEATURES: tuple[Feature, ...] = (
    Feature(
        name="guardian_approval", stage="stable", default=True,
        meaning="the reviewer may answer approvals; off: what would ask it is refused",
    ),
    *(
        Feature(name=name, stage="experimental", default=False, meaning=part.meaning)
        for name, part in PART_FEATURES.items()
    ),
    Feature(
        name="multi_agent", stage="stable", default=True,
        meaning="models may start agents; the fan-out of a task file is not affected",
    ),
    Feature(
        name="prewarmed_sandbox", stage="stable", default=True,
        meaning="bubblewrap is started ahead for an agent's next command; off: at each command",
    ),
    Feature(
        name="request_permissions_tool", stage="stable", default=True,
        meaning="models may ask once for rights beyond the sandbox",
    ),
    Feature(
        name="shell_snapshot", stage="stable", default=True,
        meaning="commands get the login shell's environment; off: that of `swarm run`",
    ),
)  # fmt: skip
ALIASES = {"collab": "multi_agent"} | {
    part.former_name: name for name, part in PART_FEATURES.items()
}
# Codex's features for which swarm has no switch.
CODEX_FEATURES = frozenset(
    """
    shell_tool unified_exec enable_request_compression apps tool_search tool_suggest plugins
    image_generation skill_mcp_dependency_install tool_call_mcp_elicitation personality fast_mode
    workspace_dependencies general_analytics undo js_repl external_migration
    prevent_idle_sleep code_mode code_mode_only js_repl_tools_only codex_git_commit runtime_metrics
    chronicle child_agents_md apply_patch_freeform apply_patch_streaming_events
    exec_permission_approvals codex_hooks multi_agent_v2 enable_fanout
    tool_search_always_defer_mcp_tools unavailable_dummy_tools remote_plugin
    skill_env_var_dependency_prompt default_mode_request_user_input artifact realtime_conversation
    remote_control workspace_owner_usage_nudge shell_zsh_fork web_search_request web_search_cached
    use_legacy_landlock search_tool sqlite use_linux_sandbox_bwrap request_rule steer
    collaboration_modes remote_models tui_app_server image_detail_original responses_websockets
    responses_websockets_v2 hooks goals write_stdin_approval unified_exec_tty
    untrusted_as_tool_output network_proxy connectors telepathy request_permissions
    web_search include_apply_patch_tool experimental_use_freeform_apply_patch
    experimental_use_unified_exec_tool enable_experimental_windows_sandbox
    """.split()  # noqa: SIM905
)


def resolve_features(
    given: Mapping[str, object],
    *,
    pins: Mapping[str, bool] | None = None,
    features: Sequence[Feature] = FEATURES,
    warn_of_unstable: bool = True,
) -> FeatureSettings:
    """Resolve which features are on.

    Args:
        given: `[features]`, merged; a value is a bool, or a table with `enabled`.
        pins: Fixed by the requirements, by name or alias; they override `given` without a warning.
        features: All known features.
        warn_of_unstable: Warn about enabled features under development.

    Raises:
        UsageError: A value is neither a bool nor a table with a bool `enabled`.
    """
    known = {feature.name: feature for feature in features}
    values = {feature.name: feature.default for feature in features}
    warnings: list[str] = []
    for word, value in given.items():
        is_on = _read_switch(word, value)
        name = ALIASES.get(word, word)
        if name in known:
            values[name] = is_on
        warnings += _complaints(word, known, is_on=is_on)
    for word, is_on in (pins or {}).items():
        if (name := ALIASES.get(word, word)) in known:
            values[name] = is_on
    young = [n for n, on in values.items() if on and known[n].stage == "under development"]
    if young and warn_of_unstable:
        warnings.append(
            f"under-development features enabled: {', '.join(sorted(young))}; they are incomplete "
            "and may behave unpredictably"
        )
    return FeatureSettings(values=values, warnings=tuple(warnings))


def _read_switch(name: str, value: object) -> bool:
    if is_table(value):
        value = as_table(value).get("enabled", True)
    if not isinstance(value, bool):
        raise UsageError(f"features.{name}: must be true or false")
    return value


def _complaints(word: str, known: Mapping[str, Feature], *, is_on: bool) -> Iterator[str]:
    name = ALIASES.get(word, word)
    feature = known.get(name)
    if feature is None:
        if word not in CODEX_FEATURES:
            near = get_close_matches(word, [*known, *ALIASES], n=1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            yield f"features.{word}: unknown feature{hint}"
        elif is_on:
            yield f"features.{word}: a feature of Codex that does not exist here; it has no effect"
    elif name != word:
        yield f"features.{word} is deprecated: use features.{name}"
    elif feature.stage == "deprecated":
        yield f"features.{word} is deprecated"
    elif feature.stage == "removed":
        yield f"features.{word} was removed; it has no effect"


def check_feature_name(name: str) -> str:
    """The feature's name, aliases resolved. Raises UsageError in Codex's wording if unknown."""
    known = ALIASES.get(name, name)
    if known not in {feature.name for feature in FEATURES}:
        near = get_close_matches(name, [feature.name for feature in FEATURES], n=1)
        hint = f"; did you mean {near[0]}?" if near else "; `swarm features list` shows all"
        raise UsageError(f"Unknown feature flag: {name}{hint}")
    return known


def feature_overrides(enable: Sequence[str], disable: Sequence[str]) -> tuple[str, ...]:
    """`--enable F` and `--disable F` in `-c` form. Raises UsageError for an unknown feature."""
    return (
        *(f"features.{check_feature_name(name)}=true" for name in enable),
        *(f"features.{check_feature_name(name)}=false" for name in disable),
    )
