"""Clients made with real MCP SDKs, old and new, with `swarm mcp-server` as their server.

Usage: mcp_clients.py NODE PYTHON SWARM FOLDER, as mcp_servers.py. Each client lists the tools and
starts a run whose first action is asked about. Nobody can answer: the action is not done, and no
call waits for ever.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_LIMIT_S = 90
_SIDE_BY_SIDE = 2
TOOLS = [f"swarm_{name}" for name in ("run", "status", "send", "result", "approve", "stop")]
ANSWERS = {
    "turns": [
        {"calls": [{"name": "exec_command", "arguments": {"cmd": "rm -rf build"}}]},
        {"text": "It may not be removed."},
    ]
}


def clients_of(node: str, python: str) -> dict[str, list[str]]:
    """Their names and commands, without swarm's."""
    script, program = str(HERE / "clients/typescript_sdk.mjs"), str(HERE / "clients/python_sdk.py")
    return {
        "TypeScript 1.20": [node, script, "sdk-1.20"],
        "TypeScript 1.32": [node, script, "sdk-1.32"],
        "TypeScript 2.4": [node, script, "2"],
        "Python 1.2": [python, program, str(HERE / "sdks/mcp-1.2")],
        "Python 1.9": [python, program, ""],
        "Python 2.3": [sys.executable, program, ""],
    }


def play(swarm: str, folder: Path, client: tuple[str, list[str]]) -> list[str]:
    """Run one client; what was not as it must be."""
    name, command = client
    place = folder / name.replace(" ", "-")
    (place / "work" / "build").mkdir(parents=True)
    script = place / "answers.yaml"
    script.write_text(json.dumps(ANSWERS))
    words = ["-C", str(place / "work"), "--provider", f"scripted:{script}"]
    asking = ["--sandbox", "danger-full-access", "-a", "untrusted"]
    # As on a person's machine: under CI nobody is ever asked.
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    environment = {**kept, "SWARM_HOME": str(place / "home")}
    try:
        ended = subprocess.run(
            [*command, swarm, *words, *asking], env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [f"{name}: no end within {_LIMIT_S} s"]
    if ended.returncode != 0:
        return [f"{name}: {(ended.stdout + ended.stderr)[-1500:]}"]
    plays: list[dict[str, Any]] = json.loads(ended.stdout)
    faults = [f"{name}: {fault}" for at, one in enumerate(plays) for fault in check(one, at)]
    if not (place / "work" / "build").exists():
        faults.append(f"{name}: what nobody allowed was done")
    return faults


def check(played: dict[str, Any], number: int) -> list[str]:
    """What is wrong with what one client saw; the second one (1) said that it can be asked."""
    faults = [] if played["tools"] == TOOLS else [f"tools: {played['tools']}"]
    run = json.dumps(played["run"])
    expected = "It may not be removed." if number else "approval_needed"
    if expected not in run or not played["hasRuns"] or bool(played["asked"]) != bool(number):
        faults.append(f"asked {played['asked']} times, and then: {run[:700]}")
    return faults


def main() -> int:
    node, python, swarm, place = sys.argv[1:]
    clients = clients_of(node, python)
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        faults = sum(pool.map(partial(play, swarm, Path(place)), clients.items()), list[str]())
    for fault in faults:
        print(f"mcp-clients: {fault}")
    if not faults:
        print(f"mcp-clients: a run whose action nobody allows, by {', '.join(clients)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
