"""What the screen shows at one moment, from the state of the conversation. No I/O."""

from typing import NamedTuple

from swarm.mailbox.base.ids import ROOT_PATH, short_id
from swarm.mailbox.protocol.control import AgentView

from ...base.safe_text import clean_line
from ...views.row_selection import end_word
from ..console.columns import Line
from .chat_screen import ScreenContent
from .current_run import CurrentRun
from .fragments import to_fragments
from .live_region import LiveContent, TreeSize, status_line
from .slash_commands import OwnCommand
from .words_to_send import is_busy

PLAN_NOTICE = "plan mode: /accept carries the plan out; words change it; /plan off leaves it"


class FrameFacts(NamedTuple):
    """What the frame shows besides the run.

    `panel`, `panel_foot`: the conversation's own question, instead of those of agents.
    `transcript`: the last lines of the selected agent's, for Ctrl-T. `notices`: for the person.
    `has_text`: something stands in the input line. `own`: the folder's commands and skills.
    """

    size: TreeSize = "small"
    panel: tuple[str, ...] = ()
    panel_foot: tuple[str, ...] = ()
    transcript: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    has_text: bool = False
    own: tuple[OwnCommand, ...] = ()


def live_content(current: CurrentRun, facts: FrameFacts, *, width: int, height: int) -> LiveContent:
    """What stands above the input line."""
    live = current.live
    if live is None or current.starting:
        return LiveContent(
            notices=facts.notices,
            starting=current.starting,
            queued=current.queued,
            panel=facts.panel,
            panel_foot=facts.panel_foot,
        )
    panel, foot = facts.panel, facts.panel_foot
    if not panel:
        panel, foot = current.question.lines(
            has_text=facts.has_text, width=width, height=height - 1
        )
    waits_for_yes = is_waiting_with_plan(current.agent) and not panel
    return LiveContent(
        view=live.view(),
        selected=current.selected,
        size=facts.size,
        arriving=tuple(live.arriving.lines(8)),
        arriving_is_answer=live.arriving.is_answer,
        queued=current.queued,
        panel=panel,
        panel_foot=foot,
        transcript=facts.transcript,
        notices=(PLAN_NOTICE, *facts.notices) if waits_for_yes else facts.notices,
    )


def is_waiting_with_plan(agent: AgentView | None) -> bool:
    """True if an agent has made its plan and may not carry it out yet."""
    return agent is not None and agent.planning and not is_busy(agent)


def status_of(current: CurrentRun, *, width: int) -> Line:
    """The line below the input line."""
    live = current.live
    agent = current.agent
    plans = current.plans_first if agent is None else agent.planning
    plan = "plan mode · " if plans else ""
    if live is None:
        return status_line(None, words=f"{plan}/help · Ctrl-C twice leaves", width=width)
    view = live.view()
    words = short_id(live.run.run_id)
    if is_busy(current.agent):
        words = f"Esc stops · words {current.mode} (Tab)"
    return status_line(view, words=plan + words, width=width, alone=len(view.agents) < 2)


def screen_content(
    current: CurrentRun, region: list[Line], facts: FrameFacts, *, width: int
) -> ScreenContent:
    """All that the screen shows around the input line."""
    selected = current.selected
    asks = bool(facts.panel)
    return ScreenContent(
        region=tuple(to_fragments(line) for line in region),
        status=to_fragments(status_of(current, width=width)),
        prompt="› " if selected == ROOT_PATH else f"{_addressee(current)} › ",
        answering=asks or current.question.is_open,
        typing_answer=not asks and current.question.is_typing,
        choices=argument_choices(current),
        own=facts.own,
    )


def _addressee(current: CurrentRun) -> str:
    """Whom the next words reach, if it is not the root; an agent that has ended is woken."""
    name, agent = clean_line(current.selected), current.agent
    if agent is None or agent.state != "ended":
        return name
    return f"{name} ({end_word(agent.end_state, cut_off=agent.cut_off)})"


def argument_choices(current: CurrentRun) -> dict[str, tuple[str, ...]]:
    """Words that may follow commands and are known only now: the names of agents."""
    live = current.live
    paths = () if live is None else tuple(agent.path for agent in live.view().agents)
    return dict.fromkeys(("diff", "merge", "undo"), paths) if paths else {}
