"""What each run needs, as one row: from its summary and, while it lives, its view. No I/O."""

from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from swarm.mailbox.base.ids import is_reviewer, short_id
from swarm.mailbox.protocol.approvals import PendingApproval
from swarm.mailbox.protocol.control import AgentView, RunView

from ...base.safe_text import clean_line
from ...runs.run_list import RunSummary
from ...views.approval_description import describe_pending
from ..console.columns import describe_activity

Need = Literal["waits for you", "at work", "asleep", "ended"]
NEEDS: tuple[Need, ...] = get_args(Need)  # in the order of the screen
_WORDS = 400  # characters of one text


class TopRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run. All texts are cleaned."""

    run_id: str
    short_id: str
    need: Need
    state: str
    title: str = ""
    cwd: str = ""
    doing: str = ""  # what it does now, waits for, or came to
    agents: int = 0  # that live
    started: float = 0.0  # unix seconds
    total_tokens: int = 0
    usd: float | None = None
    added: int = 0
    removed: int = 0
    is_alive: bool = False

    @property
    def project(self) -> str:
        return self.cwd.rstrip("/").rpartition("/")[2] or self.cwd


def row_of(run: RunSummary, view: RunView | None) -> TopRow:
    """The row of a run. `view`: None if no supervisor answers for it."""
    row = TopRow(
        run_id=run.run_id,
        short_id=short_id(run.run_id),
        need="ended",
        state=clean_line(run.state),
        title=_title(run.name, run.title or run.task),
        cwd=clean_line(run.cwd, limit=_WORDS),
        doing=clean_line(run.note, limit=_WORDS),
        agents=run.agents,
        started=run.started,
        total_tokens=run.total_tokens,
        usd=run.usd,
        is_alive=run.state == "running",
    )
    if view is None:
        return _without_supervisor(row, run)
    own = [agent for agent in view.agents if not is_reviewer(agent.path)]
    need, doing = _need_of(view, own)
    return msgspec.structs.replace(
        row,
        need=need,
        state=clean_line(view.status),
        title=_title(run.name, view.title or run.task),
        cwd=clean_line(view.cwd or run.cwd, limit=_WORDS),
        doing=doing,
        agents=sum(agent.state not in {"ended", "queued"} for agent in own),
        started=view.started or run.started,
        total_tokens=view.usage.total_tokens,
        usd=view.usd,
        added=sum(agent.added for agent in own),
        removed=sum(agent.removed for agent in own),
    )


def order_rows(rows: Iterable[TopRow]) -> list[TopRow]:
    """What waits for a person first, then by need; in each group the newest first."""
    return sorted(rows, key=lambda row: (NEEDS.index(row.need), -row.started, row.run_id))


def questions_for_person(view: RunView) -> tuple[PendingApproval, ...]:
    """What a person is asked, the oldest first."""
    return tuple(one for one in view.approvals if one.reviewer == "person")


def _title(name: str, title: str) -> str:
    text = f"{name}: {title}" if name else title
    return clean_line(text, limit=_WORDS)


def _need_of(view: RunView, own: list[AgentView]) -> tuple[Need, str]:
    if asked := list(questions_for_person(view)):
        more = f" (and {len(asked) - 1} more)" if len(asked) > 1 else ""
        return "waits for you", clean_line(f"{describe_pending(asked[0])}{more}", limit=_WORDS)
    if view.status == "idle":
        root = own[0] if own else AgentView(path="")
        said = f": {root.result or root.note}" if root.result or root.note else ""
        return "asleep", clean_line(f"waits for words{said}", limit=_WORDS)
    working = [agent for agent in own if agent.state not in {"ended", "queued", "idle"}]
    if not working:
        return "at work", ""
    busiest = max(working, key=lambda agent: (bool(agent.tool or agent.text), agent.last_progress))
    name = busiest.path.rpartition("/")[2]
    return "at work", clean_line(f"{name}: {describe_activity(busiest)[0]}", limit=_WORDS)


def _without_supervisor(row: TopRow, run: RunSummary) -> TopRow:
    """An ended run, one whose supervisor was killed, or one that does not answer yet."""
    if run.state == "running":
        return msgspec.structs.replace(row, need="at work", doing="does not answer yet")
    why = ""
    if run.unfinished_merge is not None:
        why = f"a merge was cut off: swarm merge {row.short_id}"
    elif run.unmerged:
        why = f"not merged: {run.unmerged}"
    elif run.state == "stopped":
        why = f"its supervisor was killed: swarm resume {row.short_id}"
    elif run.state == "unmet":
        why = f"goal unmet: {run.note}"
    if not why:
        return row
    return msgspec.structs.replace(row, need="waits for you", doing=clean_line(why, limit=_WORDS))
