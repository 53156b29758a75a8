"""What needs a yes before it is done, and what came of asking. Values only.

One queue serves the whole tree: what an agent may not decide by itself becomes an
`ApprovalRequest`; its id is given by the supervisor. Nobody's silence is ever a yes.
"""

from typing import Literal

from .base import Tagged, Value
from .changes import FileChange
from .parsed_command import ParsedCommand

SandboxPermissions = Literal["use_default", "require_escalated", "with_additional_permissions"]
Cause = Literal[
    "untrusted",  # the policy asks about every command
    "dangerous",  # it removes files by force
    "destructive",  # it throws away work that no later command brings back
    "escalation",  # it would run outside of the sandbox
    "permissions",  # it wants more than the sandbox gives
    "retry",  # the sandbox stopped it; it would run again outside
    "rule",  # a rule file wants it asked
    "patch",  # it would write where the agent may not
    "commit",  # it would write the repository's own data
    "network",  # it would reach a host that is not allowed yet
    "question",  # the model asks a person something
]


class ExtraPermissions(Value):
    """Rights beyond the sandbox policy. Paths are absolute and canonical."""

    network: bool = False
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class LossPreview(Value):
    """What a destructive action would throw away, found by a dry run."""

    summary: str  # one line: "removes 214 files (3.1 MB) below build/"
    count: int = 0
    size_bytes: int = 0
    paths: tuple[str, ...] = ()  # the first of them, at most 20
    kept: bool = False  # a copy of all of it is in the run's store


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


class PatchAction(Tagged, tag="patch"):
    cwd: str
    files: tuple[str, ...]  # absolute
    changes: tuple[FileChange, ...] = ()  # diffs are cut


class NetworkAction(Tagged, tag="network"):
    host: str
    port: int
    protocol: Literal["http", "https", "socks5_tcp", "socks5_udp"]
    trigger: str = ""  # the command that wants it


class PermissionsAction(Tagged, tag="permissions"):
    permissions: ExtraPermissions


class QuestionOption(Value):
    label: str
    description: str = ""


class PersonQuestion(Value):
    """One question of a model. Another answer than the choices is always possible."""

    id: str
    header: str
    question: str
    options: tuple[QuestionOption, ...]


class QuestionsAction(Tagged, tag="questions"):
    """Only a person can answer; no reviewer is asked."""

    questions: tuple[PersonQuestion, ...]


AnyAction = CommandAction | PatchAction | NetworkAction | PermissionsAction | QuestionsAction


class ApprovalRequest(Value):
    """One action that waits for an answer.

    `keys` name what a grant for longer than once would cover, as canonical JSON texts: all of them
    must be covered. None: the answer can only be for once.
    """

    action: AnyAction
    cause: Cause
    turn_id: str = ""
    call_id: str = ""
    reason: str = ""  # why it is asked, or the model's justification
    retry_reason: str = ""  # what went wrong before
    keys: tuple[str, ...] = ()
    proposed_prefix: tuple[str, ...] = ()  # the rule that `always` would write; () = none
    preview: LossPreview | None = None


Scope = Literal["once", "session", "subtree", "always"]
DecidedBy = Literal["person", "guardian", "grant", "nobody"]
ApprovalOutcome = Literal[
    "approved",
    "denied",  # somebody said no
    "failed",  # the reviewer could not say anything that can be read
    "timed_out",  # no answer by the deadline
    "aborted",  # no, and the turn ends
    "unavailable",  # nobody can be asked
]


class ApprovalGrant(Value):
    """A person's yes that holds longer than once. It only ever says yes to what it names."""

    grant_id: str
    path: str  # the agent it holds for
    below: bool = False  # and all agents below it
    keys: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()  # plain commands that begin with these words
    permissions: ExtraPermissions | None = None
    commits_in: str = ""  # may write objects, index and refs of this repository
    uses: int | None = None  # None: as often as wanted


class PendingApproval(Value):
    """An entry of the queue as people see it."""

    approval_id: str  # short, unique in the run
    agent: str  # path
    request: ApprovalRequest
    reviewer: Literal["person", "guardian"]
    asked_at: float = 0.0  # unix seconds
    # Not empty: a reviewer denied it lately; approving it now is a grant for exactly this action.
    denied: str = ""
