"""What a command would do beyond its own files: throw work away, or write what git records.

Rule guarded: looking changes nothing; where nothing can come of it, nobody looks.
"""

import re
from collections.abc import Sequence

from swarm.mailbox.protocol.approvals import LossPreview
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.limits import DangerFullAccess, ReadOnly

from ..policy.command_facts import CommandFacts
from .tool_context import ToolContext

_PROGRAMS = ("rm", "git", "find", "fd", "shred", "unlink", "rsync")
_QUOTING = re.compile(r"[\\'\"]")
_GIT_LOSS_KINDS = frozenset({"clean", "discard", "history"})


class CommandEffects(Value):
    """`keep`: the files and folders of which a copy is to be made before it runs, absolute."""

    loss: LossPreview | None = None
    keep: tuple[str, ...] = ()
    repository: str = ""  # whose data it would write, if the sandbox could open just that
    records_only: bool = False


async def find_effects(site: ToolContext, facts: CommandFacts, folder: str) -> CommandEffects:
    """Find out. Never raises but Cancelled."""
    if _can_change_nothing(site, facts) or not _may_have_effects(facts.argv):
        return CommandEffects()
    from ..sandbox.commit_grant import can_open_repository, find_repository  # for the few that do
    from .loss_preview import predict_loss

    foreseen = await predict_loss(facts.argv, folder, site.commands)
    opens = can_open_repository(site.sandbox_stack)
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


def _can_change_nothing(site: ToolContext, facts: CommandFacts) -> bool:
    """In a read-only sandbox that it does not ask to leave."""
    stays = site.is_locked or facts.escalation.permissions == "use_default"
    return stays and isinstance(site.limits.sandbox, ReadOnly)


def _may_have_effects(argv: Sequence[str]) -> bool:
    """Cheap: only what names one of these programs, perhaps quoted in parts, or may feed a shell
    with a script is parsed again."""
    texts = [_QUOTING.sub("", text) for text in argv]
    named = any(word in text for text in texts for word in _PROGRAMS)
    return named or any("sh" in text and ("<<" in text or "|" in text) for text in texts)


def _records_in(facts: CommandFacts, folder: str) -> str | None:
    if isinstance(facts.sandbox, DangerFullAccess) or facts.is_complex or not facts.shell_is_known:
        return None
    from ..policy.commit_commands import find_commit_folder

    return find_commit_folder([command.words for command in facts.commands], folder)
