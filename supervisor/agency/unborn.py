"""Words to agents that never were: the run was killed between a wish for a child and its birth.

Rule guarded: every letter ends: read, or dead with a reason that its author is told. The wish
itself is told to the model as interrupted; the name is free, and a new agent under it has another
id and never sees this.
"""

from collections.abc import Collection

from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import InputPosted, MailHandled, MailPosted

from ..journal.reading import read_records
from ..journal.rollout import RUN_FILE
from ..running import Running
from .letters import Post

NEVER_BORN = "the run was cut off before this agent was started"


def bury_unborn(running: Running, post: Post, known: Collection[str]) -> None:
    """Mark as dead what lies in the files of ids that no agent of the run ever had.

    Args:
        running: Its journal is settled: nothing was written to these files since the resume.
        post: Tells the authors; the team is restored.
        known: The ids of all agents that were ever started.
    """
    for path in sorted(running.places.journal.glob("*.jsonl")):
        if path.stem == RUN_FILE or path.stem in known:
            continue
        letters, spoken_to = _unsettled(running, path.stem)
        for mail in letters:
            dead = MailHandled(mail_id=mail.mail_id, dead=True, reason=NEVER_BORN)
            running.note(dead, agent=mail.recipient, file=path.stem)
            post.tell_author(mail, reason=NEVER_BORN)
        if spoken_to:
            running.note(unread_words(spoken_to, NEVER_BORN), agent=spoken_to, file=path.stem)
        running.journal.forget(path.stem)


def unread_words(path: str, why: str) -> Warned:
    """For people who spoke to an agent that never lived."""
    return Warned(message=f"{path} never started, and nobody read what was said to it: {why}")


def _unsettled(running: Running, file: str) -> tuple[list[Mail], str]:
    """Letters without an end; and to whom a person spoke, if nobody was told that it was lost."""
    letters: dict[str, Mail] = {}
    spoken_to = ""
    for record in read_records(running.places, file=file):
        match record.body:
            case MailPosted(mail=mail):
                letters[mail.mail_id] = mail
            case MailHandled(mail_id=mail_id):
                letters.pop(mail_id, None)
            case InputPosted(source="person"):
                spoken_to = record.agent
            case Warned():
                spoken_to = ""
            case _:
                pass
    return list(letters.values()), spoken_to
