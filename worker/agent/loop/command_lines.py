"""Runs the command lines of a command file that a person called, before the model is asked.

Each line is a call of `exec_command` as if the model had made it: the same judgement, approvals,
hooks, sandbox and journal. The input is recorded first, so a line is never run twice: one that is
cut off by a crash or an interrupt is missing, and the input's text says what that means.
"""

import msgspec

from swarm.mailbox.protocol.items import FunctionCall
from swarm.mailbox.protocol.ops import CommandInput

from ...base.truncate import truncate_middle
from ..context import context_blocks
from ..state.agent_state import AgentState
from ..turn.turn_state import Turn

_TOOL = "exec_command"
_YIELD_MS = 30_000
_OUTPUT_BYTES = 16 << 10  # of one line
_ID_CHARS = 40  # of the turn's id within the id of a call


async def run_command_lines(state: AgentState, turn: Turn) -> None:
    """Run the lines of the commands that the turn's input has called, in order."""
    while turn.commands:
        command = turn.commands.pop(0)
        for number, line in enumerate(command.lines, 1):
            if turn.is_last_request:
                return
            if not await _run_line(state, turn, command, line, number):
                return


async def _run_line(
    state: AgentState, turn: Turn, command: CommandInput, line: str, number: int
) -> bool:
    """Run one line and record what the model reads of it. False: a person ended the turn."""
    arguments = {"cmd": line, "yield_time_ms": _YIELD_MS}
    call = FunctionCall(
        call_id=f"command-{state.new_id()[:_ID_CHARS]}",
        name=_TOOL,
        arguments=msgspec.json.encode(arguments).decode(),
    )
    outcome = await state.orchestrator.perform(call, turn_id=turn.turn_id)
    turn.declined |= outcome.status == "declined"
    text = truncate_middle(outcome.text, budget_bytes=_OUTPUT_BYTES, unit="chars")
    message = context_blocks.command_output_message(command.name, line, number, text)
    state.record(turn.turn_id, message, source="note", is_output=True)
    if outcome.ends_turn:
        state.interrupt("interrupted")
    return not outcome.ends_turn
