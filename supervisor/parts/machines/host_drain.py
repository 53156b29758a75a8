"""A person takes machines out of a live run."""

from swarm.mailbox.protocol.control import Done, Refused
from swarm.mailbox.protocol.host_records import HostDrained

from ...part_access.part_host import PartHost
from ..hosts.placement.known_nodes import Node

_WHY = "a person asked for it"


def drain_host(host: PartHost, wanted: str) -> Done | Refused:
    """Start no agent on these machines any more; those that are there finish, then swarm leaves."""
    found = _find(host, wanted)
    if not found:
        known = ", ".join(host.hosts.nodes) or "none"
        return Refused(message=f"no machine {wanted!r} is in this run; there are: {known}")
    if len(found) > 1 and wanted not in host.hosts.tables:
        names = ", ".join(node.facts.name for node in found)
        return Refused(message=f"{wanted!r} may be each of these machines: {names}")
    return Done(message="\n".join(_drain(host, node) for node in found))


def _find(host: PartHost, wanted: str) -> list[Node]:
    nodes = list(host.hosts.nodes.values())
    exact = [node for node in nodes if wanted in {node.facts.name, node.facts.host}]
    return exact or [node for node in nodes if wanted and node.facts.name.endswith(wanted)]


def _drain(host: PartHost, node: Node) -> str:
    name, left = node.facts.name, len(node.children)
    if host.hosts.drain(node, _WHY):
        host.note(HostDrained(node=name, reason=_WHY))
    agents = {0: "no agent is there", 1: "1 agent there finishes"}.get(
        left, f"{left} agents there finish"
    )
    return f"{name} gets no new agents; {agents}"
