"""What an agent may request approval for, and the keys of approvals that last. Pure.

The supervisor decides who answers; this module decides only what an agent's model is told and
offered. The model is never offered something that would always be refused.

A key is a canonical JSON text that names one thing. Two commands share a key only if the same words
would run in the same folder with the same rights; a command outside the sandbox has another key
than one inside.

Source: Codex's session cache: same fields, same markers.
"""

from collections.abc import Sequence

import msgspec

from swarm.mailbox.base.path_rules import is_writable
from swarm.mailbox.protocol.approvals import Cause, CommandAction
from swarm.mailbox.protocol.mcp import McpTool
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits

from .command_decision import Ask, Refuse, Run, must_stay_sandboxed
from .command_facts import CommandFacts
from .mcp_decision import decide_mcp_call
from .safe_commands import is_system_program
from .shell_parser import Words, plain_commands, shell_script
from .shell_quoting import quote_command

RETRY_REASON = "command failed; retry without sandbox?"
_WHY: dict[Cause, str] = {
    "untrusted": "every command needs approval under this run's policy",
    "dangerous": "it removes files by force",
    "destructive": "it throws away work that no later command brings back",
    "escalation": "it would run outside of the sandbox",
    "permissions": "it asks for permissions beyond the sandbox",
    "retry": "the sandbox stopped it, and it would run again outside",
    "rule": "a rule wants it approved",
    "patch": "it would write where this agent may not",
    "commit": "it would write the repository's own data",
    "network": "it would reach a host that is not allowed",
    "question": "only a person can answer it",
    "hook": "a hook wants it to be asked about",
    "mcp_tool": "it is a tool of an MCP server that may change something or reach out",
}
# Approving one of these approves the command; approving the others grants one limited right.
_APPROVES_RETRY: frozenset[Cause] = frozenset({"untrusted", "dangerous", "escalation", "rule"})


def may_ask(limits: Limits) -> bool:
    """True if an approval request for a command can be answered in this run at all."""
    match limits.reviewer:
        case "nobody":
            return False
        case "guardian":
            return limits.approval == "on-request"
        case "person":
            return limits.approval != "never"


def may_escalate(limits: Limits, *, is_locked: bool) -> bool:
    """True if models may request to run a command outside the sandbox, or with more rights."""
    muted = limits.granular is not None and not limits.granular.sandbox_approval
    policy = limits.approval in ("on-request", "untrusted")
    bound = not isinstance(limits.sandbox, DangerFullAccess)
    return may_ask(limits) and policy and bound and not muted and not is_locked


def may_request_permissions(limits: Limits, *, is_locked: bool) -> bool:
    """True if models may request rights once, for all later commands."""
    if limits.granular is not None and not limits.granular.request_permissions:
        return False
    bound = not isinstance(limits.sandbox, DangerFullAccess)
    return may_ask(limits) and bound and not is_locked


def may_change_files(limits: Limits, *, is_locked: bool) -> bool:
    """True if a patch can be written at all: within the sandbox, or after an approval."""
    if is_writable(limits.sandbox):
        return True
    muted = limits.granular is not None and not limits.granular.sandbox_approval
    asks = limits.reviewer == "person" and limits.approval in ("untrusted", "on-request")
    return asks and not muted and not is_locked


class ToolStanding(Value):
    """What decides which tools an agent can use at all."""

    limits: Limits
    is_locked: bool = False
    is_root: bool = False
    has_hooks: bool = False  # one of them may approve what nobody else could


# Tools that write files, by a patch or by a merge.
_WRITERS = frozenset({"apply_patch", "edit_file"})
_MERGERS = frozenset({"list_changes", "merge_changes", "discard_changes"})


