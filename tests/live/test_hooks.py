"""Hooks in whole runs: scripts of the usual kinds in both forms, and that none runs untrusted."""

import json

import pytest
import trio

from swarm.mailbox.protocol.events import CallEnded, HookRan, TurnFailed
from swarm.mailbox.protocol.items import FunctionCallOutput, Message, text_of
from swarm.mailbox.protocol.records import ApprovalResolved, ItemRecorded

pytestmark = pytest.mark.live
LIMIT_S = 60
GUARD = """#!/usr/bin/env python3
import json, sys
command = json.load(sys.stdin)["tool_input"].get("command", "")
if "rm -rf" in command:
    print("no rm -rf here", file=sys.stderr)
    sys.exit(2)
"""
ENV_GUARD = """
import json, sys
path = json.load(sys.stdin)["tool_input"]["file_path"]
if path.endswith(".env"):
    print(json.dumps({"decision": "block", "reason": f"{path} holds secrets"}))
"""
ALLOW = json.dumps(
    {
        "hookSpecificOutput": {
            "hookEventName": "PermissionRequest",
            "decision": {"behavior": "allow"},
        }
    }
)


def call(cmd, **more):
    return {"name": "exec_command", "arguments": {"cmd": cmd, **more}}


def patch(name):
    text = f"*** Begin Patch\n*** Add File: {name}\n+hello\n*** End Patch"
    return {"name": "apply_patch", "custom": True, "arguments": text}


def write_hooks(rig, name="hooks.json", **events):
    """`events`: matcher and keys of one hook for each event."""
    (rig.work / ".git").mkdir(exist_ok=True)
    path = rig.work / (".swarm" if "/" not in name else ".") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    table = {
        event: [{"matcher": matcher, "hooks": [{"type": "command", **keys}]}]
        for event, (matcher, keys) in events.items()
    }
    path.write_text(json.dumps({"hooks": table}))


def write_script(rig, name, text):
    path = rig.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


async def run_trusted(rig, *turns, words=()):
    with trio.fail_after(LIMIT_S):
        trusted = await (await rig.start("trust", "--yes")).wait_end()
        assert trusted.code == 0, trusted.err
        run = await rig.run(rig.script(*turns), "-p", "go", *words, sandbox="workspace-write")
        return await run.wait_end()


def outputs(rig):
    items = [body.item for body in rig.bodies(ItemRecorded)]
    return [text_of(item.output) for item in items if isinstance(item, FunctionCallOutput)]


def texts(rig):
    items = [body.item for body in rig.bodies(ItemRecorded)]
    return [text_of(item.content) for item in items if isinstance(item, Message)]


async def test_before_trust_no_hook_runs_and_the_run_says_so(rig):
    write_hooks(rig, SessionStart=("", {"command": "touch ran"}))
    write_hooks(rig, ".claude/settings.json", PreToolUse=("Bash", {"command": "touch ran"}))
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script({"calls": [call("true")]}, {"text": "done"}), "-p", "go")
        ended = await run.wait_end()
    assert ended.code == 0
    assert "not trusted" in ended.err
    assert not rig.bodies(HookRan)
    assert not (rig.work / "ran").exists()


async def test_a_guard_script_of_claudes_form_blocks_a_command_and_cannot_be_changed(rig):
    write_script(rig, ".claude/hooks/guard.py", GUARD)
    command = 'python3 "$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.py'
    write_hooks(rig, ".claude/settings.json", PreToolUse=("Bash", {"command": command}))
    ended = await run_trusted(
        rig,
        {"calls": [call("echo > .claude/hooks/guard.py; mv .claude away; echo tried")]},
        {"calls": [call("rm -rf .")]},
        {"text": "done"},
    )
    assert ended.code == 0
    assert (rig.work / ".claude" / "hooks" / "guard.py").read_text() == GUARD
    assert "tried" in outputs(rig)[0]
    assert outputs(rig)[1] == "no rm -rf here"
    assert [body.status for body in rig.bodies(CallEnded)] == ["completed", "declined"]


async def test_a_guard_that_was_replaced_from_outside_closes_the_gate(rig):
    write_script(rig, "guard.sh", "#!/bin/sh\nexit 0\n")
    write_hooks(rig, PreToolUse=("^Bash$", {"command": "./guard.sh"}))
    with trio.fail_after(LIMIT_S):
        assert (await (await rig.start("trust", "--yes")).wait_end()).code == 0
        turns = ({"calls": [call("touch begun; until [ -e go ]; do sleep 0.05; done")]},
                 {"calls": [call("true")]}, {"text": "done"})  # fmt: skip
        run = await rig.run(rig.script(*turns), "-p", "go", sandbox="workspace-write")
        await rig.wait((rig.work / "begun").exists)
        write_script(rig, "guard.sh", "#!/bin/sh\nexit 0 # changed\n")
        (rig.work / "go").touch()
        assert (await run.wait_end()).code == 0
    assert "not as it was when this run began" in outputs(rig)[1]


async def test_edits_of_secrets_are_blocked_file_by_file_in_claudes_form(rig):
    write_script(rig, ".claude/env.py", ENV_GUARD)
    keys = {"command": "python3 .claude/env.py"}
    write_hooks(rig, ".claude/settings.json", PreToolUse=("Edit|Write", keys))
    await run_trusted(rig, {"calls": [patch(".env")]}, {"calls": [patch("a.txt")]}, {"text": "."})
    assert not (rig.work / ".env").exists()
    assert (rig.work / "a.txt").exists()


