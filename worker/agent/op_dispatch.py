"""Dispatch of the supervisor's ops to the agent session.

The loop never waits for a turn. An op is acknowledged when it is applied, and applying it does not
block: input and mail go to the inbox, the other ops set state or signal.
"""

from typing import assert_never

import msgspec

from swarm.mailbox.interfaces import Mailbox, ReceivedMessage
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.ops import (
    Answer,
    AnyOp,
    ApplySettings,
    Compact,
    Continue,
    Deliver,
    GatewayMoved,
    Interrupt,
    LearnRule,
    Notice,
    Pause,
    RollBackTurns,
    Shutdown,
    UndoCompaction,
    UserInput,
    decode_op,
)

from .agent_session import AgentSession
from .turn.rollback import roll_back_turns
from .turn.turn_state import AbortReason

_REASONS: dict[str, AbortReason] = {
    "budget": "budget",
    "deadline": "deadline",
    "replaced": "replaced",
}


async def serve_ops(session: AgentSession, post: Mailbox) -> Shutdown:
    """Apply each op as soon as it is received; return at Shutdown."""
    last: list[Shutdown] = []

    def take(letter: ReceivedMessage) -> bool:
        try:
            op = decode_op(letter.body)
        except msgspec.DecodeError as error:
            session.reporter.emit(Warned(message=f"an order could not be read: {error}"))
            post.acknowledge(letter)
            return False
        apply_op(session, op)
        post.acknowledge(letter, soon=False)
        if isinstance(op, Shutdown):
            last.append(op)
        return bool(last)

    await post.consume(take)
    return last[0]


def apply_op(session: AgentSession, op: AnyOp) -> None:
    """Apply one op to the session, without waiting."""
    match op:
        case UserInput():
            session.admit_input(op)
        case Deliver(mail=mail):
            session.deliver_mail(mail)
        case Notice():
            session.inbox.add_notice(op)
        case Interrupt(reason=reason, keep_commands=keep):
            session.interrupt(_REASONS.get(reason, "interrupted"), keep_commands=keep)
        case Compact():
            session.request_compaction(None)
        case UndoCompaction():
            session.request_compaction(op)
        case RollBackTurns():
            roll_back_turns(session, op)
        case ApplySettings(settings=settings):
            session.wanted_settings = settings
        case LearnRule(prefix=prefix):
            session.add_rule(prefix)
        case Pause():
            session.pause.begin()
        case Continue():
            session.pause.end()
        case GatewayMoved(endpoint=endpoint, token=token):
            session.sampler.move(endpoint, token)
        case Answer(request_id=request_id, reply=reply):
            session.reporter.receive_reply(request_id, reply)
        case Shutdown():
            pass
        case _:
            assert_never(op)
