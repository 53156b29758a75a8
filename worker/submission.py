"""What the agent is asked to do: one `match` over every op.

Rule guarded: this loop never waits for a turn. An op is acknowledged when it is applied, and
applying takes no time: words and letters go to the inbox, the rest are signals.
"""

from typing import assert_never

import msgspec

from swarm.mailbox.post import Letter, Mailbox
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.ops import (
    Adopt,
    Answer,
    AnyOp,
    Compact,
    Continue,
    Deliver,
    GatewayMoved,
    Interrupt,
    LearnRule,
    Notice,
    Pause,
    Shutdown,
    TakeBack,
    UndoCompaction,
    UserInput,
    decode_op,
)

from .session import Session
from .turn.state import AbortReason
from .turn.taking_back import take_back

_REASONS: dict[str, AbortReason] = {
    "budget": "budget",
    "deadline": "deadline",
    "replaced": "replaced",
}


async def serve(session: Session, post: Mailbox) -> Shutdown:
    """Apply ops in the moment in which they come; return at Shutdown."""
    last: list[Shutdown] = []

    def take(letter: Letter) -> bool:
        try:
            op = decode_op(letter.body)
        except msgspec.DecodeError as error:
            session.reporter.say(Warned(message=f"an order could not be read: {error}"))
            post.handled(letter)
            return False
        apply(session, op)
        post.handled(letter, soon=False)
        if isinstance(op, Shutdown):
            last.append(op)
        return bool(last)

    await post.hand_on(take)
    return last[0]


def apply(session: Session, op: AnyOp) -> None:
    """Apply one op to the session, at once."""
    match op:
        case UserInput():
            session.admit(op)
        case Deliver(mail=mail):
            session.deliver(mail)
        case Notice():
            session.inbox.notify(op)
        case Interrupt(reason=reason, keep_commands=keep):
            session.interrupt(_REASONS.get(reason, "interrupted"), keep_commands=keep)
        case Compact():
            session.ask_compaction(None)
        case UndoCompaction():
            session.ask_compaction(op)
        case TakeBack():
            take_back(session, op)
        case Adopt(settings=settings):
            session.wanted = settings
        case LearnRule(prefix=prefix):
            session.learn_rule(prefix)
        case Pause():
            session.pausing.hold()
        case Continue():
            session.pausing.go_on()
        case GatewayMoved(endpoint=endpoint, token=token):
            session.sampler.move(endpoint, token)
        case Answer(request_id=request_id, reply=reply):
            session.reporter.answered(request_id, reply)
        case Shutdown():
            pass
        case _:
            assert_never(op)
