"""Messages between the supervisor and the process that drives nodes on other machines."""

import msgspec

from .events import Goodbye, Heartbeat, Hello, Warned
from .nodes import NodeCard, PrepareCopies
from .ops import Shutdown
from .values.base import Tagged, Value


class ShippedFolder(Value):
    """A folder that goes to nodes as it is when it is first wanted there."""

    tree: str  # its name there
    path: str  # where it lies here; canonical
    grows: bool = False  # what it gained since goes too, whenever there is a new base


class ShipCopy(Tagged):
    """Send what an agent's copy consists of, as far as the node lacks it.

    The reply is `CopyShipped`.
    """

    request: int  # unique in one process of the driver
    node: str
    agent_id: str
    base: int  # number of the base of its copy
    roots: int  # how many folders are copied
    layers: tuple[ShippedFolder, ...] = ()  # the agent's own; what it changes there comes back
    folders: tuple[ShippedFolder, ...] = ()


class PrepareRemote(Tagged):
    """Have a node prepare copies. The reply is `RemotePrepared`."""

    node: str
    order: PrepareCopies  # its `request` as in `ShipCopy`


class StartRemote(Tagged):
    """Start a process on a node. The reply is `RemoteStarted` or `RemoteRefused`."""

    request: int
    node: str
    spec: bytes  # of `AgentSpec` or `HubSpec`
    title: str
    identity: bytes  # under which it may send mail
    keys: dict[str, str] = {}  # as in `nodes.StartAgent`


class SignalRemote(Tagged):
    """As `nodes.SignalAgent`."""

    node: str
    pid: int
    number: int = 0


class FetchLayers(Tagged):
    """Bring what an agent has changed so far. The reply is `LayersStored`."""

    node: str
    agent_id: str


class GatewayAt(Tagged):
    """Where the gateway listens now."""

    endpoint: str


class DrainNode(Tagged):
    """End a node once no agent is left on it."""

    node: str


AnyNodeOrder = ShipCopy | PrepareRemote | StartRemote | SignalRemote | FetchLayers
AnyHostsOp = AnyNodeOrder | GatewayAt | DrainNode | Shutdown


class NodeFacts(Value):
    """A node as people and the supervisor see it."""

    name: str
    host: str  # the table of the configuration that it belongs to
    address: str
    slots: int
    card: NodeCard
    resources: dict[str, float] = {}  # as Ray knows them, with those of its own names


class MachineFound(Value):
    """One machine as `swarm hosts probe` found it, or why there is none."""

    host: str
    machine: str = ""
    address: str = ""
    problem: str = ""
    round_trip_ms: float = 0.0
    bytes_per_s: float = 0.0  # to it
    clock_offset_s: float = 0.0
    resources: dict[str, float] = {}
    card: NodeCard | None = None


class NodeJoined(Tagged):
    """Agents can be started there."""

    node: NodeFacts


class NodeLost(Tagged):
    """No process of the run is left there, or none that can do anything."""

    node: str
    reason: str


class HostUnusable(Tagged):
    """A table's machines cannot be had now; the driver keeps trying."""

    host: str
    reason: str


class NodeUsage(Tagged):
    """Transient: how a node does."""

    node: str
    load: float
    free_memory_bytes: int
    free_disk_bytes: int
    clock_offset_s: float
    round_trip_ms: float


class CopyShipped(Tagged):
    request: int
    problem: str = ""
    is_lost: bool = False  # the node is lost: another one may do


class RemotePrepared(Tagged):
    request: int
    node: str
    seconds: float = 0.0
    problem: str = ""
    is_lost: bool = False  # as above


class RemoteStarted(Tagged):
    request: int
    node: str
    pid: int
    warm: bool = True


class RemoteRefused(Tagged):
    request: int
    reason: str
    is_lost: bool = False  # as above
    broken_node: str = ""  # the node, if it is of no use any more


class RemoteEnded(Tagged):
    """A process that was started on a node has ended, or its node is lost."""

    node: str
    pid: int
    exit_code: int | None = None
    signal: int | None = None
    stderr_tail: str = ""
    reason: str = ""


class LayersStored(Tagged):
    """The agent's layers are in the run's folder, as they were after they were asked for."""

    agent_id: str
    problem: str = ""


AnyHostsEvent = (
    Hello
    | Heartbeat
    | Goodbye
    | Warned
    | NodeJoined
    | NodeLost
    | HostUnusable
    | NodeUsage
    | CopyShipped
    | RemotePrepared
    | RemoteStarted
    | RemoteRefused
    | RemoteEnded
    | LayersStored
)

encode_hosts_op = msgspec.msgpack.Encoder().encode
encode_hosts_event = msgspec.msgpack.Encoder().encode
decode_hosts_op = msgspec.msgpack.Decoder(AnyHostsOp).decode
decode_hosts_event = msgspec.msgpack.Decoder(AnyHostsEvent).decode
