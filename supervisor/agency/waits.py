"""When a wait is over, and what it then says. Pure: a look at the team, nothing is waited for.

Rule guarded: a wait ends at once when something is there already, and never stays open for what
cannot come any more: an agent that ended, however it ended, counts as finished.
"""

from collections.abc import Sequence
from typing import Literal

from swarm.mailbox.protocol.requests import Waited

from .member import Member
from .team import Team


def look(
    team: Team,
    asker: Member,
    targets: Sequence[Member],
    mode: Literal["any", "all"],
) -> Waited | None:
    """What to answer now; None = nothing yet.

    Without targets, `any`: news of any child, or any letter; `all`: all children. With targets:
    their ends. A letter that is no child's answer ends every wait, and so does a person's word.
    """
    watched = list(targets) if targets else list(team.children_of(asker.path))
    finished = [one for one in watched if not one.is_active]
    if targets or mode == "all":
        over = len(finished) == len(watched) if mode == "all" else bool(finished)
    else:
        finished = [one for one in finished if one.told < one.ends]
        over = bool(finished) or bool(asker.letters)
    if over and mode == "all" and not targets:
        finished = watched = team.all_children_of(asker.path)
    if over or _is_spoken_to(asker) or _has_word(asker):
        return _told(team, asker, watched, finished, timed_out=False)
    if not team.others_active(asker.path):  # nobody is left who could write or finish
        rest = [one for one in watched if not one.is_active]
        return _told(team, asker, watched, rest, timed_out=False)
    return None


def at_timeout(team: Team, asker: Member, targets: Sequence[Member]) -> Waited:
    """What is told when the time is up: who finished all the same, and who works on."""
    watched = list(targets) if targets else list(team.children_of(asker.path))
    finished = [one for one in watched if not one.is_active] if targets else []
    return _told(team, asker, watched, finished, timed_out=True)


def _is_spoken_to(asker: Member) -> bool:
    return asker.life is not None and bool(asker.life.untaken or asker.life.unheard)


def _has_word(asker: Member) -> bool:
    return any(mail.kind != "final_answer" for mail in asker.letters.values())


def _told(
    team: Team,
    asker: Member,
    watched: Sequence[Member],
    finished: Sequence[Member],
    *,
    timed_out: bool,
) -> Waited:
    for one in finished:
        team.tell(asker, one)
    return Waited(
        timed_out=timed_out,
        finished=tuple(one.as_told() for one in finished),
        still_running=tuple(one.path for one in watched if one.is_active),
        mail=len(asker.letters),
    )
