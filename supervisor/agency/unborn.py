"""Letters to agents that never were: the run was killed between a wish for a child and its birth.

Rule guarded: every letter ends: read, or dead with a reason. The wish itself is told to the model
as interrupted; the name is free, and a new agent under it has another id and never sees this.
"""

from collections.abc import Collection

from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import MailHandled, MailPosted

from ..journal.reading import read_records
from ..journal.rollout import RUN_FILE
from ..running import Running

NEVER_BORN = "the run was cut off before this agent was started"


def bury_unborn(running: Running, known: Collection[str]) -> None:
    """Mark as dead what lies in the files of ids that no agent of the run ever had.

    Args:
        running: Its journal is settled: nothing was written since the run was resumed.
        known: The ids of all agents that were ever started.
    """
    for path in sorted(running.places.journal.glob("*.jsonl")):
        if path.stem == RUN_FILE or path.stem in known:
            continue
        for mail in _unsettled(running, path.stem):
            dead = MailHandled(mail_id=mail.mail_id, dead=True, reason=NEVER_BORN)
            running.note(dead, agent=mail.recipient, file=path.stem)
        running.journal.forget(path.stem)


def _unsettled(running: Running, file: str) -> list[Mail]:
    letters: dict[str, Mail] = {}
    for record in read_records(running.places, file=file):
        match record.body:
            case MailPosted(mail=mail):
                letters[mail.mail_id] = mail
            case MailHandled(mail_id=mail_id):
                letters.pop(mail_id, None)
            case _:
                pass
    return list(letters.values())
