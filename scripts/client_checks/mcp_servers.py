"""swarm as the client of servers made with real MCP SDKs, old and new, over stdio and HTTP.

Usage: mcp_servers.py NODE PYTHON SWARM FOLDER. PYTHON is of the environment with the old SDKs,
FOLDER is empty. Each server offers the same tools; `swarm mcp` and an agent of `swarm run` call
them.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
_RESTART = 75  # the exit code of a server that wants to be started anew
_LIMIT_S = 120


class Call(NamedTuple):
    """A call of a tool, words that its result must have, and how it ends."""

    tool: str
    arguments: dict[str, object]
    words: str
    status: str = "completed"


class Server(NamedTuple):
    """A server under test: its name in the configuration, and the words of its command."""

    name: str
    command: tuple[str, ...]
    calls: tuple[Call, ...]
    is_http: bool = False


LEFT_HTTP = Call("leave", {}, "the server starts anew")
ODD = {"pair": [1, "a"], "tree": {"name": "root", "children": [{"name": "leaf"}]}}


def sdk_calls(version: str, *, is_http: bool) -> tuple[Call, ...]:
    """What an agent calls of a server that was made with an SDK; `leave` ends its process."""
    greeting = f"nothing needed, says {version}"
    left = LEFT_HTTP if is_http else Call("leave", {}, "the server ended", "failed")
    return (
        Call("nothing", {}, greeting),
        Call("maybe", {}, "{}"),
        Call("maybe", {"note": "a note"}, "a note"),
        Call("odd", ODD, "leaf"),
        Call("odd", {**ODD, "either": ["b"], "more": {"deep": {}}, "bare": [1, None]}, "deep"),
        Call("measure", {}, "width"),
        Call("fails", {}, "it is out of paper", "failed"),
        Call("long", {}, "line 3999 of a long text"),
        Call("slow", {}, "all steps"),
        left,
        Call("nothing", {}, greeting),  # in a new process, and in a new session
        Call("maybe", {}, "{}"),
    )


def servers_of(node: str, python: str, folder: Path) -> list[Server]:
    """All of them; files that servers write at their end lie in `folder`."""
    first, second = (
        str(HERE / "servers/typescript_sdk_1.mjs"),
        str(HERE / "servers/typescript_sdk_2.mjs"),
    )
    program = str(HERE / "servers/python_sdk.py")
    sdks = (  # its name, its version, the words before and after the place, whether it speaks HTTP
        ("ts120", "1.20.2", (node, first, "sdk-1.20"), (), True),
        ("ts132", "1.32.2", (node, first, "sdk-1.32"), (), True),
        ("ts24", "2.4.0", (node, second), (), True),
        ("py12", "1.2.1", (python, program), (str(HERE / "sdks/mcp-1.2"),), False),
        ("py19", "1.9.4", (python, program), (), True),
        ("py2", "2.3.0", (sys.executable, program), (), True),
    )
    found: list[Server] = []
    for name, version, before, after, has_http in sdks:
        stdio = (*before, str(folder / name), *after)
        found.append(Server(name, stdio, sdk_calls(version, is_http=False)))
        if has_http:
            http = (*before, "http", *after)
            found.append(
                Server(f"{name}_http", http, sdk_calls(version, is_http=True), is_http=True)
            )
    beside = Path(python).parent
    asked = {"query": "x", "platforms": []}
    refused = Call("paper_search", asked, "no search platforms are enabled", "failed")
    unnamed = Call("cnb_list_groups", {}, "error", "failed")  # there is no network
    for name, program, call in (
        ("rust22", "paper-search-rs", refused),
        ("rust17", "cnb-rs-mcp", unnamed),
    ):
        if (beside / program).exists():
            found.append(Server(name, (str(beside / program),), (call,)))
    return found


@contextmanager
def listening(server: Server, work: Path) -> Iterator[str]:
    """Keep a server over HTTP alive, on one socket from start to start; its address.

    When it was started anew, so that its old connections are gone, `work` has a file that says so.
    What it writes is in a file beside `work`.
    """
    log = work.with_name(f"{server.name}.log").open("wb")
    with log, socket.create_server(("127.0.0.1", 0)) as sock:
        started: list[subprocess.Popen[bytes]] = []
        environment = {**os.environ, "LISTEN_FD": str(sock.fileno())}
        is_over = threading.Event()

        def keep() -> None:
            while not is_over.is_set():
                child = subprocess.Popen(
                    server.command, stdin=subprocess.DEVNULL, env=environment,
                    pass_fds=(sock.fileno(),), stdout=log, stderr=log,
                )  # fmt: skip
                started.append(child)
                if child.wait() != _RESTART:
                    break
                (work / f"{server.name}.anew").touch()

        thread = threading.Thread(target=keep)
        thread.start()
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"
        finally:
            is_over.set()
            for child in started:
                child.send_signal(signal.SIGKILL)
            thread.join()


def write_settings(home: Path, folder: Path, servers: list[Server], urls: dict[str, str]) -> None:
    """The configuration of the person who uses these servers."""
    lines: list[str] = []
    for one in servers:
        lines += [f"[mcp_servers.{one.name}]", 'default_tools_approval_mode = "approve"']
        if one.is_http:
            lines.append(f"url = {json.dumps(urls[one.name])}")
            continue
        lines.append(f"command = {json.dumps(one.command[0])}")
        lines.append(f"args = {json.dumps(one.command[1:])}")
        lines.append(f"cwd = {json.dumps(str(HERE))}")  # their libraries lie here; /tmp is hidden
        lines.append(f"writable_roots = [{json.dumps(str(folder))}]")
    (home / "config.toml").write_text("\n".join(lines) + "\n")


class Faults(list[str]):
    """What was not as it must be."""

    def expect(self, is_right: bool, what: str) -> None:  # noqa: FBT001
        if not is_right:
            self.append(what)


def run_swarm(swarm: str, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SWARM_HOME": str(home)}
    return subprocess.run(
        [swarm, *words], cwd=home.parent / "work", env=environment, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=_LIMIT_S, check=False,
    )  # fmt: skip


def check_tools(swarm: str, home: Path, servers: list[Server], faults: Faults) -> None:
    """`swarm mcp tools`: every tool of every server is there."""
    ended = run_swarm(swarm, home, "mcp", "tools", "--json")
    listed: dict[str, Any] = json.loads(ended.stdout)
    faults.expect(ended.returncode == 0, f"mcp tools: exit code {ended.returncode}: {ended.stderr}")
    found = {(one["server"], one["tool"]) for one in listed["tools"]}
    missing = {(one.name, call.tool) for one in servers for call in one.calls} - found
    faults.expect(not missing, f"mcp tools: missing {sorted(missing)}: {ended.stdout[-500:]}")


def check_typed_calls(swarm: str, home: Path, names: tuple[str, ...], faults: Faults) -> None:
    """`swarm mcp call`: without arguments, a long result, an error."""
    typed = (
        ("nothing", 0, "nothing needed"),
        ("long", 0, "line 2000 of"),
        ("fails", 1, "out of paper"),
    )
    for name, (tool, code, words) in zip(names, typed, strict=True):
        ended = run_swarm(swarm, home, "mcp", "call", name, tool)
        told = ended.stdout + ended.stderr
        is_right = ended.returncode == code and words in told
        faults.expect(is_right, f"mcp call {name} {tool}: {ended.returncode}: {told[-500:]}")


def check_run(swarm: str, home: Path, servers: list[Server], faults: Faults) -> None:
    """`swarm run`: one agent calls all tools of all servers, one after the other."""
    calls = [(one.name, call) for one in servers for call in one.calls]
    turns: list[dict[str, object]] = []
    for name, call in calls:
        asked = {"name": f"mcp__{name}__{call.tool}", "arguments": call.arguments}
        turns.append({"agent": "/root", "calls": [asked]})
        if call.words == LEFT_HTTP.words:
            wait = f"timeout 30 sh -c 'until [ -e {name}.anew ]; do sleep 0.1; done'"
            turns.append(
                {"agent": "/root", "calls": [{"name": "exec_command", "arguments": {"cmd": wait}}]}
            )
    script = home / "answers.yaml"
    script.write_text(json.dumps({"turns": [*turns, {"agent": "/root", "text": "done"}]}))
    words = ("--provider", f"scripted:{script}", "--reviewer", "nobody", "--json")
    ended = run_swarm(swarm, home, "run", "-p", "Call them.", *words)
    faults.expect(
        ended.returncode == 0, f"run: exit code {ended.returncode}: {ended.stderr[-2000:]}"
    )
    events: list[dict[str, Any]] = [json.loads(line) for line in ended.stdout.splitlines()]
    items = [
        one["item"]
        for one in events
        if one["type"] == "item.completed" and one["item"]["type"] == "mcp_tool_call"
    ]
    faults.expect(len(items) == len(calls), f"run: {len(items)} of {len(calls)} calls")
    for (name, call), item in zip(calls, items, strict=False):
        told = json.dumps(item, ensure_ascii=False)
        is_right = (item["server"], item["tool"], item["status"]) == (name, call.tool, call.status)
        faults.expect(is_right and call.words in told, f"run: {name} {call}: {told[:700]}")
    shown = {
        one.get("message", "").partition(":")[0] for one in events if one["type"] == "agent.status"
    }
    silent = [
        one.name
        for one in servers
        if "rust" not in one.name and f"MCP server {one.name}" not in shown
    ]
    faults.expect(not silent, f"run: no progress was shown of {silent}")


def main() -> int:
    node, python, swarm, place = sys.argv[1:]
    home, folder = Path(place, "home"), Path(place, "saved")
    for made in (home, folder, Path(place, "work")):
        made.mkdir()
    servers = servers_of(node, python, folder)
    faults = Faults()
    with ExitStack() as stack:
        urls = {
            one.name: stack.enter_context(listening(one, home.parent / "work"))
            for one in servers
            if one.is_http
        }
        write_settings(home, folder, servers, urls)
        check_tools(swarm, home, servers, faults)
        check_typed_calls(swarm, home, ("ts120", "ts120_http", "py12"), faults)
        for saved in folder.iterdir():
            saved.unlink()
        check_run(swarm, home, servers, faults)
    for one in servers:
        is_saved = one.is_http or "rust" in one.name or (folder / one.name).exists()
        faults.expect(is_saved, f"{one.name}: it was killed before it could save its file")
    for fault in faults:
        print(f"mcp-servers: {fault}")
    if not faults:
        names = ", ".join(one.name for one in servers)
        count = sum(len(one.calls) for one in servers)
        print(f"mcp-servers: an agent made {count} calls of {len(servers)} servers: {names}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
