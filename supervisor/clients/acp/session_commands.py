"""Commands that a prompt may consist of (`/diff`), and what each of them does."""

import os
import sys
from typing import NamedTuple

from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    TerminalToolCallContent,
    ToolCallStart,
    UnstructuredCommandInput,
)

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import new_uuid7, short_id
from swarm.mailbox.protocol.control import CompactAgent, Done

from ..chat.own_commands import read_own_commands
from ..chat.swarm_commands import run_swarm_command
from .call_description import fenced_text
from .editor_client import EditorClient
from .editor_session import EditorSession

_COLUMNS = 100
_COMPACT_LIMIT_S = 60.0


class SessionCommand(NamedTuple):
    """`command_line`: the command line that does it."""

    name: str
    about: str
    command_line: tuple[str, ...] = ()  # words of the command line; the run follows the first
    needs_terminal: bool = False


_COMMANDS = (
    SessionCommand("compact", "Shorten the conversation."),
    SessionCommand("diff", "What the agents changed in files.", command_line=("diff",)),
    SessionCommand(
        "undo", "Put the files back as they were before the agents.", command_line=("undo",)
    ),
    SessionCommand(
        "merge", "Bring what agents changed in copies into the project.", command_line=("merge",)
    ),
    SessionCommand("agents", "All agents: role, state, tokens, cost.", command_line=("show",)),
    SessionCommand("context", "What the requests are made of.", command_line=("show", "--context")),
    SessionCommand("watch", "The live tree of agents, in a terminal here.", needs_terminal=True),
)


def shown_commands(editor: EditorClient) -> list[AvailableCommand]:
    """The commands that this editor can offer."""
    return [
        AvailableCommand(name=one.name, description=one.about)
        for one in _COMMANDS
        if editor.has_terminals or not one.needs_terminal
    ]


async def folder_commands(cwd: str) -> list[AvailableCommand]:
    """Command files and skills of a session's folder; a prompt that names one goes to the agent."""
    taken = {one.name for one in _COMMANDS}
    return [
        AvailableCommand(
            name=one.name,
            description=one.short,
            input=None
            if not one.arguments
            else AvailableCommandInput(root=UnstructuredCommandInput(hint=one.arguments)),
        )
        for one in await read_own_commands(os.environ, cwd=cwd)
        if one.name not in taken
    ]


def find_command(text: str) -> SessionCommand | None:
    """The command that a prompt is; None for a prompt that is meant for the agent."""
    return next((one for one in _COMMANDS if text == f"/{one.name}"), None)


async def run_command(
    command: SessionCommand, session: EditorSession, editor: EditorClient
) -> None:
    """Do it, and show what came of it. Raises SwarmError."""
    run = session.run
    if not run.paths.folder.exists():
        raise UsageError(f"/{command.name} needs a run: say first what is to be done")
    if command.needs_terminal:
        await _watch(session, editor)
    elif command.command_line:
        words = [command.command_line[0], short_id(run.run_id), *command.command_line[1:]]
        done = await run_swarm_command(
            words, environment=os.environ, columns=_COLUMNS, cwd=session.cwd
        )
        if done.exit_code:
            raise SwarmError(done.words or done.text or f"`swarm {' '.join(words)}` failed")
        text = done.text or done.words or "nothing"
        await session.say(fenced_text(text))
    else:
        reply = await run.request(CompactAgent(), timeout_s=_COMPACT_LIMIT_S)
        await session.say(reply.message if isinstance(reply, Done) else "")


async def _watch(session: EditorSession, editor: EditorClient) -> None:
    command = [sys.executable, "-P", "-m", "swarm.supervisor.clients.cli.entry", "watch"]
    terminal = await editor.open_terminal(
        session.session_id, [*command, session.session_id], session.cwd
    )
    session.keep_terminal(terminal)
    shown = ToolCallStart(
        session_update="tool_call",
        tool_call_id=f"watch-{new_uuid7()}",
        title="swarm watch",
        kind="other",
        status="completed",
        content=[TerminalToolCallContent(type="terminal", terminal_id=terminal)],
    )
    await editor.show(session.session_id, shown)
