"""Effects of a command to consider before it runs: data loss, or writes to a git repository's data.

The checks change nothing, and they are skipped for commands that cannot have such effects.
"""

import re
from collections.abc import Sequence

from swarm.mailbox.protocol.approvals import LossPreview
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import DangerFullAccess, ReadOnly

from ..policy.command_facts import CommandFacts
from .interface.tool_context import ToolContext

_PROGRAMS = ("rm", "git", "find", "fd", "shred", "unlink", "rsync")
_QUOTING = re.compile(r"[\\'\"]")
_GIT_LOSS_KINDS = frozenset({"clean", "discard", "history"})


class CommandEffects(Value):
    """`keep`: absolute paths of files and folders to copy before the command runs."""

    loss: LossPreview | None = None
    keep: tuple[str, ...] = ()
    repository: str = ""  # repository that it would write to, if the sandbox can open just that
    records_only: bool = False


async def find_effects(context: ToolContext, facts: CommandFacts, folder: str) -> CommandEffects:
    """Return the effects of a command. Never raises but Cancelled."""
    if _can_change_nothing(context, facts) or not _may_have_effects(facts.argv):
        return CommandEffects()
    # Imported by the few commands that need it.
    from ..sandbox.commit_grant import can_open_repository, find_repository
    from .loss_preview import predict_loss

    foreseen = await predict_loss(facts.argv, folder, context.commands)
    opens = can_open_repository(context.sandbox_stack)
    if foreseen is None:
        records = _records_in(facts, folder) if opens else None
        repository = None if records is None else find_repository(records)
        return CommandEffects(repository=repository or "", records_only=repository is not None)
    in_git = opens and bool(_GIT_LOSS_KINDS & set(foreseen.kinds))
    return CommandEffects(
        loss=foreseen.preview,
        keep=foreseen.keep if foreseen.preview.kept else (),
        repository=(find_repository(folder) or "") if in_git else "",
    )


def _can_change_nothing(context: ToolContext, facts: CommandFacts) -> bool:
    """True for a command that stays in a read-only sandbox."""
    stays = context.is_locked or facts.escalation.permissions == "use_default"
    return stays and isinstance(context.limits.sandbox, ReadOnly)


def _may_have_effects(argv: Sequence[str]) -> bool:
    """Cheap check whether to parse further: the command names one of these programs, perhaps partly
    quoted, or may feed a script to a shell.
    """
    texts = [_QUOTING.sub("", text) for text in argv]
    named = any(word in text for text in texts for word in _PROGRAMS)
    return named or any("sh" in text and ("<<" in text or "|" in text) for text in texts)


def _records_in(facts: CommandFacts, folder: str) -> str | None:
    if isinstance(facts.sandbox, DangerFullAccess) or not facts.shell_is_known:
        return None
    from ..policy.commit_commands import find_recording_folder

    commands = [command.words for command in facts.commands]
    return find_recording_folder(facts.argv, commands, folder, is_complex=facts.is_complex)
