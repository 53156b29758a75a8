"""Runs whose MCP servers are real programs, above all `mcp_server_program.py`, which misbehaves."""

import json
import sys
from pathlib import Path

LIMIT_S = 60
PROGRAM = str(Path(__file__).parent / "mcp_server_program.py")
OFFERS = str(Path(__file__).parent / "mcp_offers_program.py")
BESIDE = Path(sys.executable).parent


def configure(rig, *words, name="odd", more="", program=PROGRAM):
    """Configure the program as a server; it may write its marks."""
    marks = rig.folder / "marks"
    marks.mkdir(exist_ok=True)
    arguments = json.dumps([program, *words])
    with (rig.home / "config.toml").open("a") as file:
        file.write(
            f'[mcp_servers.{name}]\ncommand = "{sys.executable}"\nargs = {arguments}\n'
            f'env = {{ MARKS = "{marks}/{name}" }}\nwritable_roots = ["{marks}"]\n{more}\n'
        )


def marks(rig, name="odd"):
    path = rig.folder / "marks" / name
    return path.read_text().splitlines() if path.exists() else []


def call(tool, server="odd", **arguments):
    return {"name": f"mcp__{server}__{tool}", "arguments": arguments}


def ends(*calls, agent="/root"):
    return [{"agent": agent, "calls": [one]} for one in calls] + [
        {"agent": agent, "text": "{last_output}"}
    ]


async def run(rig, *turns, words=()):
    given = ("--reviewer", "nobody", *words)
    started = await rig.run(rig.script(*turns), *given, sandbox="workspace-write")
    return await started.wait_end()
