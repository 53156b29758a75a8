"""MCP as values: configured servers, their tools, and an agent's requests about them.

The supervisor knows the requesting agent by its socket, checks what the agent's limits allow, and
passes the request on to the hub. Names, texts, schemas and results of servers are untrusted.
"""

from typing import Literal

from .values.base import Tagged, Value

ApprovalMode = Literal["auto", "prompt", "approve"]
OauthGrant = Literal["authorization_code", "client_credentials"]  # a person, a program
SamplingMode = Literal["off", "prompt", "approve"]


class McpToolApproval(Value):
    tool: str  # the server's own name
    mode: ApprovalMode
    digest: str = ""  # it holds only while the tool is described as this says; "" = always


class McpServerSettings(Value):
    """What `[mcp_servers.NAME]` says that counts as it stands."""

    args: tuple[str, ...] = ()
    cwd: str = ""  # absolute; "" = the run's
    scopes: tuple[str, ...] = ()  # what a login asks for; empty: what the server says
    oauth_resource: str = ""  # what a login is for; "": the server's address
    oauth_client_id: str = ""  # of a client that is registered already, or a document's address
    oauth_grant: OauthGrant = "authorization_code"
    oauth_issuer: str = ""  # the authorization server of a program's client
    required: bool = False
    enabled_tools: tuple[str, ...] | None = None  # None: all
    disabled_tools: tuple[str, ...] = ()
    writable_roots: tuple[str, ...] = ()  # absolute
    network: bool = False
    per_agent: bool = False  # each agent gets a process of its own
    # What its results hold comes from elsewhere; None: as each tool says of itself.
    open_world: bool | None = None
    sampling: SamplingMode = "off"  # whether it may ask the model of the agent that calls it


class McpServer(McpServerSettings, kw_only=True):
    """A configured server. It holds no values of variables or headers: only the hub gets these.

    `environment` and `headers` map a name to the key of its value among the hub's credentials.
    """

    name: str
    command: str = ""  # of a stdio server
    url: str = ""  # of a server over streamable HTTP
    environment: dict[str, str] = {}
    headers: dict[str, str] = {}
    bearer: str = ""  # key of the token; "" = none
    oauth_client_secret: str = ""  # key of its secret; "" = none
    oauth_client_key: str = ""  # key of the private key with which a program proves itself
    parallel: bool = False  # its calls may run side by side
    startup_timeout_s: float = 30.0
    tool_timeout_s: float = 120.0
    approval: ApprovalMode = "auto"
    tool_approvals: tuple[McpToolApproval, ...] = ()  # in place of `approval`
    sandboxed: bool = True
    on_node: bool = False  # it runs on the machine of the agent that calls it
    idle_s: float = 300.0
    source: str = ""  # where it is configured, for people
    closed: tuple[str, ...] = ()  # what it consists of in the project: closed to the run's agents


class McpAnnotations(Value):
    """What a server says of a tool; None: it says nothing. Hints, never proof."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class McpTool(Value):
    """A tool as an agent offers it to its model."""

    server: str
    tool: str  # the server's own name for it
    name: str  # for the model: at most 64 of [A-Za-z0-9_]
    description: str = ""
    parameters: bytes = b"{}"  # JSON schema of the arguments; an object
    annotations: McpAnnotations = McpAnnotations()
    approval: ApprovalMode = "auto"
    parallel: bool = False
    source: str = ""  # where its server is configured
    digest: str = ""  # of all that the server says of it: an approval holds for exactly this
    output_schema: bytes = b""  # JSON schema of structured results; empty: there is none
    open_world: bool = True  # its results may hold what strangers wrote
    has_changed: bool = False  # it was approved for always, as something else


class McpFailure(Value):
    """A server whose tools are missing, and why."""

    server: str
    reason: str


class ListMcpTools(Tagged):
    """The tools of the servers that this agent may use. The reply is `McpTools`.

    With a query: those that fit it, best first. With `again`: as they are known, or as a server
    that has said that they changed lists them now; no server that was used before is started.
    """

    query: str = ""
    again: bool = False


class CallMcpTool(Tagged):
    """Call a tool. The reply is `McpOutcome`, within the server's time limit and a margin.

    The end of the turn cancels the call, and its server is told so.
    """

    call_id: str
    server: str
    tool: str
    arguments: bytes = b"{}"  # a JSON object
    keep_over_bytes: int = 0  # text beyond it is stored, to be read on; 0: none is


class ListMcpResources(Tagged):
    """The resources of one server or of all that the agent may use. The reply is `McpOutcome`."""

    server: str = ""  # "" = all
    cursor: str = ""  # where the list of one server goes on
    templates: bool = False  # templates of addresses instead


class ReadMcpResource(Tagged):
    """Read a resource. The reply is `McpOutcome`."""

    server: str
    uri: str
    keep_over_bytes: int = 0  # as in `CallMcpTool`


class ReadMcpResult(Tagged):
    """Read on in a text that was stored. The reply is `McpOutcome` with one piece of it."""

    address: str
    offset: int = 0  # in bytes
    limit_bytes: int = 16_384


class ListMcpPrompts(Tagged):
    """The prompts of one server. The reply is `McpOutcome`."""

    server: str


class GetMcpPrompt(Tagged):
    """The messages of a prompt. The reply is `McpOutcome`."""

    server: str
    name: str
    words: tuple[str, ...] = ()  # its arguments: `NAME=VALUE`, or values in the declared order


McpQuestion = ListMcpResources | ReadMcpResource | ListMcpPrompts | GetMcpPrompt


class McpTools(Tagged):
    """Sorted by server and tool; those of a search by how well they fit.

    In a list of many, the schemas of the last ones may be left out: a search has them whole.
    """

    tools: tuple[McpTool, ...] = ()
    failures: tuple[McpFailure, ...] = ()
    resources: tuple[str, ...] = ()  # those of the servers that have resources


class McpText(Tagged, tag="text"):
    text: str


class McpImage(Tagged, tag="image"):
    data: bytes
    mime: str


McpPart = McpText | McpImage


class McpOutcome(Tagged):
    """How a call ended. Bounded by the hub.

    completed: the server answered; `is_error` is its own word. interrupted: server or hub died
    while it ran, and it may have had its effect. failed: it did not begin, or broke the protocol.
    """

    state: Literal["completed", "interrupted", "timed_out", "failed"]
    parts: tuple[McpPart, ...] = ()
    is_error: bool = False
    message: str = ""  # unless completed: why
    duration_s: float = 0.0
    is_structured: bool = False  # its one text is the whole structured content, as JSON
    address: str = ""  # under which its whole text is stored; "" = it is not
    size_bytes: int = 0  # of the text that is stored
