"""What an agent may ask of the clock, and the words that it is woken with. Pure."""

from datetime import datetime

from swarm.mailbox.parts.wakeups.wakeup_messages import WakeMe, WakeUp

from ...agents.child_plan import AgentRequestError

SOONEST_S, LATEST_S = 60.0, 7 * 86_400.0
MAX_PENDING = 8  # wake-ups of one agent at once
MAX_MADE = 200  # that one agent asks of the clock in a run: none wakes itself for ever
MAX_WHY_CHARS = 300
_LATE_S = 90.0
_ROUNDING_S = 1e-3


def decide_due(request: WakeMe, *, now_unix_s: float, pending: int, made: int) -> float:
    """When the wake-up fires, in unix seconds. Raises AgentRequestError.

    Args:
        request: What the agent asks for.
        now_unix_s: The wall clock.
        pending: Its wake-ups that have not fired.
        made: How many it asked of the clock so far in this run.
    """
    if not one_line(request.why):
        raise AgentRequestError("why must not be empty: you read it again when you are woken")
    if len(one_line(request.why)) > MAX_WHY_CHARS:
        raise AgentRequestError(f"why is too long: at most {MAX_WHY_CHARS} characters")
    if pending >= MAX_PENDING:
        raise AgentRequestError(
            f"you have {pending} wake-ups that have not fired; take one back with `cancel` first"
        )
    if made >= MAX_MADE:
        raise AgentRequestError(
            f"you have asked for {made} wake-ups, and {MAX_MADE} are the most in one run: end your "
            "work, and say in your answer what is left and when to look again"
        )
    if (request.after_s is None) == (not request.at.strip()):
        raise AgentRequestError("give either after_s or at")
    due = _moment_of(request.at) if request.after_s is None else now_unix_s + request.after_s
    wait_s = due - now_unix_s
    if not SOONEST_S - _ROUNDING_S <= wait_s <= LATEST_S + _ROUNDING_S:
        raise AgentRequestError(
            f"that is {wait_s:.0f} s from now ({written(now_unix_s)}); a wake-up is 60 "
            "seconds to 7 days away. For less, wait in a command or in `wait_agent`"
        )
    return due


def _moment_of(text: str) -> float:
    try:
        return datetime.fromisoformat(text.strip()).astimezone().timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise AgentRequestError(
            f"at is `{text.strip()[:60]}`, which is no time; write 2026-11-29T07:00:00+01:00, "
            "or without an offset in this machine's zone"
        ) from error


def one_line(text: str) -> str:
    """Printable, on one line."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def written(unix_s: float) -> str:
    """A moment as people of this machine write it, with its zone."""
    try:
        return f"{datetime.fromtimestamp(unix_s).astimezone():%Y-%m-%d %H:%M:%S %z}"
    except (ValueError, OverflowError, OSError):
        return f"{unix_s:.0f} s after 1970"


def clock_text(wake_up: WakeUp, now_unix_s: float) -> str:
    """What the agent reads when the clock wakes it."""
    due = wake_up.due_unix_s or now_unix_s
    late = now_unix_s - due
    text = f"Wake-up {wake_up.number}: it is {written(now_unix_s)}."
    if late > _LATE_S:
        text += f" It was due at {written(due)}; nobody could wake you then."
    return f"{text} You asked for it at {written(wake_up.made_unix_s)}: {wake_up.why}"
