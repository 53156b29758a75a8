"""What must hold of the wake-ups of a simulated run, and of its agents' processes meanwhile."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from swarm.mailbox.parts.wakeups.wakeup_messages import (
    WakeUp,
    WakeUpEnded,
    WakeUpFired,
    WakeUpMade,
)
from swarm.mailbox.protocol.records import (
    AgentSpawned,
    MailPosted,
    ProcessEnded,
    Record,
    RunCompleted,
    RunStarted,
)

_QUIET_S = 400.0  # longer than any wait of the simulated world but those for the clock
_ROUNDING_S = 0.002


def check_wake_ups(records: Sequence[Record], completed: RunCompleted) -> Iterator[str]:
    """None is lost, doubled or early."""
    made: dict[int, WakeUp] = {}
    over = Counter[int]()
    mails = Counter[str](
        one.body.mail.mail_id for one in records if isinstance(one.body, MailPosted)
    )
    for one in records:
        match one.body:
            case WakeUpMade(wake_up=wake_up):
                if wake_up.number in made:
                    yield f"wake-up {wake_up.number} is made twice"
                made[wake_up.number] = wake_up
            case WakeUpFired(number=number, mail_id=mail_id):
                over[number] += 1
                due = made[number].due_unix_s
                if due is not None and one.ts < due - _ROUNDING_S:
                    yield f"wake-up {number} fired {due - one.ts:.1f} s early"
                if made[number].cause == "clock" and mails[mail_id] != 1:
                    yield f"wake-up {number} sent {mails[mail_id]} mails"
            case WakeUpEnded(number=number):
                over[number] += 1
            case _:
                pass
    yield from (
        f"wake-up {number} ended {count} times" for number, count in over.items() if count > 1
    )
    lost = [number for number, one in made.items() if not over[number] and one.cause == "clock"]
    if completed.status == "completed" and lost:
        yield f"the run is over, and the wake-ups {lost} never fired"


def check_quiet(records: Iterable[Record]) -> Iterator[str]:
    """While nothing happens for long, no agent has a process: it only waits."""
    live: set[tuple[str, int]] = set()
    before: Record | None = None
    for one in records:
        quiet_s = one.ts - before.ts if before is not None else 0.0
        if quiet_s > _QUIET_S and live:
            yield f"nothing happened for {quiet_s:.0f} s, and {sorted(live)} had processes"
        match one.body:
            case AgentSpawned(agent_id=agent_id, epoch=epoch):
                live.add((agent_id, epoch))
            case ProcessEnded(agent_id=agent_id, epoch=epoch):
                live.discard((agent_id, epoch))
            case RunStarted():
                live.clear()
            case _:
                pass
        before = one
