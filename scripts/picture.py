"""Make docs/tree.svg: a real run of scripted agents over this repository, drawn in its middle.

Run it as `.venv/bin/python -P scripts/picture.py` after the console changed.
"""

import subprocess
import sys
import tempfile
import time
from functools import partial
from os import environ
from pathlib import Path

import trio

from swarm.mailbox.control_channel import send_control_request
from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.control import (
    GetSnapshot,
    RunView,
    Snapshot,
    decode_control_reply,
    encode_control,
)
from swarm.supervisor.console.tree_view import export_svg
from swarm.supervisor.runs.paths import find_run, find_user_paths, paths_of_run

ROOT = Path(__file__).parent.parent

RUN = ROOT / "scripts" / "picture_run"  # the task and the scripted answers


async def look(endpoint: str) -> RunView | None:
    """The run as it is now; None while nobody answers yet."""
    try:
        reply = await send_control_request(endpoint, encode_control(GetSnapshot()), timeout_s=2)
    except SwarmError:
        return None
    answer = decode_control_reply(reply)
    return answer.view if isinstance(answer, Snapshot) else None


def main() -> int:
    """Start the run, wait until several agents work and some are done, draw, end it."""
    with tempfile.TemporaryDirectory(prefix="sw-") as home:
        environment = dict(environ) | {"SWARM_HOME": home, "XDG_RUNTIME_DIR": home}
        command = [sys.executable, "-P", "-m", "swarm.supervisor.cli.entry", "run", "--json"]
        command += [str(RUN / "task.md"), "--provider", "scripted:scripts/picture_run/answers.yaml"]
        run = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.DEVNULL)
        try:
            places, deadline = find_user_paths(environment), time.monotonic() + 30
            while time.monotonic() < deadline:
                time.sleep(0.2)
                if not any(places.runs.glob("*/run.json")):
                    continue
                endpoint = paths_of_run(places, find_run(places, None)).control_endpoint
                view = trio.run(partial(look, endpoint))
                working = sum(bool(agent.tool) for agent in view.agents) if view else 0
                if view is not None and working >= 3 and view.fan_done >= 2:
                    svg = export_svg(view, now=time.time(), title="swarm run task.md")
                    (ROOT / "docs" / "tree.svg").write_text(svg, encoding="utf-8")
                    return 0
        finally:
            run.terminate()
            run.wait(30)
    return 1


if __name__ == "__main__":
    sys.exit(main())