async def test_a_formatter_runs_after_an_edit_in_the_project(rig):
    write_hooks(rig, PostToolUse=("Edit", {"command": "sed -i s/hello/formatted/ a.txt"}))
    await run_trusted(rig, {"calls": [patch("a.txt")]}, {"text": "done"})
    assert (rig.work / "a.txt").read_text() == "formatted\n"


async def test_a_linter_tells_the_model_by_exit_code_2_and_a_failure_has_hooks_of_its_own(rig):
    why = "grep -q '\"error\":.*went wrong' && { echo 'see the log' >&2; exit 2; }"
    write_hooks(
        rig,
        PostToolUse=("Bash", {"command": "echo 'lint: bad' >&2; exit 2"}),
        PostToolUseFailure=("Bash", {"command": why}),
    )
    failing = call("echo went wrong; exit 3")
    await run_trusted(rig, {"calls": [call("echo fine")]}, {"calls": [failing]}, {"text": "done"})
    fine, failed = outputs(rig)
    assert "fine" in fine
    assert "lint: bad" in fine
    assert "see the log" in failed
    assert "lint: bad" not in failed


async def test_a_start_adds_context_once_and_stop_lets_the_turn_go_on_once(rig):
    again = "grep -q '\"stop_hook_active\":false' && { echo 'run the tests' >&2; exit 2; } || true"
    write_hooks(
        rig,
        SessionStart=("startup", {"command": "echo branch: main"}),
        Stop=("", {"command": again}),
    )
    ended = await run_trusted(rig, {"text": "first"}, {"text": "second"})
    assert ended.code == 0
    assert texts(rig).count("branch: main") == 1
    assert sum("run the tests</hook_prompt>" in text for text in texts(rig)) == 1
    assert "second" in ended.out


async def test_a_withheld_prompt_reaches_no_model(rig):
    write_hooks(rig, UserPromptSubmit=("", {"command": "echo 'has a secret' >&2; exit 2"}))
    ended = await run_trusted(rig, {"text": "never"})
    assert ended.code == 1
    assert "go" not in texts(rig)
    assert "has a secret" in rig.bodies(TurnFailed)[0].message


async def test_a_changed_input_is_what_runs_and_is_judged(rig):
    inner = {"hookEventName": "PreToolUse", "updatedInput": {"command": "echo rewritten"}}
    write_script(rig, ".swarm/r.sh", f"echo '{json.dumps({'hookSpecificOutput': inner})}'\n")
    write_hooks(rig, PreToolUse=("Bash", {"command": "sh .swarm/r.sh"}))
    await run_trusted(rig, {"calls": [call("echo original")]}, {"text": "done"})
    assert "rewritten" in outputs(rig)[0]
    assert "original" not in outputs(rig)[0]


async def test_a_hooks_permission_answers_an_approval_once_and_is_journaled(rig):
    write_hooks(rig, PermissionRequest=("Bash", {"command": f"echo '{ALLOW}'", "may_allow": True}))
    outside = call("touch out", sandbox_permissions="require_escalated", justification="a test")
    await run_trusted(rig, {"calls": [outside]}, {"text": "done"}, words=("--reviewer", "guardian"))
    (resolved,) = rig.bodies(ApprovalResolved)
    assert (resolved.outcome, resolved.by, resolved.scope) == ("approved", "hook", "once")
    assert (rig.work / "out").exists()


async def test_a_hooks_permission_counts_for_nothing_where_nobody_may_be_asked(rig):
    write_hooks(rig, PermissionRequest=("Bash", {"command": f"echo '{ALLOW}'", "may_allow": True}))
    outside = call("touch ../out", sandbox_permissions="require_escalated", justification="x")
    await run_trusted(rig, {"calls": [outside]}, {"text": "done"}, words=("-a", "never"))
    assert not rig.bodies(ApprovalResolved)
    assert not (rig.work.parent / "out").exists()


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("kill -9 $$", "hook exited with"),
        ("exec yes", "printed more than 1 MiB"),
        ("sleep 600", "timed out after 1s"),
        ("sleep 600 & echo '{nonsense'", "cannot be read"),
        ("no-such-program", "code 127"),
    ],
)
async def test_a_broken_hook_is_seen_leaves_nothing_and_closes_only_if_it_says_so(
    rig, command, fault
):
    write_hooks(rig, PreToolUse=("Bash", {"command": command, "timeout": 1, "on_failure": "deny"}))
    ended = await run_trusted(rig, {"calls": [call("touch ran")]}, {"text": "done"})
    (ran,) = rig.bodies(HookRan)
    assert ran.status == "failed"
    assert fault in ran.text
    assert fault in ended.err
    assert not (rig.work / "ran").exists()
    with trio.fail_after(LIMIT_S):
        await rig.wait_gone()


async def test_a_hook_has_no_network_and_children_have_the_same_hooks(rig):
    probe = "cat /proc/net/dev | wc -l > net; cat >> seen; echo >> seen"
    write_hooks(rig, SubagentStart=("", {"command": probe}), SubagentStop=("", {"command": "true"}))
    spawn = {"name": "spawn_agent", "arguments": {"task_name": "scout", "message": "look"}}
    wait = {"name": "wait_agent", "arguments": {}}
    await run_trusted(
        rig,
        {"agent": "/root", "calls": [spawn]},
        {"agent": "/root", "calls": [wait]},
        {"agent": "/root", "text": "done"},
        {"agent": "/root/scout", "text": "seen"},
    )
    events = {body.event for body in rig.bodies(HookRan, agent="/root/scout")}
    assert events == {"SubagentStart", "SubagentStop"}
    given = json.loads((rig.work / "seen").read_text().splitlines()[0])
    assert (given["agent_path"], given["agent_depth"]) == ("/root/scout", 1)
    assert (rig.work / "net").read_text().strip() == "3"  # two head lines and the loopback
