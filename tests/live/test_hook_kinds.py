"""Hooks of every type and key in whole runs: what each may do, and what it may not."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from support.hook_files import call, outputs, patch, ran, run_trusted, texts, write_groups
from support.mcp_testbed import configure, marks

pytestmark = pytest.mark.live
DONE = {"text": "done"}
CLAUDE = ".claude/settings.json"
DENIED = {"decision": "block", "reason": "the address says no"}


@pytest.fixture
def address():
    """A server on loopback that records what it is sent, and answers with `reply`."""

    class Server(HTTPServer):
        reply = (200, json.dumps(DENIED).encode())

        def __init__(self):
            super().__init__(("127.0.0.1", 0), Handler)
            self.seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            server.seen.append((dict(self.headers), json.loads(body)))
            status, data = server.reply
            self.send_response(status)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = Server()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def http(server, host="127.0.0.1", **more):
    url = f"http://{host}:{server.server_port}/hook?a=b"
    return {"type": "http", "url": url, "network": True, **more}


async def test_an_address_decides_about_a_call_and_gets_only_named_variables(rig, address):
    headers = {"X-Shell": "$SHELL", "X-Home": "$HOME"}
    hook = http(address, headers=headers, allowedEnvVars=["SHELL"])
    write_groups(rig, CLAUDE, {"PreToolUse": [("Bash", hook)]})
    ended = await run_trusted(rig, {"calls": [call("touch made")]}, DONE)
    assert ended.code == 0, ended.err
    assert outputs(rig) == ["the address says no"]
    ((sent, given),) = address.seen
    assert (sent["X-Shell"], sent["X-Home"]) == ("/bin/sh", "")
    assert sent["Content-Type"] == "application/json"
    assert given["tool_input"]["command"] == "touch made"


async def test_an_address_that_fails_closes_only_if_the_hook_says_so(rig, address):
    address.reply = (500, b"{}")
    events = {"PreToolUse": [("Bash", http(address, on_failure="deny"))]}
    write_groups(rig, CLAUDE, events)
    await run_trusted(rig, {"calls": [call("touch made")]}, DONE)
    assert "status 500" in outputs(rig)[0]
    assert not (rig.work / "made").exists()


async def test_an_mcp_tool_is_called_with_arguments_from_the_event_and_guards(rig):
    configure(rig)
    path = "${tool_input.file_path}"
    told = {"type": "mcp_tool", "server": "odd", "tool": "echo", "input": {"text": path}}
    guard = {"type": "mcp", "server": "odd", "tool": "fails", "on_failure": "deny"}
    write_groups(rig, CLAUDE, {"PreToolUse": [("Bash", guard)], "PostToolUse": [("Edit", told)]})
    turns = ({"calls": [call("touch made")]}, {"calls": [patch("a.txt")]}, DONE)
    ended = await run_trusted(rig, *turns)
    assert ended.code == 0, ended.err
    assert "the MCP tool failed" in outputs(rig)[0]
    assert not (rig.work / "made").exists()
    assert [one.status for one in ran(rig)] == ["failed", "completed"]
    assert any(f"{rig.work}/a.txt" in line for line in marks(rig))


async def test_a_tool_that_the_agent_may_not_use_is_not_called_by_its_hook(rig):
    hook = {"type": "mcp", "server": "none", "tool": "echo", "on_failure": "deny"}
    write_groups(rig, ".swarm/hooks.json", {"PreToolUse": [("Bash", hook)]})
    await run_trusted(rig, {"calls": [call("touch made")]}, DONE)
    assert "was not called" in ran(rig)[0].text
    assert not (rig.work / "made").exists()


async def test_a_question_to_the_model_blocks_by_a_no_alone(rig):
    hook = {"type": "prompt", "prompt": "Is this harmless? $ARGUMENTS"}
    write_groups(rig, CLAUDE, {"PreToolUse": [("Bash", hook)]})
    turns = (
        {"calls": [call("touch made")]},
        {"text": '{"ok": false, "reason": "it touches"}'},
        {"calls": [call("touch other")]},
        {"text": '{"ok": true, "reason": ""}'},
        DONE,
    )
    ended = await run_trusted(rig, *turns)
    assert ended.code == 0, ended.err
    assert outputs(rig)[0] == "it touches"
    assert not (rig.work / "made").exists()
    assert (rig.work / "other").exists()
    assert not any("Is this harmless" in text for text in texts(rig))


async def test_conditions_arguments_and_once_hold(rig):
    script = rig.work / "say.py"
    script.write_text("import sys\nprint(sys.argv[1:], file=open('said', 'a'))\n")
    args = ["${CLAUDE_PROJECT_DIR}/say.py", "a b", "$HOME"]
    events = {
        "PreToolUse": [
            ("Bash", {"command": "echo git >> guarded", "if": "Bash(git *)"}),
            ("Bash", {"command": "python3", "args": args, "once": True}),
        ]
    }
    write_groups(rig, CLAUDE, events)
    commands = ("true", "cd . && git --version", "echo hi")
    await run_trusted(rig, *({"calls": [call(one)]} for one in commands), DONE)
    assert (rig.work / "guarded").read_text() == "git\n"
    assert (rig.work / "said").read_text() == "['a b', '$HOME']\n"


async def test_a_hook_in_the_background_holds_nothing_up_and_adds_context_later(rig):
    said = {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": "later"}}
    slow = f"until [ -e go ]; do sleep 0.02; done; echo '{json.dumps(said)}'"
    events = {"PostToolUse": [("Bash", {"command": slow, "async": True})]}
    write_groups(rig, CLAUDE, events)
    waits = "touch go; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done"
    await run_trusted(rig, {"calls": [call("true")]}, {"calls": [call(waits)]}, DONE)
    assert ran(rig)[0].decision == "context"
    assert "later" in texts(rig)


async def test_the_end_of_a_session_and_a_wait_for_a_person_are_told(rig):
    told = {"command": "cat >> seen"}
    names = ("SessionStart", "SubagentStart", "SessionEnd", "PreCompact", "ApprovalRequested")
    events = {name: [("", told)] for name in (*names, "Notification")}
    events["Interrupt"] = [("", told)]
    write_groups(rig, CLAUDE, events)
    outside = call("touch x", sandbox_permissions="require_escalated", justification="a test")
    words = ("--reviewer", "person", "-c", 'approval_timeout="2s"')
    ended = await run_trusted(rig, {"calls": [outside]}, DONE, words=words)
    assert ended.code in (0, 1), ended.err
    seen = [json.loads(line) for line in (rig.work / "seen").read_text().splitlines()]
    assert [one["hook_event_name"] for one in seen] == [
        "SessionStart", "ApprovalRequested", "Notification", "SessionEnd"
    ]  # fmt: skip
    assert seen[1]["tool_input"]["command"] == "touch x"
    assert seen[2]["notification_type"] == "permission_prompt"
    assert seen[3]["reason"] == "other"
