"""Messages between a node, which runs agents on another machine, and the process that drives it.

They go over an encrypted link (`mailbox/delivery/curve_link.py`), numbered and acknowledged as all
mail is.
"""

from typing import Literal

import msgspec

from .values.base import Tagged, Value


class HostEnvironment(Value):
    """What of a machine's environment commands there get, beyond what the run's own policy says."""

    inherit: Literal["all", "core", "none"] = "all"
    exclude: tuple[str, ...] = ()  # patterns of names
    set: dict[str, str] = {}


class HostSettings(Value):
    """What `[hosts.NAME]` says that counts as it stands."""

    ray: str  # an address as `ray.init` takes it: `auto`, `ray://HOST:10001`, `HOST:6379`
    slots: int = 0  # agents on each machine; 0: as many as it has processors
    resources: dict[str, float] = {}  # that Ray reserves on each machine: num_cpus, memory, others
    labels: dict[str, str] = {}  # only machines with these labels
    python: str = ""  # the interpreter there that has swarm; "": the one that Ray's workers run
    ship: tuple[str, ...] = ()  # ignored folders that travel, too: names or patterns of paths
    prepare: tuple[str, ...] = ()  # commands that make ignored folders there, once for each run


class HostTable(HostSettings, kw_only=True):
    """`[hosts.NAME]`: machines of one Ray cluster on which agents may run."""

    name: str
    environment: HostEnvironment = HostEnvironment()
    # a lock of packages with swarm, which is installed there: its files by name
    python_env: dict[str, str] = {}


class NodeOrder(Value):
    """What a node is given at its start, through its standard input. The pipe stays open: its end
    is the node's end.
    """

    run_id: str
    name: str  # of the node, as people see it
    epoch: int  # one for each start
    address: str  # where it listens
    driver_key: bytes  # the public key of the process that drives it
    cwd: str  # of the run: it must be there, or be made
    silence_s: float  # without a word from its driver for so long it ends, with all it started
    umask: int = 0o022  # of `swarm run`: what agents make there comes back with modes by it


class NodeCard(Value):
    """What a node says of itself, as the first line of its standard output."""

    port: int
    public_key: bytes
    pid: int
    version: str
    python: str
    system: str
    sandbox: str  # bwrap, landlock or none
    copies: str = ""  # why agents cannot work in copies here; "" = they can
    processors: float = 1.0
    memory_bytes: int = 0
    free_disk_bytes: int = 0
    tools: tuple[str, ...] = ()  # known programs that it has
    unix_s: float = 0.0


class StartAgent(Tagged):
    """Start a process for this spec. The reply is `AgentStarted` or `StartRefused`."""

    request: int  # unique in one life of the driver
    spec: bytes  # of `AgentSpec` or `HubSpec`, with the paths of the supervisor's machine
    title: str
    keys: dict[str, str] = {}  # of a hub: what its servers' tables name


class SignalAgent(Tagged):
    """Signal the process group. Number 0: kill the group and all that descends from the process."""

    pid: int
    number: int = 0


class TreePart(Tagged):
    """A part of a tree that agents' copies consist of: `bases/1/tree-0`, `agents/ID/0/upper`."""

    tree: str
    part: bytes = b""  # of `mailbox/base/tree_pack.py`
    is_last: bool = False
    after: str = ""  # in the first part: begin with what this earlier tree is


class CopiedPlace(Value):
    """A folder of which agents get a copy."""

    path: str  # canonical
    live: tuple[str, ...] = ()  # ignored folders in it that are shown from below


class PrepareCopies(Tagged):
    """Run commands in a copy, and show all agents what folders of tools they made there.

    The reply is `CopiesPrepared`. It comes once the base has.
    """

    request: int
    commands: tuple[str, ...]  # for `/bin/sh`
    base: int
    places: tuple[CopiedPlace, ...]
    cwd: str  # in one of them
    limit_s: float
    environment: dict[str, str] = {}  # over that machine's own


class SendLayers(Tagged):
    """Send what the agent's layers hold now. The reply is `LayersSent`."""

    agent_id: str


class EndNode(Tagged):
    """End all agents, send their layers, and leave."""

    grace_s: float = 5.0


AnyNodeOp = StartAgent | SignalAgent | TreePart | PrepareCopies | SendLayers | EndNode


class AgentStarted(Tagged):
    request: int
    pid: int
    warm: bool = True


class StartRefused(Tagged):
    """`is_broken`: the machine is of no use any more."""

    request: int
    reason: str
    is_broken: bool = False


class CopiesPrepared(Tagged):
    """`problem`: why nothing is there that commands were to make."""

    request: int
    problem: str = ""


class AgentLeft(Tagged):
    """The process has ended, all that it left is gone, and its layers were sent."""

    pid: int
    exit_code: int | None = None
    signal: int | None = None
    stderr_tail: str = ""
    reason: str = ""


class LayerPart(Tagged):
    """What an agent changed in its copy since the last time."""

    tree: str  # the layer: `agents/ID/0/upper`, `agents/ID/0/live-MARK/upper`
    part: bytes


class LayersSent(Tagged):
    """All layers of the agent are whole now, as they were at one moment after they were asked for.

    `problem`: why they are not.
    """

    agent_id: str
    problem: str = ""


class NodeBeat(Tagged):
    """Transient, every two seconds."""

    load: float  # of the machine, over a minute
    free_memory_bytes: int
    free_disk_bytes: int
    unix_s: float
    agents: int


class NodeWarned(Tagged):
    message: str


class NodeLeft(Tagged):
    """Nothing of the run is left on this machine but this process, which ends now."""


AnyNodeEvent = (
    AgentStarted
    | StartRefused
    | CopiesPrepared
    | AgentLeft
    | LayerPart
    | LayersSent
    | NodeBeat
    | NodeWarned
    | NodeLeft
)

encode_node_op = msgspec.msgpack.Encoder().encode
encode_node_event = msgspec.msgpack.Encoder().encode
encode_node_value = msgspec.msgpack.Encoder().encode
decode_node_op = msgspec.msgpack.Decoder(AnyNodeOp).decode
decode_node_event = msgspec.msgpack.Decoder(AnyNodeEvent).decode
decode_node_order = msgspec.msgpack.Decoder(NodeOrder).decode
decode_node_card = msgspec.msgpack.Decoder(NodeCard).decode
