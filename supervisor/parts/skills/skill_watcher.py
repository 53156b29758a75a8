"""Watches the folders of a run's skills: one watcher, one scan after a change, for all agents.

Agents are told with their next turn. A run of a second never starts it.
"""

import errno
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import trio

from swarm.mailbox.protocol.events import Warned
from swarm.roles.parts.skills.rescan import SkillsNow, look_again, watched_folders
from swarm.roles.parts.skills.skill_cache import CACHE_FILE, SkillCache
from swarm.roles.parts.skills.skill_file import SKILL_FILE, Skill
from swarm.roles.parts.skills.skill_list import skill_lines
from swarm.roles.parts.skills.skill_use import note_skill_use, read_skill_use

from ...agents.life.agent_manager import AgentManager
from ...context.run_context import RunContext
from ...context.skill_updates import send_skills
from ..undo.tree_walk import roots_of
from .folder_events import FolderEvents

_BEGIN_AFTER_S = 1.0  # what the run starts goes first
_SETTLE_S = 0.5  # several files are often written together
_CALM_S = 60.0
_SAVE_LIMIT_S = 1.0
_MOST_WATCHES = 4_000
_MOST_NAMED = 20
_NO_WATCHES = (errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_FILES = frozenset((SKILL_FILE, "openai.yaml"))


async def watch_skills(running: RunContext, agents: AgentManager) -> None:
    """Run until cancelled; returns at once where nothing is to be watched."""
    request = running.request
    if not (request.skill_set.sources.roots or request.skill_set.skills):
        return
    try:
        await trio.sleep(_BEGIN_AFTER_S)
        await _watch_and_look(running, SkillWatcher(running, agents))
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _SAVE_LIMIT_S):
            await _save_uses(running)


async def _watch_and_look(running: RunContext, watcher: "SkillWatcher") -> None:
    settle_s = _SETTLE_S
    while True:
        try:
            events = await trio.to_thread.run_sync(watcher.open_events)
        except OSError as error:
            why = f"changes of skills are seen by later runs alone: {error.strerror}"
            running.note(Warned(message=why))
            await trio.sleep_forever()
        with closing(events):
            await watcher.look()  # after the watches were set, so that no change is lost
            began = trio.current_time()
            await events.wait()
        # A command that changes a file again and again makes no more than a look a minute.
        is_calm = trio.current_time() - began > _CALM_S
        settle_s = _SETTLE_S if is_calm else min(settle_s * 2, _CALM_S)
        await trio.sleep(settle_s)


async def _save_uses(running: RunContext) -> None:
    """Note which skills commands have used, for the order of later lists."""
    if used := frozenset(running.skills.used):
        now_s = running.entropy.unix_s()
        note = partial(note_skill_use, running.paths.state, used, now_s=now_s)
        await trio.to_thread.run_sync(note)


class SkillWatcher:
    """Looks for skills again, and tells what has changed."""

    def __init__(self, running: RunContext, agents: AgentManager) -> None:
        self._running, self._agents = running, agents
        self._told: set[str] | None = None  # warnings that were given; None: those of the start

    def open_events(self) -> FolderEvents:
        """Watch all folders that matter now. Blocks. Raises OSError."""
        request = self._running.request
        events, count = FolderEvents(), 0
        try:
            for folder in watched_folders(request.skill_set.sources, request.skill_set.skills):
                if (count := count + 1) > _MOST_WATCHES:
                    break
                _watch(events, Path(folder))
        except BaseException:
            events.close()
            raise
        return events

    async def look(self) -> None:
        """Scan; if skills have changed, they count from now on, and every agent is told."""
        now = await trio.to_thread.run_sync(self._scan)
        skills = self._running.skills
        self._warn(now)
        if now.skills == skills.skills:
            return
        state = self._running.paths.state
        used = await trio.to_thread.run_sync(read_skill_use, state)
        sources = self._running.request.skill_set.sources
        listed = skill_lines(now.skills, limit_bytes=sources.budget_bytes, last_used=used)
        changes = describe_changes(skills.skills, now.skills)
        skills.replace(now.skills, listed.told if sources.is_listed else ())
        text = f"skills have changed: {changes}; agents are told with their next turn"
        self._running.note(Warned(message=text))
        async with trio.open_nursery() as nursery:
            for agent in tuple(self._agents.agents.values()):
                nursery.start_soon(partial(send_skills, self._running, agent))

    def _scan(self) -> SkillsNow:
        cache = SkillCache(self._running.paths.state / CACHE_FILE)
        request = self._running.request
        writable = roots_of(request.sandbox, request.cwd, request.add_dirs)
        now = look_again(
            request.skill_set.sources, request.skill_set.skills, cache, writable=writable
        )
        cache.save()
        return now

    def _warn(self, now: SkillsNow) -> None:
        texts = [
            f"skill {skill.name} is left out from now on: {skill.path} is not as it was when this "
            "run began, and its new content was not trusted"
            for skill in now.untrusted
        ]
        known = set(now.warnings) if self._told is None else self._told
        self._told = {*now.warnings, *texts}
        for text in sorted(self._told - known):
            self._running.note(Warned(message=text))


def describe_changes(before: Sequence[Skill], now: Sequence[Skill]) -> str:
    """Which skills are new, changed or gone, by name."""
    old, new = ({skill.path: skill for skill in skills} for skills in (before, now))
    words = [f"{new[path].name} (new)" for path in new if path not in old]
    words += [f"{one.name} (changed)" for path, one in new.items() if old.get(path, one) != one]
    words += [f"{old[path].name} (gone)" for path in old if path not in new]
    more = f" and {len(words) - _MOST_NAMED} more" if len(words) > _MOST_NAMED else ""
    return f"{', '.join(words[:_MOST_NAMED])}{more}"


def _watch(events: FolderEvents, folder: Path) -> None:
    """Watch the folder, or where it is not there, for what would lead to it."""
    for place in (folder, *folder.parents):
        below = folder.relative_to(place).parts
        try:
            if below:
                events.watch(str(place), frozenset(below[:1]))
            else:
                events.watch(str(place), _FILES, new_folders=True)
        except OSError as error:
            if error.errno in _NO_WATCHES:
                raise
            continue  # not there, no folder, closed to us, a loop of links, too long a name
        return
