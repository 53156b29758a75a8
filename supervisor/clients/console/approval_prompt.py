"""State machine of the approval prompt: what is asked, and which keys answer it. Pure.

A key answers a question only if the question was already visible for `KEYS_IGNORED_S`; a key typed
when it appeared is ignored. A yes counts only after all of the question was drawn, page by page if
it is long (`show_panel`); a no always counts. Text of a model is shown exactly (`safe_text`).
"""

import textwrap
from typing import Literal

from msgspec.structs import replace

from swarm.mailbox.protocol.approvals import (
    AnyAction,
    McpToolAction,
    PendingApproval,
    PersonQuestion,
)
from swarm.mailbox.protocol.control import ResolveApproval
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.values.base import Value

from ...base.safe_text import exact_head, exact_line
from ...views.approval_description import (
    action_kind,
    approval_detail_lines,
    can_grant_repeatedly,
    describe_action,
)
from ...views.elicitation_description import elicitation_lines, may_skip, questions_of
from .line_folding import fold_lines

KEYS_IGNORED_S = 0.4  # keys are ignored for this long after a question appears
_MOST_TEXT = 2_000
_LEAST_WIDTH = 20
_NEXT_PAGE, _PAGE_BEFORE = " ", "b"
_REFUSING = frozenset("ndx")  # keys that count before all of a question was seen
_KINDS = {
    "command": "wants to run a command",
    "patch": "wants to change files",
    "network": "wants to reach a host",
    "permissions": "wants more rights",
    "questions": "asks you",
    "elicitation": "uses an MCP server that asks you",
    "sampling": "uses an MCP server that asks its model",
    "mcp_tool_call": "wants to call a tool of an MCP server",
}
Mode = Literal["keys", "reason", "text"]
_ANSWERS = {  # key → the answer, without its id
    "y": ResolveApproval(approval_id="", approve=True),
    "s": ResolveApproval(approval_id="", approve=True, scope="session"),
    "t": ResolveApproval(approval_id="", approve=True, scope="subtree"),
    "a": ResolveApproval(approval_id="", approve=True, scope="always"),
    "n": ResolveApproval(approval_id="", approve=False),
    "x": ResolveApproval(approval_id="", approve=False, abort=True),
}


class PromptState(Value):
    """The state of the panel. The first approval in `queue` is asked; the others wait."""

    queue: tuple[PendingApproval, ...] = ()
    mode: Mode = "keys"
    typed: str = ""
    answers: dict[str, tuple[str, ...]] = {}  # answers so far to the model's questions
    ready_at: float = 0.0
    sent: str = ""  # the id of the approval whose answer was sent
    notice: str = ""  # the supervisor's text about the last answer
    top: int = 0  # the first row of the question that is drawn, below its head
    page_rows: int = 0  # how many were drawn last
    seen_rows: int = 0  # how many of the first rows were drawn
    drawn: str = ""  # the lines that these numbers are about,
    drawn_width: int = 0  # and the width at which they are
    is_drawn: bool = False  # this page was drawn: a key typed before that does not turn it
    is_read: bool = False  # the last row was drawn, after all before it

    @property
    def current(self) -> PendingApproval | None:
        return self.queue[0] if self.queue else None


class PromptStep(Value):
    """The result of a key: the new state, and an answer to send."""

    state: PromptState
    resolution: ResolveApproval | None = None


def update_queue(
    state: PromptState, waiting: tuple[PendingApproval, ...], *, now: float, first: str = ""
) -> PromptState:
    """Update the queue. The current question stays until it is resolved.

    `first` is the agent that a person has selected: its questions come before those of others, also
    before a current one to which nothing was typed yet.
    """
    mine = tuple(one for one in waiting if one.reviewer == "person")
    mine = tuple(sorted(mine, key=lambda one: one.agent != first))
    current = state.current
    if current is not None:
        same = [one for one in mine if one.approval_id == current.approval_id]
        untouched = state.mode == "keys" and not state.sent and not state.answers
        gives_way = untouched and mine[:1] and first == mine[0].agent != current.agent
        if same and not gives_way:
            rest = tuple(one for one in mine if one.approval_id != current.approval_id)
            kept = current if same[0].is_short and not current.is_short else same[0]
            return replace(state, queue=(kept, *rest))
    return PromptState(
        queue=mine, ready_at=now + KEYS_IGNORED_S, notice=state.notice if mine else ""
    )


def take_whole(state: PromptState, whole: PendingApproval) -> PromptState:
    """All of the current question, of which a part was known."""
    current = state.current
    if current is None or whole.is_short or whole.approval_id != current.approval_id:
        return state
    return replace(state, queue=(whole, *state.queue[1:]))


