"""Messages between the supervisor and the hub, the process that is connected to MCP servers."""

import msgspec

from .elicitation import ElicitationAction, ElicitationAnswer
from .events import Goodbye, Heartbeat, Hello, Warned
from .mcp import McpOutcome, McpQuestion, McpTools
from .ops import Shutdown
from .server_sampling import SamplingAction, SamplingAnswer
from .settings import KeepSecrets
from .spec import HubSpec
from .values.base import Tagged, Value


class ListTools(Tagged):
    """The tools of these servers, which are started if need be. The reply is `ToolsListed`.

    With a query, and with `again`, as in `mcp.ListMcpTools`.
    """

    request: int  # unique in one process of the hub
    agent: str  # id of the agent
    servers: tuple[str, ...]
    query: str = ""
    again: bool = False


class CallTool(Tagged):
    """Call a tool for an agent. The reply is `ToolCalled`."""

    request: int
    agent: str  # id of the agent
    server: str
    tool: str
    arguments: bytes  # a JSON object


class AskServers(Tagged):
    """Ask servers for resources or prompts. The reply is `ToolCalled`."""

    request: int
    agent: str  # id of the agent
    servers: tuple[str, ...]
    question: McpQuestion


class CancelCall(Tagged):
    """Nobody waits for this request any more. It still gets its reply."""

    request: int


class ReleaseAgent(Tagged):
    """The agent's process has ended: so do servers that were started for it alone."""

    agent: str


class ToolsListed(Tagged):
    request: int
    tools: McpTools


class ToolCalled(Tagged):
    request: int
    outcome: McpOutcome


class CallProgressed(Tagged):
    """Transient: what a server says of a running call. Bounded by the hub, at most one a second."""

    request: int
    text: str


class ServerLogged(Tagged):
    """What a server wrote to its standard error, or sent as log messages. Bounded by the hub."""

    server: str
    text: str


class PersonAsked(Tagged):
    """A server asks a person something during calls. The reply is `PersonAnswered`.

    The question belongs to the first of `requests`; a server may leave open for which of its calls
    it asks, so the others are those that may be meant too.
    """

    question: int  # unique in one process of the hub
    requests: tuple[int, ...]  # `CallTool.request`
    action: ElicitationAction


class ModelAsked(Tagged):
    """A server asks the model of the agent whose call runs. The reply is `ModelAnswered`.

    `requests` are as in `PersonAsked`.
    """

    question: int
    requests: tuple[int, ...]
    action: SamplingAction


class QuestionWithdrawn(Tagged):
    """Nobody waits for the answer of a person or a model any more."""

    question: int


class PersonAnswered(Tagged):
    """A person's answer to a server's question; `content` is a JSON object."""

    question: int
    answer: ElicitationAnswer
    content: bytes = b"{}"


class ModelAnswered(Tagged):
    """What the model wrote, or why it was not asked."""

    question: int
    answer: SamplingAnswer


class LoginOrder(Value):
    """A person's login with a server over HTTP.

    `paste_from` is a descriptor that the process inherits; -1: nobody pastes an address.
    """

    scopes: tuple[str, ...] = ()
    callback_port: int = 0  # 0: any
    browser: bool = True  # open one, if there is one
    timeout_s: float = 300.0
    paste_from: int = -1
    keep: KeepSecrets = "auto"  # where the login is stored


class LoginDone(Value):
    """`failure` is "" unless there is no login. Of a logout: why the server was not told."""

    status: str = ""  # as lists show it
    scopes: tuple[str, ...] = ()
    failure: str = ""


class HubOrder(Value):
    """What `swarm mcp` asks of the hub's code, outside of a run.

    The first that is given counts: `login`, `logout`, `tool`; without any: list the tools.
    """

    spec: HubSpec
    credentials: dict[str, str] = {}
    server: str = ""
    tool: str = ""
    arguments: bytes = b"{}"
    question: McpQuestion | None = None  # in place of a tool
    # to a form that the server asks for during the call, by field; None: it is declined
    answers: dict[str, tuple[str, ...]] | None = None
    login: LoginOrder | None = None
    logout: bool = False


AnyHubEvent = (
    Hello
    | Heartbeat
    | Goodbye
    | Warned
    | ToolsListed
    | ToolCalled
    | CallProgressed
    | ServerLogged
    | PersonAsked
    | ModelAsked
    | QuestionWithdrawn
)
AnyHubOp = (
    Shutdown
    | ListTools
    | CallTool
    | AskServers
    | CancelCall
    | ReleaseAgent
    | PersonAnswered
    | ModelAnswered
)

encode_hub_event = msgspec.msgpack.Encoder().encode
decode_hub_event = msgspec.msgpack.Decoder(AnyHubEvent).decode
encode_hub_op = msgspec.msgpack.Encoder().encode
decode_hub_op = msgspec.msgpack.Decoder(AnyHubOp).decode
