"""Feature flags: what is said, in which order it counts, and what is told about it."""

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.layers.features import (
    CODEX_FEATURES,
    FEATURES,
    Feature,
    check_feature_name,
    feature_overrides,
    resolve_features,
)
from swarm.roles.config.layers.layer_check import find_shell_table_errors
from swarm.roles.config.schema import ShellTable

STAGES = (
    Feature(name="young", stage="under development", default=False, meaning=""),
    Feature(name="old", stage="deprecated", default=True, meaning=""),
    Feature(name="gone", stage="removed", default=False, meaning=""),
    Feature(name="plain", stage="stable", default=True, meaning=""),
)


def test_the_built_in_ones_are_on_but_for_memories_and_known_by_one_name():
    switched = resolve_features({})
    assert switched.values == {feature.name: feature.name != "memories" for feature in FEATURES}
    assert switched.warnings == ()
    assert not CODEX_FEATURES & {feature.name for feature in FEATURES}


@pytest.mark.parametrize(
    ("said", "name", "is_on"),
    [
        ({"multi_agent": False}, "multi_agent", False),
        ({"multi_agent": {"enabled": False}}, "multi_agent", False),
        ({"multi_agent": {}}, "multi_agent", True),
        ({"collab": False}, "multi_agent", False),
    ],
)
def test_a_flag_is_a_bool_or_a_table(said, name, is_on):
    assert resolve_features(said).is_enabled(name) is is_on


@pytest.mark.parametrize("value", [1, "true", None, [], {"enabled": "no"}])
def test_any_other_value_is_an_error(value):
    with pytest.raises(UsageError, match=r"features\.multi_agent: must be true or false"):
        resolve_features({"multi_agent": value})


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"multi_agnt": True}, "features.multi_agnt: unknown feature; did you mean `multi_agent`?"),
        ({"zzz": False}, "features.zzz: unknown feature"),
        ({"code_mode": True}, "features.code_mode: a feature of Codex that does not exist here"),
        ({"collab": True}, "features.collab is deprecated: use features.multi_agent"),
    ],
)
def test_what_has_no_effect_is_said(said, words):
    assert [words in warning for warning in resolve_features(said).warnings] == [True]


def test_a_foreign_feature_that_is_off_is_nobodys_business():
    assert resolve_features({"code_mode": False}).warnings == ()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"young": True}, ["under-development features enabled: young"]),
        ({"young": False}, []),
        ({"old": True}, ["features.old is deprecated"]),
        ({"gone": True}, ["features.gone was removed"]),
        ({"plain": False}, []),
    ],
)
def test_a_stage_is_told(said, words):
    warnings = resolve_features(said, features=STAGES).warnings
    assert len(warnings) == len(words)
    assert all(word in warning for word, warning in zip(words, warnings, strict=True))


def test_the_warning_of_unstable_ones_can_be_left_out():
    said = {"young": True, "old": True}
    warnings = resolve_features(said, features=STAGES, warn_of_unstable=False).warnings
    assert warnings == ("features.old is deprecated",)


def test_a_pin_counts_over_everything_and_silently():
    switched = resolve_features({"multi_agent": True}, pins={"collab": False, "other": True})
    assert not switched.is_enabled("multi_agent")
    assert switched.warnings == ()


def test_flags_of_the_command_line_are_overrides():
    assert feature_overrides(["collab"], ["shell_snapshot"]) == (
        "features.multi_agent=true", "features.shell_snapshot=false",
    )  # fmt: skip
    with pytest.raises(UsageError, match="Unknown feature flag: nope"):
        feature_overrides(["nope"], [])
    with pytest.raises(UsageError, match="did you mean shell_snapshot"):
        check_feature_name("shell_snapshots")


# --- the shell's environment ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "key", "words"),
    [
        ({"exclude": ("",)}, ("exclude",), "it is empty"),
        ({"exclude": (" ",)}, ("exclude",), "it is empty"),
        ({"include_only": ("A=B",)}, ("include_only",), "no name holds a ="),
        ({"exclude": ("A\0",)}, ("exclude",), "control character"),
        ({"exclude": ("A\nB",)}, ("exclude",), "control character"),
        ({"exclude": ("A" * 257,)}, ("exclude",), "longer than 256"),
        ({"exclude": ("A",) * 1001}, ("exclude",), "more than 1000 patterns"),
        ({"set": {"": "x"}}, ("set", ""), "it is empty"),
        ({"set": {"A=B": "x"}}, ("set", "A=B"), "no name holds a ="),
        ({"set": {"A": "x\0y"}}, ("set", "A"), "cannot hold a NUL"),
    ],
)
def test_what_can_never_be_meant_is_a_mistake(table, key, words):
    found = list(find_shell_table_errors(ShellTable(**table)))
    assert found[0][0] == key
    assert words in found[0][1]


def test_what_can_be_meant_is_none():
    table = ShellTable(exclude=("*KEY*", "FOO?", "a.b", "BASH_FUNC_x%%"), set={"A": "", "ü": "x"})
    assert list(find_shell_table_errors(table)) == []
