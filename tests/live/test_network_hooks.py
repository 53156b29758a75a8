"""Hooks decide about hosts that a command wants to reach, in whole runs."""

import json
import shutil

import pytest
import trio

from support.proxy_testbed import serving
from swarm.mailbox.protocol.events import HookRan
from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]
LIMIT_S = 60
ASKS = (
    "-c", "network.enabled=true", "-c", "network.allow_local_binding=true", "--reviewer", "person",
)  # fmt: skip
ALLOW = {"behavior": "allow"}
DENY = {"behavior": "deny", "message": "that host is not ours"}
SCRIPT = """
import json, sys
asked = json.load(sys.stdin)["tool_input"]
if asked["description"].startswith("network-access http://127.0.0.1:") and "curl" in asked["command"]:
    print(json.dumps({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": DECISION}}))
"""  # noqa: E501


async def fetch(rig, decision, *, answer=None):
    """A run that fetches from a local server: its end, and what the server has received."""
    hook = SCRIPT.replace("DECISION", repr(decision))
    folder = rig.work / ".swarm"
    folder.mkdir()
    (rig.work / ".git").mkdir(exist_ok=True)
    (folder / "decide.py").write_text(hook)
    entries = {
        "PermissionRequest": "/usr/bin/python3 -I .swarm/decide.py",
        "ApprovalRequested": "cat > /dev/null",
    }
    table = {
        event: [
            {
                "matcher": "^Bash$",
                "hooks": [{"type": "command", "command": command, "may_allow": True}],
            }
        ]
        for event, command in entries.items()
    }
    (folder / "hooks.json").write_text(json.dumps({"hooks": table}))
    with trio.fail_after(LIMIT_S), serving() as server:
        trusted = await (await rig.start("trust", "--yes")).wait_end()
        assert trusted.code == 0, trusted.err
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        command = f"curl -sS -m 20 --noproxy '' {url} 2>&1"
        call = {"name": "exec_command", "arguments": {"cmd": command, "yield_time_ms": 30_000}}
        script = rig.script({"calls": [call]}, {"text": "done"})
        run = await rig.run(script, "-p", "go", *ASKS, sandbox="workspace-write")
        if answer is not None:
            (asked,) = await rig.wait(lambda: rig.bodies(ApprovalRequested))
            await (await rig.start(answer, asked.approval_id)).wait_end()
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    return list(server.received)


def events_of(rig):
    return [body.event for body in rig.bodies(HookRan)]


async def test_a_hook_allows_a_host_once_and_nobody_else_is_asked(rig):
    received = await fetch(rig, ALLOW)
    assert len(received) == 1
    assert [(one.outcome, one.by) for one in rig.bodies(ApprovalResolved)] == [("approved", "hook")]
    assert events_of(rig).count("PermissionRequest") == 1


async def test_a_hook_denies_a_host_and_nobody_else_is_asked(rig):
    assert await fetch(rig, DENY) == []
    assert rig.bodies(ApprovalRequested) == []
    assert events_of(rig) == ["PermissionRequest"]
    assert "was blocked" in rig.outputs()[0]


async def test_a_person_decides_about_a_host_where_hooks_say_nothing(rig):
    received = await fetch(rig, {"behavior": "ask"}, answer="approve")
    assert len(received) == 1
    assert [one.by for one in rig.bodies(ApprovalResolved)] == ["person"]
    assert "ApprovalRequested" in events_of(rig)
