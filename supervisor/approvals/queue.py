"""The queue of one run, put together: broker, answers, and the desk where agents ask.

Rule: only a person's answer is carried out here with effects outside of the run (a rule saved).
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import trio

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.hosts import with_port
from swarm.mailbox.ids import ROOT_PATH
from swarm.mailbox.protocol.approvals import ApprovalRequest, Grant, NetworkAction
from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.records import GrantGiven

from ..agents import AgentPlan, LiveAgent
from ..journal.reading import run_records
from ..running import Running
from ..saved_rules import tell_all_rules
from .answers import Aids, Answers
from .broker import Broker, Rules
from .desk import Desk, JournalBook, Teller
from .grants import ANY_REPOSITORY, Past, fold_past


class Queue(NamedTuple):
    """What the other parts of a supervisor use. `broker.reviewer` is set when there is one."""

    broker: Broker
    answers: Answers
    desk: Desk


class Known(NamedTuple):
    """How the queue looks up who asks."""

    plan: Callable[[str], AgentPlan | None]
    life: Callable[[str], LiveAgent | None]
    lives: Callable[[], Iterable[LiveAgent]]


def open_queue(
    running: Running, nursery: trio.Nursery, known: Known, *, config: Path, resumed: bool
) -> Queue:
    """Make it; what a resumed run's journal tells of grants and open questions is taken in.

    Args:
        running: Its `grants` are filled here.
        nursery: Where agents' questions wait.
        known: Agents by path.
        config: The user's configuration folder; rules are saved in its `rules/`.
        resumed: True if there is a past.
    """
    past = fold_past(run_records(running.places)) if resumed else Past()
    rules = Rules(timeout_s=running.request.approval_timeout_s)

    def limits_of(path: str) -> Limits | None:
        plan = known.plan(path)
        return None if plan is None else plan.limits

    _grant_beforehand(running)
    broker = Broker(JournalBook(running), limits_of, running.grants, past, rules)
    broker.unix_s = running.chances.unix_s

    async def save(request: ApprovalRequest) -> str:
        return await trio.to_thread.run_sync(save_rule, config / "rules", request)

    async def spread() -> None:
        await tell_all_rules(running, tuple(known.lives()))

    teller = Teller(running, nursery, known.life)
    answers = Answers(broker, Aids(save_rule=save, spread_rules=spread, tell=teller.tell))
    return Queue(broker=broker, answers=answers, desk=Desk(running, broker, nursery))


def _grant_beforehand(running: Running) -> None:
    """What a person allowed the whole tree when the run was started."""
    if not running.request.allow_commit:
        return
    grant = Grant(grant_id="commit", path=ROOT_PATH, below=True, commits_in=ANY_REPOSITORY)
    running.grants.add(grant)
    running.note(GrantGiven(grant=grant))


def save_rule(folder: Path, request: ApprovalRequest) -> str:
    """Write what was approved for ever; returns the file. Blocks. Raises SwarmError."""
    from swarm.roles.rules.amend import append_network_rule, append_prefix_rule

    action = request.action
    try:
        if isinstance(action, NetworkAction):
            host = with_port(action.host, action.port)
            path = append_network_rule(folder, host, action.protocol, "allow")
        else:
            path = append_prefix_rule(folder, request.proposed_prefix)
    except OSError as error:
        raise SwarmError(f"cannot write {error.filename}: {error.strerror}") from error
    return str(path)
