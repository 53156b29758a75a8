"""Approval grants that outlast one answer: what each covers, for whom, and their journal replay.

A grant approves only what it names: an action that is not certainly the same is not covered. A
grant for one use is removed before its action runs.
"""

import hashlib
import re
import shlex
from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec

from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.approvals import (
    ApprovalGrant,
    ApprovalRequest,
    CommandAction,
    ExtraPermissions,
    McpToolAction,
    NetworkAction,
    PermissionsAction,
    QuestionsAction,
    Scope,
)
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.ops import LearnRule
from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved, GrantGiven, Record
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.rules.program_effects import find_more

_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
_SYSTEM_FOLDERS = ("/bin", "/usr/bin", "/usr/local/bin")
# Characters that have no special meaning in any shell; any other could hide a second command.
_PLAIN_WORDS = re.compile(r"[A-Za-z0-9_./:@%+,=-]+(?: +[A-Za-z0-9_./:@%+,=-]+)*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
# Causes that a saved prefix answers. It does not answer those that stem from a rule, a loss preview
# or a permission of their own.
_PREFIX_CAUSES = frozenset({"untrusted", "dangerous", "escalation", "retry"})
_ID = re.compile(r"a([0-9]{1,9})")


ANY_REPOSITORY = "*"  # in grants that were given before the run began


class ApprovalsPast(Value):
    """What a resumed run must know of its earlier approvals."""

    grants: tuple[ApprovalGrant, ...] = ()
    unanswered: tuple[tuple[str, str], ...] = ()  # (id, agent) of requests that a crash left open
    last_number: int = 0  # the highest number used in an id so far
    mcp_tools: tuple[McpToolAction, ...] = ()  # those that were approved, the last one last


class ApprovalGrants:
    """The grants that now hold in one run. The broker owns them; others may read them."""

    def __init__(self, grants: Iterable[ApprovalGrant] = ()) -> None:
        self._held = {grant.grant_id: grant for grant in grants}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, grant: ApprovalGrant) -> None:
        self._held[grant.grant_id] = grant

    def find(self, agent: str, request: ApprovalRequest) -> ApprovalGrant | None:
        """Return a grant that approves the request, or None. One with limited uses is the last
        choice.
        """
        mine = [grant for grant in self._held.values() if applies_to(grant, agent)]
        lasting = [grant for grant in mine if grant.uses is None]
        for grant in lasting:
            if _covers(grant, request):
                return grant
        if wanted := set(request.keys):  # several grants together may cover one request
            known = {key for grant in lasting for key in grant.keys}
            if wanted <= known:
                return next(grant for grant in lasting if wanted & set(grant.keys))
        asked = requested_permissions(request)
        if asked is not None and permissions_within(asked, _merge_permissions(lasting)):
            return next(grant for grant in lasting if grant.permissions is not None)
        once = [grant for grant in mine if grant.uses]
        return next((grant for grant in once if set(grant.keys) == exact_keys(request)), None)

    @property
    def learned(self) -> tuple[LearnRule, ...]:
        """What a person allowed with "always" in this run, in that order."""
        return tuple(
            LearnRule(prefix=grant.prefix, exact=grant.exact)
            for grant in self._held.values()
            if grant.prefix
        )

    def use(self, grant: ApprovalGrant) -> GrantGiven | None:
        """Count one use. If that was the last one, return the record that withdraws the grant."""
        if grant.uses is None:
            return None
        left = grant.uses - 1
        if left > 0:
            self._held[grant.grant_id] = msgspec.structs.replace(grant, uses=left)
            return None
        self._held.pop(grant.grant_id, None)
        return GrantGiven(grant=grant, used_up=True)

    def permissions_of(self, agent: str) -> ExtraPermissions:
        """What this agent may do beyond its sandbox under grants that are not limited in uses."""
        held = self._held.values()
        return _merge_permissions(
            [one for one in held if one.uses is None and applies_to(one, agent)]
        )


def applies_to(grant: ApprovalGrant, agent: str) -> bool:
    """True if the grant holds for the agent at this path."""
    return agent == grant.path or (grant.below and agent.startswith(f"{grant.path}/"))


def _covers(grant: ApprovalGrant, request: ApprovalRequest) -> bool:
    action = request.action
    if request.keys and set(request.keys) <= set(grant.keys):
        return True
    if not isinstance(action, CommandAction) or (action.unheld and not action.sandboxed):
        return False
    if grant.commits_in:
        here = grant.commits_in in (ANY_REPOSITORY, action.commits_in)
        return request.cause == "commit" and here
    if grant.prefix and request.cause in _PREFIX_CAUSES:
        return _begins(plain_words(action.argv), grant)
    return False


def _begins(words: tuple[str, ...], grant: ApprovalGrant) -> bool:
    """Whether the saved rule says all of these words."""
    if grant.exact:
        return words == grant.prefix
    return words[: len(grant.prefix)] == grant.prefix and not find_more(grant.prefix, words)


