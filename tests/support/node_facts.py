"""Nodes as their driver tells of them."""

from swarm.mailbox.protocol.hosts import NodeFacts, NodeUsage
from swarm.mailbox.protocol.nodes import NodeCard

MIB = 1 << 20


def facts(name="lab/a", slots=2, **resources):
    card = NodeCard(
        port=1, public_key=b"", pid=1, version="1", python="3", system="Linux", sandbox="bwrap",
        processors=4.0,
    )  # fmt: skip
    return NodeFacts(
        name=name, host=name.partition("/")[0], address="10.0.0.1", slots=slots, card=card,
        resources=resources,
    )  # fmt: skip


def usage(*, memory=1024, disk=1024, round_trip_ms=1.0, node="lab/a"):
    return NodeUsage(
        node=node, load=1.5, free_memory_bytes=memory * MIB, free_disk_bytes=disk * MIB,
        clock_offset_s=0.0, round_trip_ms=round_trip_ms,
    )  # fmt: skip
