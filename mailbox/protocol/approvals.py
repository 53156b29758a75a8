"""Approval requests, their outcomes and grants. Values only.

One queue serves the whole tree: an action that an agent may not decide itself becomes an
`ApprovalRequest`. The supervisor assigns its id. A missing answer never counts as approval.
"""

from typing import Literal

from .changes import FileChange
from .elicitation import ElicitationAction
from .mcp import McpAnnotations
from .parsed_command import ParsedCommand
from .server_sampling import SamplingAction
from .values.base import Tagged, Value

SandboxPermissions = Literal["use_default", "require_escalated", "with_additional_permissions"]
Cause = Literal[
    "untrusted",  # the policy asks about every command
    "dangerous",  # it deletes files by force
    "destructive",  # it discards work that no later command restores
    "escalation",  # it would run outside the sandbox
    "permissions",  # it wants more rights than the sandbox gives
    "retry",  # the sandbox stopped it; it would run again outside
    "rule",  # a rule file says "prompt"
    "patch",  # it would write where the agent may not
    "commit",  # it would write the repository's own data
    "network",  # it would reach a host that is not allowed yet
    "question",  # the model asks a person something
    "mcp_tool",  # it would call a tool of an MCP server
    "hook",  # a hook wants it to be asked about
    "elicitation",  # an MCP server asks a person something
    "sampling",  # an MCP server asks the agent's model something
]


class ExtraPermissions(Value):
    """Rights beyond the sandbox policy. Paths are absolute and canonical."""

    network: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class LossPreview(Value):
    """What a destructive action would delete, found by a dry run."""

    summary: str  # one line: "removes 214 files (3.1 MB) below build/"
    count: int = 0
    size_bytes: int = 0
    paths: tuple[str, ...] = ()  # at most the first 20
    kept: bool = False  # the run's store holds a copy of all of it


class CommandAction(Tagged, tag="command"):
    """A command as it would be started."""

    argv: tuple[str, ...]
    cwd: str
    tool: str = "exec_command"
    script: str = ""  # what the model wrote
    tty: bool = False
    permissions: SandboxPermissions = "use_default"
    extra: ExtraPermissions | None = None
    sandboxed: bool = True  # False: it would run without any sandbox
    commits_in: str = ""  # the repository whose data it would write
    parsed_cmd: tuple[ParsedCommand, ...] = ()  # as in CommandCall
    resolved_cwd: str = ""  # where links in `cwd` lead; "" if there are none
    # Why agents could change what it runs; then no lasting yes covers it.
    unheld: str = ""
    # Outside of the sandbox: digests of files that agents may write and that it names. A lasting
    # yes holds while they are the same.
    files: dict[str, str] = {}


class PatchAction(Tagged, tag="patch"):
    cwd: str
    files: tuple[str, ...]  # absolute
    changes: tuple[FileChange, ...] = ()  # diffs are cut


class NetworkAction(Tagged, tag="network"):
    host: str
    port: int
    protocol: Literal["http", "https", "socks5_tcp", "socks5_udp"]
    trigger: str = ""  # the command that causes it


class McpToolAction(Tagged, tag="mcp_tool"):
    """A call of a tool of an MCP server. All texts but the server's name are untrusted."""

    server: str
    tool: str
    arguments: str  # JSON
    description: str = ""
    annotations: McpAnnotations = McpAnnotations()
    source: str = ""  # where the server is configured
    schema: str = ""  # of the arguments
    digest: str = ""  # of all that the server says of the tool
    open_world: bool = True  # its results may hold what strangers wrote
    changed: tuple[str, ...] = ()  # what is different from when it was approved, line by line
    always: str = ""  # the setting that scope `always` saves; "" = none can be


class PermissionsAction(Tagged, tag="permissions"):
    permissions: ExtraPermissions


class QuestionOption(Value):
    label: str
    description: str = ""


class PersonQuestion(Value):
    """One question from a model. A person may also answer with other text than the options."""

    id: str
    header: str
    question: str
    options: tuple[QuestionOption, ...]


class QuestionsAction(Tagged, tag="questions"):
    """Only a person can answer these; no reviewer is asked."""

    questions: tuple[PersonQuestion, ...]


AnyAction = (
    CommandAction
    | PatchAction
    | NetworkAction
    | McpToolAction
    | PermissionsAction
    | QuestionsAction
    | ElicitationAction
    | SamplingAction
)


class ApprovalRequest(Value):
    """One action that waits for an answer.

    `keys` name what a grant for more than this once would cover, as canonical JSON texts. All of
    them must be covered. () means that the answer can only be for once.
    """

    action: AnyAction
    cause: Cause
    turn_id: str = ""
    call_id: str = ""
    reason: str = ""  # why approval is needed, or the model's justification
    retry_reason: str = ""  # what failed before
    keys: tuple[str, ...] = ()
    proposed_prefix: tuple[str, ...] = ()  # the rule that scope `always` would write; () = none
    proposed_exact: bool = False  # that rule is for these words alone
    preview: LossPreview | None = None
    allowed_by_hook: str = ""  # id of a hook that allowed it once


Scope = Literal["once", "session", "subtree", "always"]
DecidedBy = Literal["person", "guardian", "grant", "hook", "nobody"]
ApprovalOutcome = Literal[
    "approved",
    "denied",  # somebody said no
    "failed",  # the reviewer's output could not be read
    "timed_out",  # no answer by the deadline
    "aborted",  # denied, and the turn ends
    "unavailable",  # there is nobody to ask
]


class ApprovalGrant(Value):
    """A person's approval of more than one action. It never allows more than it names."""

    grant_id: str
    path: str  # the agent it holds for
    below: bool = False  # and all agents below it
    keys: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()  # plain commands that begin with these words
    exact: bool = False  # these words alone
    permissions: ExtraPermissions | None = None
    commits_in: str = ""  # may write objects, index and refs of this repository
    uses: int | None = None  # None: unlimited


class PendingApproval(Value):
    """An entry of the approval queue, as people see it."""

    approval_id: str  # short, unique in the run
    agent: str  # path
    request: ApprovalRequest
    reviewer: Literal["person", "guardian"]
    asked_at: float = 0.0  # unix seconds
    # Not empty: a reviewer recently denied it; approving it now grants exactly this action.
    denied: str = ""
    # Some text of the request is shortened here: nothing may be approved before the whole was seen.
    is_short: bool = False
