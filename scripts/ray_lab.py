"""A Ray cluster of several nodes on one machine, each a raylet of its own.

`up` starts a process that holds the cluster and names it `lab` in your configuration, so that
`swarm run --hosts lab` works; `down` takes that back and ends the process, and with it every node.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_STATE = Path(os.environ.get("XDG_RUNTIME_DIR", "/tmp")) / f"swarm-ray-lab-{os.getuid()}.json"
_SWARM = [sys.executable, "-P", "-m", "swarm.supervisor.clients.cli.entry", "config"]
_LIMIT_S, _SLOTS = 120.0, 8


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/ray-lab")
    parser.add_argument("what", choices=("up", "down", "hold"))
    parser.add_argument("nodes", nargs="?", type=int, default=3)
    said = parser.parse_args()
    return {"up": up, "down": down, "hold": hold}[said.what](said.nodes)


def up(nodes: int) -> int:
    """Start the holder, wait for its address, and write it down."""
    if _STATE.exists() and _holder() is not None:
        print("a lab runs already: scripts/ray-lab down", file=sys.stderr)
        return 2
    _STATE.unlink(missing_ok=True)
    print(f"starting Ray with {nodes} nodes ...", file=sys.stderr)
    holder = subprocess.Popen(
        [sys.executable, "-P", __file__, "hold", str(nodes)], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + _LIMIT_S
    while not _STATE.exists():
        if holder.poll() is not None or time.monotonic() > until:
            print("the cluster did not start; its logs are in /tmp/ray", file=sys.stderr)
            return 1
        time.sleep(0.2)
    address = json.loads(_STATE.read_text())["address"]
    for key, value in (("ray", json.dumps(address)), ("slots", str(_SLOTS))):
        subprocess.run([*_SWARM, "set", f"hosts.lab.{key}", value], check=True)
    print("ready: swarm run TASK.md --hosts lab", file=sys.stderr)
    return 0


def hold(nodes: int) -> int:
    """The cluster, until SIGTERM."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(nodes - 1):
        cluster.add_node(num_cpus=1)
    fresh = _STATE.with_suffix(".new")
    fresh.write_text(json.dumps({"address": cluster.address, "pid": os.getpid()}))
    fresh.replace(_STATE)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while True:
            signal.pause()
    finally:
        cluster.shutdown()
        _STATE.unlink(missing_ok=True)


def down(_nodes: int) -> int:
    """End the holder."""
    holder = _holder()
    if holder is None:
        print("no lab runs", file=sys.stderr)
        return 2
    os.kill(holder, signal.SIGTERM)
    until = time.monotonic() + _LIMIT_S
    while _STATE.exists() and time.monotonic() < until:
        time.sleep(0.2)
    return subprocess.run([*_SWARM, "unset", "hosts.lab"], check=False).returncode


def _holder() -> int | None:
    """Its pid, if it lives."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        pid = int(json.loads(_STATE.read_text())["pid"])
        if b"ray_lab" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    return None


if __name__ == "__main__":
    sys.exit(main())
