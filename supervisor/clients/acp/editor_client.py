"""The editor, as sessions use it: what it is shown, asked, and what it can do for an agent."""

import asyncio
from typing import TypeAlias

from acp import RequestError
from acp.interfaces import Client
from acp.schema import (
    AcceptElicitationResponse,
    AvailableCommandsUpdate,
    CancelElicitationResponse,
    ClientCapabilities,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    DeclineElicitationResponse,
    ElicitationFormSessionMode,
    OtherElicitationResponse,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from swarm.mailbox.base.errors import SwarmError

from .session_updates import Update

AnyUpdate: TypeAlias = Update | AvailableCommandsUpdate | ConfigOptionUpdate | CurrentModeUpdate
_ANSWER_LIMIT_S = 10.0
_FAULTS = (RequestError, ConnectionError, TimeoutError, ValueError)


class EditorClient:
    """One editor. Its abilities are known once it has sent `initialize`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reads_files = self._has_terminals = self._shows_forms = False

    def learn(self, abilities: ClientCapabilities | None) -> None:
        """Take over what the editor says that it can do."""
        if abilities is None:
            return
        self._reads_files = bool(abilities.fs is not None and abilities.fs.read_text_file)
        self._has_terminals = bool(abilities.terminal)
        forms = abilities.elicitation
        self._shows_forms = forms is not None and forms.form is not None

    @property
    def has_terminals(self) -> bool:
        return self._has_terminals

    @property
    def shows_forms(self) -> bool:
        return self._shows_forms

    async def fill_in(
        self, session_id: str, message: str, schema: dict[str, object]
    ) -> AcceptElicitationResponse | DeclineElicitationResponse | CancelElicitationResponse:
        """Show a form and wait for its answer. Raises SwarmError without one."""
        mode = ElicitationFormSessionMode.model_validate(
            {"sessionId": session_id, "requestedSchema": schema}
        )
        try:
            response = await self._client.create_elicitation(message=message, mode=mode)
        except _FAULTS as error:
            raise SwarmError(f"the editor did not answer: {error}") from error
        if isinstance(response, OtherElicitationResponse):
            raise SwarmError("the editor gave an answer that is not known")
        return response

    async def show(self, session_id: str, update: AnyUpdate) -> None:
        """Raises ConnectionError if the editor has gone."""
        await self._client.session_update(session_id=session_id, update=update)

    async def ask(
        self, session_id: str, call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse:
        """Wait for a person's answer. Raises SwarmError if the editor refuses or has gone."""
        try:
            return await self._client.request_permission(
                session_id=session_id, tool_call=call, options=options
            )
        except _FAULTS as error:
            raise SwarmError(f"the editor did not answer: {error}") from error

    async def read_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None
    ) -> str | None:
        """A file, or `limit` lines from `line` on, with what is not saved yet; None if the editor
        does not give it.
        """
        if not self._reads_files:
            return None
        try:
            async with asyncio.timeout(_ANSWER_LIMIT_S):
                reply = await self._client.read_text_file(
                    session_id=session_id, path=path, line=line, limit=limit
                )
        except _FAULTS:
            return None  # the agent reads the file itself
        return reply.content

    async def open_terminal(self, session_id: str, command: list[str], cwd: str) -> str:
        """Start a command in a terminal of the editor; its id. Raises SwarmError."""
        program, *arguments = command
        try:
            async with asyncio.timeout(_ANSWER_LIMIT_S):
                reply = await self._client.create_terminal(
                    session_id=session_id, command=program, args=arguments, cwd=cwd
                )
        except _FAULTS as error:
            raise SwarmError(f"the editor opened no terminal: {error}") from error
        return reply.terminal_id

    async def close_terminal(self, session_id: str, terminal_id: str) -> None:
        """End its command and forget it; an editor that has gone has done so."""
        try:
            async with asyncio.timeout(_ANSWER_LIMIT_S):
                await self._client.release_terminal(session_id=session_id, terminal_id=terminal_id)
        except _FAULTS:
            return
