"""When a wait is over, and what it then returns. Never waits; marks reported ends as seen.

A wait ends at once if its result is there already, and never stays open for what cannot come any
more: an agent that ended, however it ended, counts as finished.
"""

from collections.abc import Sequence
from typing import Literal

from swarm.mailbox.protocol.requests import Waited

from ..agents.agent_directory import AgentDirectory
from ..agents.agent_record import Agent


def decide_wait(
    team: AgentDirectory,
    asker: Agent,
    targets: Sequence[Agent],
    mode: Literal["any", "all"],
) -> Waited | None:
    """The result now; None: keep waiting.

    Without targets, `any` waits for a new end of any child or for any mail, `all` for all children.
    With targets it waits for their ends. Mail that is no child's answer ends every wait, and so
    does a person's input.
    """
    watched = list(targets) if targets else list(team.children_of(asker.path))
    finished = [one for one in watched if not one.is_active]
    if targets or mode == "all":
        over = len(finished) == len(watched) if mode == "all" else bool(finished)
    else:
        finished = [one for one in finished if one.ends_reported < one.end_count]
        over = bool(finished) or bool(asker.unread_mail)
    if over and mode == "all" and not targets:
        finished = watched = team.all_children_of(asker.path)
    if over or _has_person_input(asker) or _has_message(asker):
        return _make_result(team, asker, watched, finished, timed_out=False)
    if not team.others_active(asker.path):  # no other agent could still write or finish
        rest = [one for one in watched if not one.is_active]
        return _make_result(team, asker, watched, rest, timed_out=False)
    return None


def result_at_timeout(team: AgentDirectory, asker: Agent, targets: Sequence[Agent]) -> Waited:
    """The result at the timeout: who has finished all the same, and who still works."""
    watched = list(targets) if targets else list(team.children_of(asker.path))
    finished = [one for one in watched if not one.is_active] if targets else []
    return _make_result(team, asker, watched, finished, timed_out=True)


def _has_person_input(asker: Agent) -> bool:
    return bool(asker.pending_inputs or asker.undelivered_inputs)


def _has_message(asker: Agent) -> bool:
    return any(mail.kind != "final_answer" for mail in asker.unread_mail.values())


def _make_result(
    team: AgentDirectory,
    asker: Agent,
    watched: Sequence[Agent],
    finished: Sequence[Agent],
    *,
    timed_out: bool,
) -> Waited:
    for one in finished:
        team.mark_reported(asker, one)
    return Waited(
        timed_out=timed_out,
        finished=tuple(one.as_reply() for one in finished),
        still_running=tuple(one.path for one in watched if one.is_active),
        mail=len(asker.unread_mail),
    )
