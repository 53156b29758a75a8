"""Make the trees in docs: real runs of scripted agents, drawn in their middle.

Run it as `.venv/bin/python -P scripts/picture.py [tree] [copies] [machines]` after the console
changed. `machines` starts a Ray cluster of three nodes here.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from os import environ
from pathlib import Path
from typing import NamedTuple

import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.delivery.control_channel import send_control_request
from swarm.mailbox.protocol.control import (
    GetSnapshot,
    RunView,
    Snapshot,
    decode_control_reply,
    encode_control,
)
from swarm.supervisor.clients.console.tree_view import export_svg
from swarm.supervisor.runs.paths import find_run, find_user_paths, paths_of_run

ROOT = Path(__file__).parent.parent


class Picture(NamedTuple):
    """A scripted run, and the moment at which it is drawn."""

    task: Path
    answers: Path
    project: Path  # any other than this repository is copied first: its agents write
    file: str
    is_now: Callable[[RunView], bool]
    machines: int = 0  # of a cluster that is started for it


def _several_work(view: RunView) -> bool:
    return sum(bool(agent.tool) for agent in view.agents) >= 3 and view.fan_done >= 2


def _most_have_ended(view: RunView) -> bool:
    copies = [agent for agent in view.agents if agent.in_copy]
    return len(copies) == 6 and sum(agent.state == "ended" for agent in copies) >= 4


def _are_everywhere(view: RunView) -> bool:
    return len({agent.node for agent in view.agents if agent.node}) == 3 and _most_have_ended(view)


async def look(endpoint: str) -> RunView | None:
    """The run as it is now; None while nobody answers yet."""
    try:
        reply = await send_control_request(endpoint, encode_control(GetSnapshot()), timeout_s=2)
    except SwarmError:
        return None
    answer = decode_control_reply(reply)
    return answer.view if isinstance(answer, Snapshot) else None


PICTURES = {
    "tree": Picture(
        ROOT / "scripts" / "picture_run" / "task.md",
        ROOT / "scripts" / "picture_run" / "answers.yaml",
        ROOT,
        "tree.svg",
        _several_work,
    ),
    "copies": Picture(
        ROOT / "examples" / "refactor.md",
        ROOT / "examples" / "refactor" / "answers.yaml",
        ROOT / "examples" / "refactor" / "project",
        "copies.svg",
        _most_have_ended,
    ),
    "machines": Picture(
        ROOT / "examples" / "refactor.md",
        ROOT / "examples" / "refactor" / "answers.yaml",
        ROOT / "examples" / "refactor" / "project",
        "machines.svg",
        _are_everywhere,
        machines=3,
    ),
}


@contextmanager
def cluster_of(machines: int, home: Path) -> Iterator[None]:
    """A Ray cluster, and the table that names it."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    for _ in range(machines):
        cluster.add_node(num_cpus=1, include_dashboard=False)
    (home / "config.toml").write_text(f'[hosts.lab]\nray = "{cluster.address}"\nslots = 4\n')
    try:
        yield
    finally:
        cluster.shutdown()


def draw(picture: Picture) -> int:
    """Start the run, wait for its moment, draw, end it; 1 if the moment did not come."""
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="sw-"))
        environment = dict(environ) | {"SWARM_HOME": home, "XDG_RUNTIME_DIR": home}
        command = [
            sys.executable,
            "-P",
            "-m",
            "swarm.supervisor.clients.cli.entry",
            "run",
            "--json",
        ]
        command += [str(picture.task), "--provider", f"scripted:{picture.answers}"]
        if picture.machines:
            stack.enter_context(cluster_of(picture.machines, Path(home)))
            command += ["--hosts", "lab"]
        cwd = picture.project
        if cwd != ROOT:
            cwd = Path(home) / cwd.name
            shutil.copytree(picture.project, cwd)
        run = subprocess.Popen(command, env=environment, cwd=cwd, stdout=subprocess.DEVNULL)
        try:
            places, deadline = find_user_paths(environment), time.monotonic() + 30
            while time.monotonic() < deadline:
                time.sleep(0.02)
                if not any(places.runs.glob("*/run.json")):
                    continue
                endpoint = paths_of_run(places, find_run(places, None)).control_endpoint
                view = trio.run(partial(look, endpoint))
                if view is not None and picture.is_now(view):
                    title = f"swarm run {picture.task.name}"
                    svg = export_svg(view, now=time.time(), title=title)
                    (ROOT / "docs" / picture.file).write_text(svg, encoding="utf-8")
                    return 0
        finally:
            run.terminate()
            run.wait(30)
    return 1


if __name__ == "__main__":
    names = sys.argv[1:] or [*PICTURES]
    sys.exit(max(draw(PICTURES[name]) for name in names))
