"""Redelivers to a new process what the previous one left: mail, inputs, "continue".

A turn that a death cut off continues once, with everything that waited for it and under the same
schema. Mail that arrived a moment later would start a second turn beside it, and the same work
would be answered twice.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.protocol.ops import Deliver, UserInput
from swarm.mailbox.protocol.records import InputPosted

from ..run_context import RunContext
from .agent_record import Agent

InputSource = Literal["task", "person", "fan_out"]  # of records.InputPosted


def input_record(message: UserInput, source: InputSource) -> InputPosted:
    """The record of an input."""
    return InputPosted(
        input_id=message.input_id,
        parts=message.parts,
        source=source,
        output_schema=message.output_schema,
    )


def with_turn_schema(
    inputs: Sequence[InputPosted], schema: bytes | None
) -> tuple[InputPosted, ...]:
    """Inputs that joined an open turn: the first now starts a turn, under that turn's schema."""
    first = [replace(one, output_schema=one.output_schema or schema) for one in inputs[:1]]
    return (*first, *inputs[1:])


async def deliver_unread_mail(running: RunContext, agent: Agent, *, joining: bool = False) -> None:
    """Deliver its unread mail that is journaled; the rest is delivered once it is written.

    Args:
        joining: Another input starts the turn that the mail joins, so the mail starts none. An
            agent drops mail that it gets a second time.
    """
    for mail in tuple(agent.unread_mail.values()):
        if mail.mail_id in agent.unwritten_mail:
            continue
        sent = replace(mail, trigger_turn=False) if joining else mail
        try:
            await running.send(agent, Deliver(mail=sent))
        except PeerGone:
            return  # its next process gets them