def handle_key(state: PromptState, key: str, *, now: float) -> PromptStep:
    """Handle one key: a printable character, or `enter`, `esc`, `backspace`."""
    pending = state.current
    if pending is None or now < state.ready_at or state.sent == pending.approval_id:
        return PromptStep(state=state)
    if state.mode != "keys":
        return _edit_text(state, pending, key)
    if key in (_NEXT_PAGE, _PAGE_BEFORE):
        return PromptStep(state=_turn_page(state, key))
    if not state.is_read and key not in _REFUSING:
        return PromptStep(state=state)
    if questions_of(pending.request.action):
        return _choose(state, pending, pending.request.action, key)
    return _decide(state, pending, key)


def _turn_page(state: PromptState, key: str) -> PromptState:
    if not state.is_drawn:
        return state
    step = max(state.page_rows - 1, 1)  # a row of the page before stays
    top = max(state.top + (step if key == _NEXT_PAGE else -step), 0)
    return replace(state, top=top, is_drawn=False)


def _decide(state: PromptState, pending: PendingApproval, key: str) -> PromptStep:
    if key not in {letter for letter, _ in available_keys(pending)}:
        return PromptStep(state=state)
    if key in _ANSWERS:
        return _send(state, replace(_ANSWERS[key], approval_id=pending.approval_id))
    return PromptStep(state=replace(state, mode="reason", typed=""))


def _edit_text(state: PromptState, pending: PendingApproval, key: str) -> PromptStep:
    match key:
        case "esc":
            return PromptStep(state=replace(state, mode="keys", typed=""))
        case "backspace":
            return PromptStep(state=replace(state, typed=state.typed[:-1]))
        case "enter":
            return _submit_text(state, pending)
        case _:
            fits = len(key) == 1 and key.isprintable() and len(state.typed) < _MOST_TEXT
            return PromptStep(state=replace(state, typed=state.typed + key) if fits else state)


def _submit_text(state: PromptState, pending: PendingApproval) -> PromptStep:
    text = state.typed.strip()
    if state.mode == "reason":
        answer = ResolveApproval(approval_id=pending.approval_id, approve=False, reason=text)
        return _send(state, answer)
    action = pending.request.action
    if not text or not questions_of(action):
        return PromptStep(state=replace(state, mode="keys", typed=""))
    return _answer(state, pending, action, text)


def _choose(
    state: PromptState, pending: PendingApproval, action: AnyAction, key: str
) -> PromptStep:
    question = unanswered_question(state, action)
    if question is None:
        return PromptStep(state=state)
    if key.isascii() and key.isdigit() and 1 <= int(key) <= len(question.options):
        return _answer(state, pending, action, question.options[int(key) - 1].label)
    match key:
        case "k" if may_skip(action, question.id):
            return _answer(state, pending, action, "")
        case "o":
            return PromptStep(state=replace(state, mode="text", typed=""))
        case "n" | "x":
            return _send(state, replace(_ANSWERS[key], approval_id=pending.approval_id))
        case _:
            return PromptStep(state=state)


def _answer(
    state: PromptState, pending: PendingApproval, action: AnyAction, text: str
) -> PromptStep:
    """Add one answer, "" for a field's default; the last one sends all answers."""
    question = unanswered_question(state, action)
    if question is None:
        return PromptStep(state=state)
    answers = {**state.answers, question.id: (text,) if text else ()}
    state = replace(state, answers=answers, mode="keys", typed="")
    if unanswered_question(state, action) is not None:
        return PromptStep(state=state)
    name = pending.approval_id
    return _send(state, ResolveApproval(approval_id=name, approve=True, answers=answers))


def _send(state: PromptState, answer: ResolveApproval) -> PromptStep:
    after = replace(state, sent=answer.approval_id, mode="keys", typed="", notice="")
    return PromptStep(state=after, resolution=answer)


def apply_reply(state: PromptState, approval_id: str, text: str, *, refused: bool) -> PromptState:
    """Apply the supervisor's reply. After a refusal the question can be answered again."""
    if state.sent != approval_id:
        return state
    fresh = {} if refused else state.answers
    return replace(state, sent="" if refused else state.sent, answers=fresh, notice=text)


def unanswered_question(state: PromptState, action: AnyAction) -> PersonQuestion | None:
    """The first question, or field, without an answer."""
    return next((one for one in questions_of(action) if one.id not in state.answers), None)


def available_keys(pending: PendingApproval) -> list[tuple[str, str]]:
    """The keys that do something here, with what they do."""
    request = pending.request
    kind = action_kind(request.action)
    if kind == "questions":
        return [("o", "other answer"), ("n", "no answer"), ("x", "end its turn")]
    if isinstance(request.action, ElicitationAction):
        return _form_keys(request.action)
    keys = [("y", "once")]
    if kind == "network":
        keys += [("s", "for all agents of this run")]
        keys += [("a", "always: saves a rule for this host")]
    elif can_grant_repeatedly(request):
        keys += [("s", "for this agent"), ("t", "for it and all below")]
    if request.proposed_prefix and kind != "network":
        rule = exact_head(" ".join(request.proposed_prefix), limit=60)
        which = "exactly " if request.proposed_exact else ""
        keys.append(("a", f"always: saves a rule for {which}`{rule}`"))
    if isinstance(request.action, McpToolAction) and request.action.always:
        keys.append(("a", f"always: saves {exact_head(request.action.always, limit=120)}"))
    return [*keys, ("n", "no"), ("d", "no, because …"), ("x", "no, and end its turn")]


