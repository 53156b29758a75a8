"""Plugins in whole runs: what they bring is used by root and explorer, and nothing before trust."""

import json
import shutil

import pytest
import trio

from support.mcp_testbed import BESIDE, call
from swarm.mailbox.protocol.events import CallBegan, CallEnded, HookRan, McpCall
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.records import AgentSpawned, ContextRecorded, ItemRecorded

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
LIMIT_S = 60
GUARD = '#!/bin/sh\nset -eu\n[ -r "$CLAUDE_PLUGIN_ROOT/rule" ]\nif grep -q "rm -rf"; then\n'
GUARD += '  echo "no rm -rf here" >&2\n  exit 2\nfi\n'
EXPLORE = {"name": "spawn_agent", "arguments": {
    "task_name": "scout", "message": "look", "agent_type": "explorer",
}}  # fmt: skip
OWN_ROLE = {"name": "spawn_agent", "arguments": {
    "task_name": "own", "message": "look", "agent_type": "demo:scout",
}}  # fmt: skip
WAIT = {"name": "wait_agent", "arguments": {}}


def shell(cmd):
    return {"name": "exec_command", "arguments": {"cmd": cmd}}


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    path.chmod(mode)


def write_plugin(folder, *, layout="claude", name="demo"):
    """A plugin with a guard; in Claude's layout also with a skill and a real server."""
    write(folder / f".{layout}-plugin" / "plugin.json", {"name": name, "version": "1.0.0"})
    hook = {"type": "command", "command": "${CLAUDE_PLUGIN_ROOT}/guard.sh"}
    write(folder / "hooks" / "hooks.json", {
        "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}
    })  # fmt: skip
    write(folder / "guard.sh", GUARD, 0o755)
    write(folder / "rule", "yes")
    if layout == "claude":
        skill = "---\nname: notes\ndescription: Writes release notes.\n---\nSECRET-STEP\n"
        write(folder / "skills" / "notes" / "SKILL.md", skill)
        server = {"command": str(BESIDE / "mcp-server-time"), "env": {"DATA": "${PLUGIN_DATA}"}}
        role = "---\nname: scout\ndescription: Looks.\ntools: Bash\n---\nBE-A-SCOUT\n"
        write(folder / "agents" / "scout.md", role)
        write(folder / "commands" / "greet.md", "Say hello to $1.\n")
        write(folder / ".mcp.json", {"mcpServers": {"time": server}})


async def command(rig, *words):
    return await (await rig.start(*words)).wait_end()


async def run(rig, *turns, prompt="go"):
    started = await rig.run(
        rig.script(*turns), "-p", prompt, "--reviewer", "nobody", sandbox="workspace-write"
    )
    return await started.wait_end()


def told(rig, agent):
    items = [body.item for body in rig.bodies(ItemRecorded, agent=agent)]
    items += [item for body in rig.bodies(ContextRecorded, agent=agent) for item in body.items]
    return "\n".join(text_of(item.content) for item in items if isinstance(item, Message))


async def test_root_and_explorer_use_the_skill_the_hooks_and_the_server_of_plugins(rig):
    write_plugin(rig.folder / "one")
    write_plugin(rig.folder / "two", layout="codex", name="second")
    look = call("get_current_time", server="time", timezone="Asia/Tokyo")
    with trio.fail_after(LIMIT_S):
        for name in ("one", "two"):
            added = await command(rig, "plugin", "add", str(rig.folder / name), "--yes")
            assert added.code == 0, added.err
        ended = await run(
            rig,
            {"agent": "/root", "calls": [shell("rm -rf x")]},
            {"agent": "/root", "calls": [look]},
            {"agent": "/root", "calls": [EXPLORE]},
            {"agent": "/root", "calls": [WAIT]},
            {"agent": "/root", "calls": [OWN_ROLE]},
            {"agent": "/root", "calls": [WAIT]},
            {"agent": "/root", "text": "done"},
            {"agent": "/root/own", "text": "seen"},
            {"agent": "/root/scout", "calls": [shell("rm -rf y")]},
            {"agent": "/root/scout", "calls": [look]},
            {"agent": "/root/scout", "text": "seen"},
            prompt="Use $demo:notes now.",
        )
    assert ended.code == 0, ended.err
    assert "SECRET-STEP" in told(rig, "/root")
    assert {body.path: body.role for body in rig.bodies(AgentSpawned)} == {
        "/root": "default",
        "/root/scout": "explorer",
        "/root/own": "demo:scout",
    }
    assert "BE-A-SCOUT" in told(rig, "/root/own")
    for agent in ("/root", "/root/scout"):
        assert "demo:notes: Writes release notes." in told(rig, agent)
        blocked = [body for body in rig.bodies(HookRan, agent=agent) if body.decision == "deny"]
        sources = {body.source for body in blocked}
        assert sources == {"demo@local: hooks/hooks.json", "second@local: hooks/hooks.json"}
        calls = [body.detail for body in rig.bodies(CallBegan, agent=agent)]
        assert [one.server for one in calls if isinstance(one, McpCall)] == ["time"]
        done = [body.status for body in rig.bodies(CallEnded, agent=agent)]
        assert "completed" in done


