"""Closes mail and inputs to agents that never started: the run was killed before their start.

Every mail ends: read, or dead with a reason that its author is told. The model is told that the
spawn call was interrupted. The name is free again; a new agent with that name has another id and
never sees this mail.
"""

from collections.abc import Collection

from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import InputPosted, MailHandled, MailPosted

from ...context.run_context import RunContext
from ...journal.journal_files import RUN_FILE
from ...journal.journal_reader import read_records
from .mail_delivery import MailDelivery

NEVER_STARTED = "the run was cut off before this agent was started"


def close_unstarted(running: RunContext, delivery: MailDelivery, known: Collection[str]) -> None:
    """Mark as dead the unread mail in the files of ids that no agent of the run ever had.

    Args:
        running: Its journal is flushed: nothing was written to these files since the resume.
        delivery: Notifies the authors; the team is restored.
        known: The ids of all agents that were ever started.
    """
    for path in sorted(running.paths.journal.glob("*.jsonl")):
        if path.stem == RUN_FILE or path.stem in known:
            continue
        unread, addressed = _open_mail(running, path.stem)
        for mail in unread:
            dead = MailHandled(mail_id=mail.mail_id, dead=True, reason=NEVER_STARTED)
            running.note(dead, agent=mail.recipient, file=path.stem)
            delivery.notify_author(mail, reason=NEVER_STARTED)
        if addressed:
            running.note(
                unread_input_warning(addressed, NEVER_STARTED), agent=addressed, file=path.stem
            )
        running.journal.close_file(path.stem)


def unread_input_warning(path: str, why: str) -> Warned:
    """The warning for people who sent an input to an agent that never started."""
    return Warned(message=f"{path} never started, and nobody read what was said to it: {why}")


def _open_mail(running: RunContext, file: str) -> tuple[list[Mail], str]:
    """Unhandled mail; and the path that a person sent input to, if no warning followed."""
    unread: dict[str, Mail] = {}
    addressed = ""
    for record in read_records(running.paths, file=file):
        match record.body:
            case MailPosted(mail=mail):
                unread[mail.mail_id] = mail
            case MailHandled(mail_id=mail_id):
                unread.pop(mail_id, None)
            case InputPosted(source="person"):
                addressed = record.agent
            case Warned():
                addressed = ""
            case _:
                pass
    return list(unread.values()), addressed
