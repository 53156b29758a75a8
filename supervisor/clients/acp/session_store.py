"""The sessions of one editor: new ones, those of earlier runs, and their end."""

import asyncio
import os
import time
from pathlib import Path

from acp.schema import SessionInfo

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import is_run_id, new_uuid7

from ...journal.journal_reader import read_records
from ...runs.paths import UserPaths, find_user_paths, paths_of_run
from ...runs.run_list import RunSummary, list_runs
from ...runs.run_metadata import read_metadata
from ..client import LiveRun
from .editor_client import EditorClient
from .editor_session import EditorSession, SessionPlace
from .session_settings import SessionSettings, settings_of_records

_MOST_SESSIONS = 64  # open at once
_PAGE = 50


class SessionStore:
    """Sessions by their ids. `close` it: what its sessions started is ended."""

    def __init__(self, editor: EditorClient) -> None:
        self._editor = editor
        self._open: dict[str, EditorSession] = {}
        self._places = find_user_paths(dict(os.environ))

    def create(self, place: SessionPlace) -> EditorSession:
        """A session whose run starts with its first prompt. Raises UsageError."""
        return self._add(new_uuid7(), place, SessionSettings())

    async def reopen(self, session_id: str, place: SessionPlace) -> EditorSession:
        """The session of a run, alive or ended; where it works stays. Raises UsageError."""
        if session_id in self._open:
            return self._open[session_id]
        if not is_run_id(session_id):
            raise UsageError(f"no session {session_id[:100]!r}; session/list names those there are")
        run = paths_of_run(self._places, session_id)
        about = await asyncio.to_thread(read_metadata, run)
        settings = await asyncio.to_thread(lambda: settings_of_records(read_records(run)))
        where = place._replace(cwd=about.cwd or place.cwd)
        return self._add(session_id, where, settings)

    def _add(
        self, session_id: str, place: SessionPlace, settings: SessionSettings
    ) -> EditorSession:
        if session_id in self._open:
            return self._open[session_id]
        for folder in (place.cwd, *place.add_dirs):
            if not Path(folder).is_absolute() or not Path(folder).is_dir():
                raise UsageError(f"{folder[:500]!r} is not an absolute path of a folder")
        if len(self._open) >= _MOST_SESSIONS:
            raise UsageError(f"{_MOST_SESSIONS} sessions are open; close one first")
        run = LiveRun(paths_of_run(self._places, session_id))
        session = EditorSession(run, place, settings, self._editor)
        self._open[session_id] = session
        return session

    def find(self, session_id: str) -> EditorSession:
        """Raises UsageError for a session that is not open."""
        session = self._open.get(session_id)
        if session is None:
            raise UsageError(f"no session {session_id[:100]!r}; session/load opens an earlier one")
        return session

    async def page(
        self, cwd: str | None, cursor: str | None
    ) -> tuple[list[SessionInfo], str | None]:
        """The newest runs of a folder, or of all, and where the next page begins."""
        fits = await asyncio.to_thread(_runs_of, self._places, cwd)
        fits.sort(key=lambda run: run.run_id, reverse=True)
        rest = [run for run in fits if cursor is None or run.run_id < cursor]
        shown = [
            SessionInfo(
                session_id=run.run_id,
                cwd=run.cwd or "/",
                title=run.name or run.title or None,
                updated_at=_rfc3339(run.ended or run.started),
            )
            for run in rest[:_PAGE]
        ]
        return shown, rest[_PAGE - 1].run_id if len(rest) > _PAGE else None

    async def end(self, session_id: str) -> None:
        """Close a session and end its run. Raises UsageError."""
        session = self.find(session_id)
        del self._open[session_id]
        await session.close(end_run=True)

    async def close(self) -> None:
        """The editor has gone: end what its sessions started; leave runs that they only joined."""
        sessions = [*self._open.values()]
        self._open.clear()
        closing = (one.close(end_run=one.has_started_run) for one in sessions)
        for result in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, SwarmError):
                raise result


def _runs_of(places: UserPaths, cwd: str | None) -> list[RunSummary]:
    """The runs of a folder, whichever links lead to it; None: all."""
    runs = list_runs(places)
    if cwd is None:
        return list(runs)
    folder = os.path.realpath(cwd)
    return [run for run in runs if os.path.realpath(run.cwd) == folder]


def _rfc3339(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