async def test_a_plugins_command_is_called_by_its_name(rig):
    write_plugin(rig.folder / "one")
    with trio.fail_after(LIMIT_S):
        assert (await command(rig, "plugin", "add", str(rig.folder / "one"), "--yes")).code == 0
        ended = await run(rig, {"text": "done"}, prompt="/demo:greet Ada")
    assert ended.code == 0, ended.err
    assert "Say hello to Ada." in told(rig, "/root")


async def test_what_has_changed_since_it_was_trusted_counts_for_nothing_and_is_named(rig):
    write_plugin(rig.folder / "one")
    with trio.fail_after(LIMIT_S):
        assert (await command(rig, "plugin", "add", str(rig.folder / "one"), "--yes")).code == 0
        place = rig.home / "plugins" / "cache" / "local" / "demo" / "1.0.0"
        (place / "rule").write_text("no")
        ended = await run(
            rig, {"calls": [shell("rm -rf x")]}, {"text": "done"}, prompt="Use $demo:notes."
        )
        assert ended.code == 0, ended.err
        assert "demo@local has changed since you trusted it" in ended.err
        assert "Writes release notes" not in told(rig, "/root")
        assert rig.bodies(HookRan) == []
        enabled = await command(rig, "plugin", "enable", "demo", "--yes")
        assert enabled.code == 0, enabled.err
        listed = await command(rig, "skills", "list")
    assert "demo:notes" in listed.out


async def test_without_a_yes_nothing_is_installed_and_nothing_has_run(rig):
    write_plugin(rig.folder / "one")
    mark = rig.folder / "ran"
    write(rig.folder / "one" / "guard.sh", f"#!/bin/sh\ntouch {mark}\n", 0o755)
    with trio.fail_after(LIMIT_S):
        added = await command(rig, "plugin", "add", str(rig.folder / "one"))
        assert added.code == 2
        assert "guard.sh" in added.out
        assert "--yes" in added.err
        listed = await command(rig, "plugin", "list")
        assert "no plugins" in listed.out
        assert (await command(rig, "plugin", "add", str(rig.folder / "one"), "--yes")).code == 0
        removed = await command(rig, "plugin", "remove", "demo")
        assert removed.code == 0, removed.err
    assert not mark.exists()
    assert not (rig.home / "plugins" / "cache" / "local").exists()


async def test_a_projects_configuration_selects_and_restricts_what_is_installed(rig):
    write_plugin(rig.folder / "one")
    (rig.work / ".git").mkdir()
    config = rig.work / ".swarm" / "config.toml"

    async def skills():
        assert (await command(rig, "trust", "--yes")).code == 0
        return (await command(rig, "skills", "list")).out

    with trio.fail_after(LIMIT_S):
        words = ("plugin", "add", str(rig.folder / "one"), "--yes", "--no-enable")
        assert (await command(rig, *words)).code == 0
        assert "demo:notes" not in (await command(rig, "skills", "list")).out
        write(config, '[plugins."demo@local"]\nenabled = true\n')
        assert "demo:notes" not in (await command(rig, "skills", "list")).out  # not trusted yet
        assert "demo:notes" in await skills()
        write(config, '[plugins."demo@local"]\nenabled = false\n')
        assert (await command(rig, "plugin", "enable", "demo")).code == 0
        assert "demo:notes" not in await skills()
        write(config, '[plugins."demo@local"]\nenabled = true\n')
        assert (await command(rig, "plugin", "disable", "demo")).code == 0
        assert "demo:notes" not in await skills()
