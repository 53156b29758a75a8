"""Adds to an input the instructions of the skills that its text names.

An input is a person's, or the task with which an agent is started. The file is read again here,
once for each input. What a project's skill says was trusted as it was
at the start, so a changed one is left out; a person's own may change.
"""

import hashlib
from functools import partial

import trio

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.safe_open import READ_FLAGS, open_canonical, read_whole
from swarm.mailbox.base.written_text import decode_leniently
from swarm.mailbox.contents.context_markers import skill_block
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.ops import SkillInput
from swarm.mailbox.protocol.settings import SkillChoice
from swarm.roles.parts.skills.skill_file import SKILL_BYTES, Skill
from swarm.roles.parts.skills.skill_list import mentioned_skills, shared_names
from swarm.roles.parts.skills.skill_servers import missing_servers
from swarm.roles.parts.skills.skill_use import note_skill_use

from .run_context import RunContext

MAX_SKILLS = 8  # in one input
_TEXT_BYTES = 64 << 10  # of one skill; the model can read the rest of the file


async def read_named_skills(
    running: RunContext, text: str, *, agent: str
) -> tuple[SkillInput, ...]:
    """Read each skill that the text names and the agent's role allows.

    What is left out is warned of in the journal.
    """
    mentioned = mentioned_skills(text, running.skills.skills)
    choice = _choice_of(running, agent)
    named = tuple(skill for skill in mentioned if choice.allows(skill.name))
    parts: list[SkillInput] = []
    warnings = [
        f"skill {skill.name} is left out: the role of {agent} excludes it (`skills` in its file)"
        for skill in mentioned
        if not choice.allows(skill.name)
    ]
    warnings += [
        f"{name} is the name of {len(paths)} skills, so it names none: write "
        f"{' or '.join(f'[${name}]({path})' for path in paths[:MAX_SKILLS])}"
        for name, paths in shared_names(text, running.skills.skills).items()
    ]
    for skill in named[:MAX_SKILLS]:
        try:
            parts.append(await trio.to_thread.run_sync(_read, skill))
        except (UsageError, OSError) as error:
            warnings.append(f"skill {skill.name} is left out: {skill.path}: {error}")
    if len(named) > MAX_SKILLS:
        more = ", ".join(skill.name for skill in named[MAX_SKILLS:])
        warnings.append(f"an input brings at most {MAX_SKILLS} skills; left out: {more}")
    if parts:
        note = partial(note_skill_use, running.paths.state, now_s=running.entropy.unix_s())
        await trio.to_thread.run_sync(note, [part.path for part in parts])
    servers = {server.name for server in running.request.mcp.servers}
    given = [skill for skill in named if skill.path in {part.path for part in parts}]
    warnings += [line for skill in given for line in missing_servers(skill, servers)]
    for warning in warnings:
        running.note(Warned(message=warning), agent=agent)
    return tuple(parts)


async def with_named_skills(running: RunContext, task: str, *, agent: str) -> str:
    """The task of a new agent, and behind it the skills that it names and its role allows."""
    parts = await read_named_skills(running, task, agent=agent)
    return "\n\n".join((task, *map(skill_block, parts)))


def _choice_of(running: RunContext, path: str) -> SkillChoice:
    """The skills of this agent; the root's before it was started."""
    found = running.agents.find(path)
    return (running.request.role if found is None else found.plan.role).skills


def _read(skill: Skill) -> SkillInput:
    data = read_whole(open_canonical(skill.path, READ_FLAGS), most_bytes=SKILL_BYTES)
    if skill.scope in ("repo", "plugin") and hashlib.sha256(data).hexdigest() != skill.digest:
        raise UsageError("it has changed since the run began, and that content was not trusted")
    text = decode_leniently(data).text
    if len(encoded := text.encode()) > _TEXT_BYTES:
        text = encoded[:_TEXT_BYTES].decode("utf-8", "ignore")
        text += f"\n[cut here after {_TEXT_BYTES:,} bytes: read the rest in the file]"
    return SkillInput(name=skill.name, path=skill.path, text=text)
