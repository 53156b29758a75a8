"""Servers as older SDKs made them, and odd ones, are as useful as a newer one would be."""

import json
import re
import shutil
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trio

from support.mcp_testbed import LIMIT_S, call, ends, run
from swarm.supervisor.clients.cli.main import run_cli

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
PROGRAM = str(Path(__file__).parents[1] / "support" / "mcp_old_server_program.py")


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys):
    """Type a command: its exit code, standard output and standard error."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("SWARM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")

    def run_typed(*words):
        code = run_cli(["mcp", *words])
        return code, *capsys.readouterr()

    return run_typed


@pytest.fixture
def old_server(tmp_path, typed):
    """Configure the old server with an oddity; returns the lines that it wrote."""
    folder = tmp_path / "work" / "marks"
    folder.mkdir()

    def configure(oddity, startup_s=10):
        (tmp_path / "home" / "config.toml").write_text(
            f'[mcp_servers.old]\ncommand = "{sys.executable}"\n'
            f"args = {json.dumps([PROGRAM, oddity])}\nstartup_timeout_sec = {startup_s}\n"
            f'env = {{ MARKS = "{folder}/marks" }}\nwritable_roots = ["{folder}"]\n'
        )
        return lambda: (folder / "marks").read_text().split("\n")

    return configure


def text_of(ended):
    """The text of the one part that a successful call answered."""
    code, out, err = ended
    assert code == 0, err
    (part,) = json.loads(out)
    return part["text"]


def test_a_tool_without_arguments_is_called_with_an_empty_object(typed, old_server):
    old_server("strict")
    assert text_of(typed("call", "old", "good", "{}")) == "{}"
    assert text_of(typed("call", "old", "good")) == "{}"


def test_a_server_that_ends_at_an_unknown_first_request_is_started_again_without_it(
    typed, old_server
):
    marks = old_server("ends")
    assert text_of(typed("call", "old", "good", '{"a": 1}')) == '{"a": 1}'
    assert marks().count("start") == 2


def test_a_server_that_leaves_an_unknown_first_request_unanswered_is_used(typed, old_server):
    marks = old_server("silent")
    assert text_of(typed("call", "old", "good", '{"a": 1}')) == '{"a": 1}'
    assert marks().count("start") == 1


def test_one_odd_tool_costs_itself_and_its_neighbours_live(typed, old_server):
    old_server("odd")
    code, out, err = typed("tools", "old", "--json")
    assert code == 0, err
    found = {one["tool"] for one in json.loads(out)["tools"]}
    assert found == {"good", "empty", "no_schema", "text_out", "either"}
    code, out, _ = typed("call", "old", "empty")
    assert code == 0
    assert "ok" in out
    assert "hologram" in out


class ForgetfulServer(BaseHTTPRequestHandler):
    """Knows a session for three requests; then it answers as `refusal` says."""

    protocol_version = "HTTP/1.1"
    refusal = (404, {"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "not found"}})
    sessions: list[int] = []
    calls = 0
    path_of_endpoint = "/mcp"
    padding = ""  # behind each result

    def do_POST(self):
        if self.path != self.path_of_endpoint:
            self.rfile.read(int(self.headers["content-length"]))
            return self.answer(307, None, location=self.path_of_endpoint)
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        session = self.headers.get("mcp-session-id")
        method = request["method"]
        if method == "initialize":
            self.sessions.append(3)
            told = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "f", "version": ""},
            }
            return self.answer(200, self.result(request, told), session=len(self.sessions))
        if session is None:
            error = {
                "jsonrpc": "2.0",
                "id": None,
                "error": {"code": -32600, "message": "no session"},
            }
            return self.answer(400, error)
        left = self.sessions[int(session) - 1] = self.sessions[int(session) - 1] - 1
        if left < 0:
            return self.answer(*self.refusal)
        if method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("good", "two")]
            return self.answer(200, self.result(request, {"tools": tools}))
        if method == "tools/call":
            type(self).calls += 1
            text = f"call {self.calls} in session {session}{self.padding}"
            content = [{"type": "text", "text": text}]
            return self.answer(200, self.result(request, {"content": content}))
        return self.answer(202, None)

    def do_GET(self):
        self.answer(405, None)

    def do_DELETE(self):
        self.answer(200, None)

    def result(self, request, told):
        return {"jsonrpc": "2.0", "id": request["id"], "result": told}

    def answer(self, status, body, session=None, location=None):
        is_text = isinstance(body, str)
        data = b"" if body is None else body.encode() if is_text else json.dumps(body).encode()
        self.send_response(status)
        if session is not None:
            self.send_header("mcp-session-id", str(session))
        if location is not None:
            self.send_header("location", location)
        self.send_header("content-type", "text/plain" if is_text else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        pass


@pytest.fixture(
    params=[
        (404, None),
        (404, {"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "gone"}}),
        (
            400,
            {
                "jsonrpc": "2.0",
                "id": None,
                "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"},
            },
        ),
        (400, "Bad Request: No valid session ID provided"),  # the Python SDK 1.9
        (422, {"detail": "this session has expired"}),
    ],
    ids=["404", "404 with a body", "400", "400 in plain text", "422 with a body of its own"],
)
def forgetful(request):
    with serving_forgetful(refusal=request.param) as served:
        yield served


@contextmanager
def serving_forgetful(**settings):
    """The handler, and the address that is configured."""
    handler = type("Handler", (ForgetfulServer,), {**settings, "sessions": [], "calls": 0})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield handler, f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()
        thread.join()


async def test_a_session_that_a_server_forgot_is_begun_anew_and_the_call_made_once(rig, forgetful):
    await play_forgotten_sessions(rig, *forgetful)


async def test_an_endpoint_that_its_server_moved_is_as_good_as_the_one_that_was_named(rig):
    refusal = (400, "Bad Request: No valid session ID provided")
    moved = {"path_of_endpoint": "/mcp/", "padding": " x" * (600 << 10)}
    with serving_forgetful(refusal=refusal, **moved) as served:
        await play_forgotten_sessions(rig, *served)


async def play_forgotten_sessions(rig, handler, url):
    (rig.home / "config.toml").write_text(
        f'[mcp_servers.far]\nurl = "{url}"\ndefault_tools_approval_mode = "approve"\n'
    )
    with trio.fail_after(LIMIT_S):
        done = await run(rig, *ends(*(call("good", server="far") for _ in range(3))))
    assert done.code == 0, done.err
    told = [re.search(r"call \d in session \d", one) for one in rig.outputs()]
    assert [one and one[0] for one in told] == [
        "call 1 in session 1", "call 2 in session 2", "call 3 in session 3",
    ]  # fmt: skip
    assert handler.calls == 3