def plain_words(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a command that is certainly one plain command; () if it could be more.

    A shell's script is accepted only if it consists of words that no shell changes.
    """
    if not argv or PurePosixPath(argv[0]).name not in _SHELLS:
        return argv
    folder, slash, _ = argv[0].rpartition("/")
    if len(argv) != 3 or argv[1] not in ("-c", "-lc") or (slash and folder not in _SYSTEM_FOLDERS):
        return ()
    script = argv[2].strip()
    if not _PLAIN_WORDS.fullmatch(script) or _ASSIGNMENT.match(script):
        return ()
    return tuple(shlex.split(script))


def exact_keys(request: ApprovalRequest) -> set[str]:
    """Keys that identify exactly this action, even if it can only be approved once."""
    if request.keys:
        return set(request.keys)
    body = msgspec.json.encode(request.action, order="sorted")
    return {f"action sha256:{hashlib.sha256(body).hexdigest()}"}


def requested_permissions(request: ApprovalRequest) -> ExtraPermissions | None:
    """The requested permissions beyond the sandbox, if the request asks for nothing else."""
    if request.cause != "permissions":
        return None
    match request.action:
        case PermissionsAction(permissions=permissions):
            return permissions
        case CommandAction(extra=ExtraPermissions() as extra, sandboxed=True):
            return extra
        case _:
            return None


def granted_permissions(request: ApprovalRequest) -> ExtraPermissions | None:
    """What an approval of the request gives beyond the sandbox."""
    if isinstance(request.action, PermissionsAction):
        return request.action.permissions
    return requested_permissions(request)


def permissions_within(asked: ExtraPermissions, given: ExtraPermissions) -> bool:
    """True if every requested permission is given; a folder includes everything below it."""
    writes = all(_lies_in(path, given.write) for path in asked.write)
    reads = all(_lies_in(path, (*given.read, *given.write)) for path in asked.read)
    some = asked.network or asked.read or asked.write
    return bool(some) and writes and reads and (given.network or not asked.network)


def _lies_in(path: str, folders: tuple[str, ...]) -> bool:
    here = PurePosixPath(path)
    return ".." not in here.parts and any(here.is_relative_to(folder) for folder in folders)


def _merge_permissions(grants: list[ApprovalGrant]) -> ExtraPermissions:
    parts = [grant.permissions for grant in grants if grant.permissions is not None]
    return ExtraPermissions(
        network=any(part.network for part in parts),
        read=tuple(dict.fromkeys(path for part in parts for path in part.read)),
        write=tuple(dict.fromkeys(path for part in parts for path in part.write)),
    )


def make_grant(
    grant_id: str, agent: str, request: ApprovalRequest, scope: Scope
) -> ApprovalGrant | str | None:
    """The grant that an answer creates; None for scope "once"; a text if it cannot be granted.

    A network host is asked about once for all agents, so a grant for it covers the whole tree.
    """
    action = request.action
    if scope == "once":
        return None
    if isinstance(action, QuestionsAction | ElicitationAction):
        return "an answer to a question is for that question alone"
    whole_run = scope == "always" or isinstance(action, NetworkAction)
    path, below = (ROOT_PATH, True) if whole_run else (agent, scope == "subtree")
    grant = ApprovalGrant(grant_id=grant_id, path=path, below=below)
    if scope == "always" and not isinstance(action, NetworkAction | McpToolAction):
        if not request.proposed_prefix:
            return "no rule is proposed for it; approve it once, for the session or the subtree"
        return msgspec.structs.replace(
            grant, prefix=request.proposed_prefix, exact=request.proposed_exact
        )
    if request.cause == "commit" and isinstance(action, CommandAction) and action.commits_in:
        return msgspec.structs.replace(grant, commits_in=action.commits_in)
    if isinstance(action, PermissionsAction):
        return msgspec.structs.replace(grant, permissions=action.permissions)
    if not request.keys:
        return "it can only be approved once"
    if scope == "always" and isinstance(action, McpToolAction) and not action.always:
        return (
            f"the server `{action.server}` is not configured in your own file, where this would be "
            "saved; approve it for the session or the subtree"
        )
    return msgspec.structs.replace(grant, keys=request.keys)


def make_exact_grant(grant_id: str, agent: str, request: ApprovalRequest) -> ApprovalGrant:
    """A person overrules a reviewer: a grant for exactly this action, once."""
    keys = tuple(sorted(exact_keys(request)))
    return ApprovalGrant(grant_id=grant_id, path=agent, keys=keys, uses=1)


class ApprovalsFold:
    """Folds the supervisor's records: the grants that hold, the open requests, the last number."""

    def __init__(self) -> None:
        self._held: dict[str, ApprovalGrant] = {}
        self._unanswered: dict[str, str] = {}
        self._last = 0
        self._asked_tools: dict[str, McpToolAction] = {}
        self._approved: list[McpToolAction] = []

    def take(self, record: Record) -> None:
        match record.body:
            case ApprovalRequested(approval_id=asked, request=request):
                self._unanswered[asked] = record.agent
                if isinstance(request.action, McpToolAction):
                    self._asked_tools[asked] = request.action
                if numbered := _ID.fullmatch(asked):
                    self._last = max(self._last, int(numbered[1]))
            case ApprovalResolved(approval_id=answered, outcome=outcome):
                self._unanswered.pop(answered, None)
                tool = self._asked_tools.pop(answered, None)
                if tool is not None and outcome == "approved":
                    self._approved.append(tool)
            case GrantGiven(grant=grant, used_up=used_up):
                self._held.pop(grant.grant_id, None)
                if not used_up:
                    self._held[grant.grant_id] = grant
            case _:
                pass

    def past(self) -> ApprovalsPast:
        return ApprovalsPast(
            grants=tuple(self._held.values()),
            unanswered=tuple(self._unanswered.items()),
            last_number=self._last,
            mcp_tools=tuple(self._approved),
        )
