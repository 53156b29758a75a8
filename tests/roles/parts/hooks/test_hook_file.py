"""Hook files of both products: what is read, what is left out and said, what is an error."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.hooks import CommandHook, HttpHook, McpHook, PromptHook
from swarm.roles.parts.hooks.hook_combination import matching_hooks
from swarm.roles.parts.hooks.hook_file import (
    MAX_HOOKS,
    disabled_hooks,
    names_hooks,
    read_hook_json,
    read_hook_table,
)
from swarm.roles.parts.hooks.hook_scripts import named_scripts


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
        ("PreToolUse", {"type": "telepathy"}, 'type = "telepathy"'),
        ("PreToolUse", {"type": {"of": "tomorrow"}}, "which is not run here"),
        ("PreToolUse", {"type": "prompt"}, "has no prompt"),
        ("SessionEnd", {"type": "agent", "prompt": "ok?"}, "decides nothing at SessionEnd"),
        ("PreToolUse", {"type": "http", "url": "https://a.example/h"}, '"network": true'),
        ("PreToolUse", {"type": "mcp_tool", "server": "a"}, "has no tool"),
        ("PreToolUse", {"type": "prompt", "prompt": "ok?", "async": True}, "`async`"),
        ("PreToolUse", {"asyncRewake": True}, "`asyncRewake`"),
        ("PreToolUse", {"shell": "powershell"}, "powershell"),
        ("PostToolUse", {"if": "Bash(git"}, "condition that cannot be read"),
        ("Stop", {"if": "Bash(git *)"}, "Stop is about no tool"),
        ("PreToolUse", {"command": " "}, "no command"),
        ("WorktreeCreate", {}, "hooks.WorktreeCreate is not run here"),
        ("Tomorrow", {}, "not an event that swarm knows"),
    ],
)
def test_what_cannot_run_here_is_left_out_by_name(event, handler, said):
    read = read_hook_json(file_of(event, **handler), "f", form="claude")
    assert read.hooks == ()
    assert said in "\n".join(read.warnings)


def one(event="PreToolUse", **handler):
    read = read_hook_json(file_of(event, **handler), "f", form="claude")
    assert read.warnings == ()
    return read.hooks[0]


def test_later_keys_of_both_products_are_read():
    hook = one(args=["a b"], once=True, **{"async": True, "if": "Bash(git *)"})
    assert (hook.action, hook.once, hook.background) == (CommandHook(args=("a b",)), True, True)
    assert (hook.condition, hook.line) == ("Bash(git *)", "true 'a b'")


@pytest.mark.parametrize(
    ("handler", "action", "timeout_s"),
    [
        ({"type": "http", "url": "https://a.example/h", "network": True,
          "headers": {"X": "$T"}, "allowedEnvVars": ["T"]},
         HttpHook(url="https://a.example/h", headers={"X": "$T"}, variables=("T",)), 600),
        ({"type": "mcp", "server": "a", "tool": "b", "input": {"p": "${cwd}"}},
         McpHook(server="a", tool="b", arguments={"p": "${cwd}"}), 600),
        ({"type": "mcp_tool", "server": "a", "tool": "b"}, McpHook(server="a", tool="b"), 600),
        ({"type": "prompt", "prompt": "ok?"}, PromptHook(prompt="ok?"), 30),
        ({"type": "agent", "prompt": "ok?"}, PromptHook(prompt="ok?"), 60),
    ],
)  # fmt: skip
def test_each_type_of_hook_is_read(handler, action, timeout_s):
    data = {"hooks": {"PreToolUse": [{"hooks": [handler]}]}}
    (hook,) = read_hook_json(json.dumps(data).encode(), "f", form="claude").hooks
    assert (hook.action, hook.timeout_s) == (action, timeout_s)


def test_the_id_of_a_plain_command_stays_as_it_was():
    (hook,) = read_hook_json(file_of(), "f", form="codex").hooks
    parts = ["PreToolUse", "codex", "", "true", 600.0, "allow", False, "f"]
    assert hook.hook_id == hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
    assert one(once=True).hook_id != one().hook_id != one(args=[]).hook_id


def test_an_unknown_key_is_said_and_the_hook_runs():
    read = read_hook_json(file_of(futureKey={"a": [1]}), "f", form="codex")
    assert len(read.hooks) == 1
    assert "'futureKey' is not known here" in read.warnings[0]


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
def test_a_guard_with_a_matcher_or_condition_that_cannot_be_read_guards_every_call(event):
    read = read_hook_json(file_of(event, "(", **{"if": "Bash("}), "f", form="codex")
    (hook,) = read.hooks
    assert (hook.matcher, hook.condition) == ("", "")
    assert "not a regular expression" in read.warnings[0]
    assert "condition that cannot be read" in read.warnings[1]


def test_an_invalid_matcher_leaves_out_its_group_alone():
    read = read_hook_json(file_of(event="PostToolUse", matcher="("), "f", form="codex")
    assert read.hooks == ()
    assert "not a regular expression" in read.warnings[0]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"hooks": []}', b'{"hooks": {"Stop": {}}}', b'{"hooks": {"Stop": [1]}}',
     b'{"hooks": {"Stop": [{"hooks": [1]}]}}', b"\xff", b"[" * 100_000,
     file_of(timeout="soon"), file_of(on_failure="maybe"), file_of(network="yes"),
     file_of(command="x" * 10_001), file_of(args="x"), file_of(args=[1]), file_of(once=1),
     file_of(type="http", url="ftp://a"), file_of(type="http", url="http://u:p@a/"),
     file_of(type="http", url="http://a/", headers={"Host": "b"}),
     file_of(type="http", url="http://a/", headers={"X": "a\nb"}),
     file_of(type="mcp", server="a", tool="b", input=[])],
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
