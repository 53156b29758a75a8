"""A real Ray cluster for tests, and runs whose agents work on its machines."""

import contextlib
import os
import signal

from swarm.mailbox.protocol.host_records import HostJoined, HostLeft
from swarm.mailbox.protocol.records import AgentSpawned


@contextlib.contextmanager
def cluster(nodes, **last):
    """A cluster of so many nodes, each with one processor; `last` is what the last one has."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            made.add_node(num_cpus=1, **last)
        yield made
    finally:
        made.shutdown()


HOLD = "until test -e go; do sleep 0.02; done"


def write_host(rig, address, name="lab", **more):
    """A table of this name in the person's configuration."""
    config = rig.home / "config.toml"
    text = config.read_text() if config.exists() else ""
    lines = [f"[hosts.{name}]", f'ray = "{address}"']
    lines += [f"{key} = {value}" for key, value in {"slots": 1, **more}.items()]
    config.write_text("\n".join([text, *lines, ""]))


def nodes_of(rig):
    """The newest machine of each agent."""
    return {one.path: one.node for one in rig.bodies(AgentSpawned)}


async def let_go(rig, machines):
    """Let commands that hold go on, once so many machines have joined."""
    await rig.wait(lambda: len(joined(rig)) >= machines)
    (rig.work / "go").touch()


def joined(rig):
    """The names of machines that are there."""
    gone = {one.node for one in rig.bodies(HostLeft)}
    return {one.node for one in rig.bodies(HostJoined)} - gone if rig.has_run else set()


def titled(rig, title):
    """Pids of this run's processes that are called so."""
    return [pid for pid, name in rig.alive().items() if name.startswith(f"swarm: {title}")]


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