def _form_keys(action: ElicitationAction) -> list[tuple[str, str]]:
    ends = [("n", "decline"), ("x", "dismiss it")]
    if not action.fields:
        return [("y", "yes, I open it" if action.url else "yes"), *ends]
    return [("o", "type the answer"), ("k", "keep the default, or leave it out"), *ends]


class ShownPanel(Value):
    """The panel as it is drawn: its head, the rows of a page, its keys; and that it was drawn."""

    state: PromptState
    rows: tuple[str, ...] = ()
    foot: tuple[str, ...] = ()


def show_panel(state: PromptState, *, width: int, height: int) -> ShownPanel:
    """What is drawn in `height` lines of `width` cells. `state` then knows what could be seen."""
    lines = panel_lines(state)
    if not lines or height < 1:
        return ShownPanel(state=state)
    head, *body = fold_lines(lines, width)
    drawn = "\n".join(lines)
    if (drawn, width) != (state.drawn, state.drawn_width):
        is_known = state.is_read and drawn.startswith(state.drawn)  # a notice may have come
        state = replace(state, drawn=drawn, drawn_width=width, top=0, seen_rows=0, is_read=is_known)
    foot = foot_lines(state, width=width)
    room = height - 1 - len(foot)
    if len(body) > room or not state.is_read:
        room = height - 2 - len(foot_lines(replace(state, is_read=True), width=width))
    room = max(room, 0)
    top = max(min(state.top, len(body) - room), 0)
    shown = body[top : top + room]
    seen = max(state.seen_rows, top + len(shown)) if top <= state.seen_rows else state.seen_rows
    is_read = (state.is_read or seen >= len(body)) and not _is_short(state)
    state = replace(state, top=top, page_rows=room, seen_rows=seen, is_read=is_read, is_drawn=True)
    foot = foot_lines(state, width=width)
    if len(shown) < len(body):
        foot = [_position_line(state, len(body), len(shown)), *foot]
    return ShownPanel(state=state, rows=(head, *shown), foot=tuple(foot[: height - 1]))


def _is_short(state: PromptState) -> bool:
    return state.current is not None and state.current.is_short


def _position_line(state: PromptState, total: int, shown: int) -> str:
    where = f"  rows {state.top + 1:,} to {state.top + shown:,} of {total:,}"
    return f"{where} · space: the next · b: back"


def panel_lines(state: PromptState) -> list[str]:
    """The text of the panel above its keys: the head, the question, details."""
    pending = state.current
    if pending is None:
        return []
    request = pending.request
    kind = action_kind(request.action)
    who = exact_line(pending.agent)
    more = len(state.queue) - 1
    behind = f" ({more} more {'waits' if more == 1 else 'wait'})" if more else ""
    lines = [f"{pending.approval_id} {who} {_KINDS[kind]}{behind}"]
    if isinstance(request.action, ElicitationAction):  # its fields come one after the other
        about = elicitation_lines(replace(request.action, fields=()))
        lines += [f"  {line}" for line in about]
        lines += _question_lines(state, request.action)
    elif questions_of(request.action):
        lines += _question_lines(state, request.action)
    else:
        lines += [f"  {describe_action(request.action)}"]
        lines += [f"  {line}" for line in approval_detail_lines(request)]
    if state.notice:
        lines.append(f"  {exact_line(state.notice)}")
    return lines


def _question_lines(state: PromptState, action: AnyAction) -> list[str]:
    question = unanswered_question(state, action)
    if question is None:
        return []
    lines = [f"  {exact_line(question.question)}"]
    for number, option in enumerate(question.options, start=1):
        about = f": {exact_line(option.description)}" if option.description else ""
        lines.append(f"  {number}  {exact_line(option.label)}{about}")
    return lines


def foot_lines(state: PromptState, *, width: int) -> list[str]:
    """The keys, or the text being typed; keys that do not fit continue on another line."""
    pending = state.current
    if pending is None:
        return []
    if state.sent == pending.approval_id:
        return ["  …"]
    if state.mode != "keys":
        head = "no, because" if state.mode == "reason" else "answer"
        room = max(width - len(head) - 40, 10)
        shown = "".join(sign for sign in state.typed if sign.isprintable())[-room:]
        return [f"  {head}: {shown}_  (Enter sends, Esc goes back)"]
    if not state.is_read:
        if state.page_rows == 0 and state.drawn:
            return ["  the window is too low to show what a yes would allow; n no · x no, and end"]
        return ["  all of it is to be seen before a yes counts; n no · x no, and end its turn"]
    lines: list[str] = []
    for key, text in available_keys(pending):
        part = f"{key} {text}"
        if lines and len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" · {part}"
        else:
            lines += textwrap.wrap(
                part, max(width, _LEAST_WIDTH), initial_indent="  ", subsequent_indent="    "
            )
    return lines