def is_usable(tool: str, standing: ToolStanding) -> bool:
    """False for a tool whose every call would be refused: then no model is offered it.

    The one place that says so for all tools of swarm's own, all roles, sandboxes and policies.
    """
    limits, is_locked = standing.limits, standing.is_locked
    if tool in _WRITERS:
        return may_change_files(limits, is_locked=is_locked)
    if tool in _MERGERS:
        is_held = is_locked or limits.planning or limits.isolation == "copy"
        return is_writable(limits.sandbox) and not is_held
    match tool:
        case "spawn_agents_on_csv":  # its results are a file
            return is_writable(limits.sandbox)
        case "request_permissions":
            return may_request_permissions(limits, is_locked=is_locked)
        case "request_user_input":
            return may_question_person(limits, is_root=standing.is_root)
        case _:
            return True


def is_mcp_tool_usable(tool: McpTool, standing: ToolStanding) -> bool:
    """False for a tool of a server whose every call would be refused."""
    verdict = decide_mcp_call(tool, standing.limits)
    can_be_asked = may_ask(standing.limits) or standing.has_hooks
    return isinstance(verdict, Run) or (isinstance(verdict, Ask) and can_be_asked)


def may_question_person(limits: Limits, *, is_root: bool) -> bool:
    """True if the model may ask the user its own questions."""
    return is_root and limits.reviewer == "person" and limits.approval != "never"


def decide_retry(facts: CommandFacts, first: Run | Ask | Refuse, ran: Run) -> Run | Ask | None:
    """What follows when the sandbox seems to have stopped a command; None: nothing.

    Args:
        facts: The facts of the command.
        first: The first decision about it.
        ran: How it was then run, with the answer if it was asked.
    """
    granular = facts.granular
    tries = facts.approval in ("untrusted", "on-failure") or (
        facts.approval == "on-request" and granular is not None and granular.sandbox_approval
    )
    if not tries or not ran.sandboxed or must_stay_sandboxed(facts):
        return None
    approved = isinstance(first, Ask) and ran.answer is not None and first.cause in _APPROVES_RETRY
    if approved and not facts.unheld:
        return Run(sandboxed=False, answer=ran.answer)
    return Ask(
        subject=quote_command(facts.argv),
        cause="retry",
        reason=RETRY_REASON,
        then=Run(sandboxed=False),
    )


def refusal_without_reviewer(ask: Ask) -> Refuse:
    """What an Ask becomes in a run where no reviewer can answer it."""
    stated = f" ({ask.reason})" if ask.reason else ""
    return Refuse(
        reason=f"Not run: {_cut(ask.subject)} needs approval, because {_WHY[ask.cause]}{stated}. "
        "Nobody can be asked in this run. Do not try the same by other means: find a way that "
        "needs no approval, or say in your answer what is left undone and that it needs approval."
    )


def _cut(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:500]}…"


_SCRIPT_MARK = "__codex_shell_script__"


def canonical_command(argv: Sequence[str]) -> Words:
    """The words that identify a command, however a shell was called to run it."""
    words = tuple(argv)
    script = shell_script(words)
    if script is None or not is_system_program(words[0]):
        return words
    plain = plain_commands(script)
    if plain is not None and len(plain) == 1:
        return plain[0]
    return (_SCRIPT_MARK, words[1], script)


def command_key(action: CommandAction) -> str:
    """The key of a command. One outside the sandbox counts as `require_escalated`."""
    extra = action.extra
    body: dict[str, object] = {
        "tool": "exec_command",
        "command": canonical_command(action.argv),
        "cwd": action.cwd,
        "tty": action.tty,
        "sandbox_permissions": action.permissions if action.sandboxed else "require_escalated",
        "additional_permissions": None if extra is None else msgspec.to_builtins(extra),
    }
    if action.files:
        body["files"] = action.files
    return msgspec.json.encode(body, order="sorted").decode()


def commit_key(repository: str) -> str:
    """The one key of all commands that only record work in this repository."""
    body = {"tool": "exec_command", "commits_in": repository}
    return msgspec.json.encode(body, order="sorted").decode()


def patch_keys(paths: Sequence[str]) -> tuple[str, ...]:
    """One key for each absolute path that a patch touches."""
    bodies = ({"tool": "apply_patch", "path": path} for path in dict.fromkeys(paths))
    return tuple(msgspec.json.encode(body, order="sorted").decode() for body in bodies)
