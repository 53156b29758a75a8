"""Hook files of both products: what is read, what is left out and said, what is an error."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.errors import UsageError
from swarm.roles.hooks.hook_combination import matching_hooks
from swarm.roles.hooks.hook_file import (
    MAX_HOOKS,
    disabled_hooks,
    names_hooks,
    read_hook_json,
    read_hook_table,
)
from swarm.roles.hooks.hook_scripts import named_scripts


def file_of(event="PreToolUse", matcher=None, **handler) -> bytes:
    group = {"hooks": [{"type": "command", "command": "true", **handler}]}
    if matcher is not None:
        group["matcher"] = matcher
    return json.dumps({"hooks": {event: [group]}}).encode()


def test_a_hook_is_read_with_its_defaults():
    (hook,) = read_hook_json(file_of(), "f", form="codex").hooks
    assert (hook.event, hook.command, hook.matcher, hook.timeout_s) == (
        "PreToolUse", "true", "", 600.0
    )  # fmt: skip
    assert not (hook.network or hook.fails_closed or hook.managed)
    assert len(hook.hook_id) == 12


@pytest.mark.parametrize(
    ("form", "matcher", "name", "matches"),
    [
        ("codex", "", "Bash", True), ("codex", "*", "Bash", True),
        ("codex", "^Bash$", "Bash", True),
        ("codex", "as", "Bash", True), ("codex", "Edit", "MultiEdit", True),
        ("claude", "Edit", "MultiEdit", False), ("claude", "Edit|Write", "Write", True),
        ("claude", "mcp__git__.*", "mcp__git__log", True), ("claude", "*", "anything", True),
    ],
)  # fmt: skip
def test_matchers_are_searched_and_claudes_plain_names_are_whole(form, matcher, name, matches):
    hooks = read_hook_json(file_of(matcher=matcher), "f", form=form).hooks
    assert bool(matching_hooks(hooks, "PreToolUse", (name,))) is matches


@pytest.mark.parametrize(
    ("event", "handler", "said"),
    [
        ("PreToolUse", {"type": "prompt"}, 'type = "prompt"'),
        ("PreToolUse", {"type": "agent"}, 'type = "agent"'),
        ("PreToolUse", {"async": True}, "`async`"),
        ("PreToolUse", {"once": True}, "`once`"),
        ("PreToolUse", {"if": "Bash(git *)"}, "`if`"),
        ("PreToolUse", {"command": " "}, "no command"),
        ("SessionEnd", {}, "hooks.SessionEnd is not run here"),
        ("Tomorrow", {}, "no event that swarm knows"),
        ("Notification", {}, "hooks.Notification is not run here"),
    ],
)
def test_what_cannot_run_here_is_left_out_by_name(event, handler, said):
    read = read_hook_json(file_of(event, **handler), "f", form="claude")
    assert read.hooks == ()
    assert said in "\n".join(read.warnings)


def test_an_invalid_matcher_leaves_out_its_group_alone():
    read = read_hook_json(file_of(matcher="("), "f", form="codex")
    assert read.hooks == ()
    assert "no regular expression" in read.warnings[0]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"hooks": []}', b'{"hooks": {"Stop": {}}}', b'{"hooks": {"Stop": [1]}}',
     b'{"hooks": {"Stop": [{"hooks": [1]}]}}', b"\xff", b"[" * 100_000,
     file_of(timeout="soon"), file_of(on_failure="maybe"), file_of(network="yes"),
     file_of(command="x" * 10_001)],
)  # fmt: skip
def test_a_file_of_another_shape_is_an_error_that_names_it(data):
    with pytest.raises(UsageError, match=r"^f[,:]"):
        read_hook_json(data, "f", form="codex")


def test_an_error_in_the_json_has_its_line():
    with pytest.raises(UsageError, match="line 2, column"):
        read_hook_json(b'{"hooks":\n nonsense}', "f", form="codex")


def test_too_many_hooks_are_refused():
    groups = [{"hooks": [{"command": f"true {n}"}]} for n in range(MAX_HOOKS + 1)]
    with pytest.raises(UsageError, match="more than"):
        read_hook_table({"Stop": groups}, "f", form="codex")


def test_own_names_mean_the_events_of_children():
    table = {name: [{"hooks": [{"command": "true"}]}] for name in ("AgentSpawn", "AgentEnd")}
    events = [hook.event for hook in read_hook_table(table, "f", form="codex").hooks]
    assert events == ["SubagentStart", "SubagentStop"]


def test_a_changed_definition_has_another_id():
    one, two = (
        read_hook_json(file_of(command=c), "f", form="codex").hooks[0] for c in ("true", "false")
    )
    assert one.hook_id != two.hook_id


def test_the_state_table_switches_off_and_is_no_event():
    table = {"state": {"a": {"enabled": False}, "b": {"enabled": True}, "c": 1}}
    assert disabled_hooks(table) == {"a"}
    assert read_hook_table(table, "f", form="codex").hooks == ()


def test_settings_without_hooks_are_not_the_projects_configuration():
    assert not names_hooks(b'{"permissions": {}}')
    assert names_hooks(file_of())
    assert names_hooks(b"{broken")


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: (
    st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["PreToolUse", "hooks",
    "command", "matcher", "timeout", "type"]), inner)), max_leaves=20))  # fmt: skip
def test_any_json_is_read_or_refused_in_our_own_words(value):
    try:
        read_hook_table(value, "f", form="codex")
    except UsageError as error:
        assert str(error).startswith("f")


@pytest.mark.parametrize(
    ("command", "scripts"),
    [
        ("./check.sh", ["check.sh"]),
        ('python3 "$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.py', [".claude/hooks/guard.py"]),
        ("FOO=1 bash -e tools/a.sh --fast", ["tools/a.sh"]),
        ("cat x.json | tools/b.sh; ${CLAUDE_PROJECT_DIR}/c.sh", ["tools/b.sh", "c.sh"]),
        ("jq -r .x >> .claude/log.txt", []),
        ("echo hi > out.sh", []),
        ("sh -c './nested.sh 1'", ["nested.sh"]),
        ("uv run tools/format.py", ["tools/format.py"]),
        ("npx prettier --write .", []),
        ("/usr/bin/true", []),
        ("../outside.sh", []),
        ("echo 'open quote", []),
    ],
)
def test_the_files_that_a_command_starts_are_found(command, scripts):
    assert named_scripts(command, "/p") == tuple(f"/p/{name}" for name in scripts)


@given(st.text())
def test_any_command_names_only_files_inside_of_the_project(command):
    assert all(path.startswith("/p/") for path in named_scripts(command, "/p"))
