"""What a person's words become: the text of a command file that they call, files, skills.

Only a person's words call a command or a skill; texts of agents and contents of files do not. Files
that a command mentions are read here, below the agent's folder and as its sandbox allows.
"""

from pathlib import Path

import trio

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.ops import CommandInput, TextInput, UserInputPart
from swarm.mailbox.protocol.values.limits import SandboxPolicy
from swarm.roles.parts.commands.command_expansion import CalledCommand, expand_call, find_call

from ..base.file_excerpts import Excerpt, read_excerpt, readable_below, render_excerpts
from .run_context import RunContext
from .skill_mentions import read_named_skills

_FILES_BYTES = 128 << 10  # of all files that one command mentions


async def typed_parts(
    running: RunContext, text: str, *, agent: str, spoken: str | None = None
) -> tuple[UserInputPart, ...]:
    """The parts of an input with this text, for the agent at this path.

    `spoken`: the part of it that is the person's, if not all is; only that names skills.

    Raises UsageError: it calls a command in a way in which it cannot be called.
    """
    call = find_call(text, running.request.commands)
    if call is None:
        skills = await read_named_skills(running, spoken or text, agent=agent)
        return (TextInput(text=text), *skills)
    expansion = expand_call(call)
    found = running.agents.find(agent)
    request = running.request
    cwd = request.cwd if found is None else found.plan.cwd
    sandbox = request.sandbox if found is None else found.plan.limits.sandbox
    excerpts = await trio.to_thread.run_sync(_read_files, expansion.files, cwd, sandbox)
    missing = {one for one in expansion.files if "/" in one or "." in one}
    if missing := missing - {one.label for one in excerpts}:
        names = ", ".join(sorted(missing))
        why = f"/{call.command.name}: not read, for it is not a text file below {cwd}: {names}"
        running.note(Warned(message=why), agent=agent)
    shown = render_excerpts(excerpts, limit_bytes=_FILES_BYTES)
    said = call if spoken is None else find_call(spoken, (call.command,)) or call
    skills = await read_named_skills(running, f"{said.words}\n{said.rest}", agent=agent)
    called = CommandInput(
        name=call.command.name, path=call.command.path, typed=_typed(call), lines=expansion.lines
    )
    whole = "\n\n".join(filter(None, (expansion.text, shown)))
    return (TextInput(text=whole), called, *skills)


async def first_parts(
    running: RunContext, text: str, *, spoken: str | None = None
) -> tuple[UserInputPart, ...]:
    """The same for the root where nobody waits for an error: the words are sent as they are."""
    try:
        return await typed_parts(running, text, agent=ROOT_PATH, spoken=spoken)
    except UsageError as error:
        running.note(Warned(message=f"{error}; sent as words"), agent=ROOT_PATH)
        return (TextInput(text=text),)


def _typed(call: CalledCommand) -> str:
    return f"/{call.command.name} {call.words}".rstrip()


def _read_files(names: tuple[str, ...], cwd: str, sandbox: SandboxPolicy) -> list[Excerpt]:
    may = readable_below(Path(cwd), sandbox)
    read = (read_excerpt(Path(cwd, name), name, may) for name in names)
    return [one for one in read if one is not None]
