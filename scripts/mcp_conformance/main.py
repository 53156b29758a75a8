"""Runs the official suite's scenarios and prints a table; exit code 1 if a row is not as expected.

Usage: main.py NODE SUITE SWARM [--fast]. `--fast`: only a few client scenarios.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

BESIDE = Path(__file__).parent
CLIENT = (
    "initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry",
    *(
        f"auth/{name}"
        for name in (
            "metadata-default", "metadata-var1", "metadata-var2", "metadata-var3", "basic-cimd",
            "scope-from-www-authenticate", "scope-from-scopes-supported",
            "scope-omitted-when-undefined", "scope-step-up", "scope-retry-limit",
            "token-endpoint-auth-basic", "token-endpoint-auth-post", "token-endpoint-auth-none",
            "pre-registration", "2025-03-26-oauth-metadata-backcompat",
            "2025-03-26-oauth-endpoint-fallback", "resource-mismatch", "offline-access-scope",
            "offline-access-not-supported", "client-credentials-jwt", "client-credentials-basic",
            "cross-app-access-complete-flow",
        )
    ),
)  # fmt: skip
FAST = ("initialize", "tools_call", "auth/metadata-default", "auth/scope-step-up")
# The features that `swarm mcp-server` has; the suite's others call tools of the suite's own.
SERVER = (
    "server-initialize", "ping", "tools-list", "resources-list", "dns-rebinding-protection",
    "server-sse-multiple-streams",
)  # fmt: skip
# Why a row may fail (docs/mcp.md says it to people).
EXPECTED = {
    "auth/2025-03-26-oauth-metadata-backcompat": "its metadata names another issuer",
    "auth/cross-app-access-complete-flow": "no exchange of an identity provider's token",
}
_LIMIT_S = 240  # a busy machine is slow, not wrong
_SIDE_BY_SIDE = 2


class Row(NamedTuple):
    """What the suite says of one scenario."""

    scenario: str
    passed: int
    failed: int
    warned: int
    detail: str

    @property
    def is_good(self) -> bool:
        """Nothing failed, and something was checked."""
        return self.passed > 0 and self.failed == 0


def run_client(node: str, suite: str, swarm: str, scenario: str) -> Row:
    """One scenario, with swarm's commands as the client."""
    command = f"{sys.executable} {BESIDE / 'client.py'} {swarm}"
    return _run((node, suite, "client", "--command", command, "--timeout", "220000"), scenario)


def run_server(node: str, suite: str, url: str, scenario: str) -> Row:
    """One scenario, with a server that listens at `url`."""
    return _run((node, suite, "server", "--url", url), scenario)


def _run(words: tuple[str, ...], scenario: str) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [*words, "--scenario", scenario, "-o", folder], cwd=folder,
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_S,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Row(scenario, 0, 0, 0, f"no end within {_LIMIT_S} s")
        found = sorted(Path(folder).rglob("checks.json"))
        checks: list[dict[str, str]] = json.loads(found[-1].read_text("utf-8")) if found else []
    states = [one["status"] for one in checks]
    wrong = [one for one in checks if one["status"] in {"FAILURE", "WARNING"}]
    detail = "; ".join(one.get("errorMessage") or one["description"] for one in wrong)
    return Row(
        scenario, states.count("SUCCESS"), states.count("FAILURE"), states.count("WARNING"),
        detail if checks else f"no checks: {done.stderr[-300:]}",
    )  # fmt: skip


def _client_rows(node: str, suite: str, swarm: str, names: tuple[str, ...]) -> list[Row]:
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        return list(pool.map(partial(run_client, node, suite, swarm), names))


def _server_rows(node: str, suite: str, swarm: str) -> list[Row]:
    """The rows of `swarm mcp-server --http`. It wants a token: a forwarder adds it."""
    with tempfile.TemporaryDirectory() as folder:
        token = secrets.token_urlsafe(24)
        port = _free_port()
        environment = {**os.environ, "SWARM_HOME": folder, "SWARM_MCP_TOKEN": token}
        server = subprocess.Popen(
            [swarm, "mcp-server", "--http", f"127.0.0.1:{port}"], env=environment, cwd=folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        proxy = subprocess.Popen(
            [node, str(BESIDE / "with_token.mjs"), str(port), token], stdout=subprocess.PIPE
        )
        try:
            _wait_for(port)
            assert proxy.stdout is not None
            url = f"http://127.0.0.1:{int(proxy.stdout.readline())}/mcp"
            return [run_server(node, suite, url, name) for name in SERVER]
        finally:
            for process in (proxy, server):
                process.terminate()
                process.wait(20)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _wait_for(port: int) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("swarm mcp-server does not listen")


def print_rows(title: str, rows: list[Row]) -> bool:
    """Print a table; True if every row is as expected."""
    print(f"\n{title}")
    is_expected = True
    for row in rows:
        state = "ok" if row.is_good else "expected" if row.scenario in EXPECTED else "FAILED"
        is_expected &= state != "FAILED"
        counts = f"{row.passed:3} passed {row.failed:2} failed {row.warned:2} warned"
        reason = "" if row.is_good else EXPECTED.get(row.scenario, "")
        print(f"  {state:8} {counts}  {row.scenario}  {reason or row.detail[:160]}")
    return is_expected


def main() -> int:
    """Run and print."""
    node, suite, swarm, *words = sys.argv[1:]
    names = FAST if "--fast" in words else tuple(one for one in words if one in CLIENT) or CLIENT
    is_expected = print_rows("client: swarm mcp", _client_rows(node, suite, swarm, names))
    if not words:
        is_expected &= print_rows("server: swarm mcp-server", _server_rows(node, suite, swarm))
    return int(not is_expected)


if __name__ == "__main__":
    raise SystemExit(main())
