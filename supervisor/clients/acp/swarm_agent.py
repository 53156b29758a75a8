"""The agent that an editor speaks to: every method of the protocol, each in a few lines."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from acp import PROTOCOL_VERSION, RequestError
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    AvailableCommandsUpdate,
    ClientCapabilities,
    CloseSessionResponse,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    Usage,
)

from swarm.mailbox.base.errors import SwarmError, UsageError

from ...base.version import VERSION
from ..client import TurnResult
from .editor_client import EditorClient
from .editor_servers import EditorServer, encode_servers
from .editor_session import EditorSession, SessionPlace
from .prompt_blocks import PromptBlock, PromptContent
from .session_commands import find_command, folder_commands, run_command, shown_commands
from .session_settings import (
    config_options,
    mode_state,
    parse_mode,
    with_mode,
    with_option,
)
from .session_store import SessionStore

_INVALID_PARAMS, _INTERNAL_ERROR = -32602, -32603


class SwarmAgent:
    """What the SDK calls for each request of the editor; `close` it in the end.

    Args:
        models: The values of the option `model`, once they are known.
        client: The connection to the editor.
    """

    def __init__(self, models: asyncio.Task[tuple[str, ...]], client: Client) -> None:
        self._models = models
        self._editor = EditorClient(client)
        self._sessions = SessionStore(self._editor)
        self._later: set[asyncio.Task[None]] = set()  # updates that follow a reply

    # --- the connection ----------------------------------------------------------------------

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        **_: object,
    ) -> InitializeResponse:
        self._editor.learn(client_capabilities)
        return InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION),
            agent_info=Implementation(name="swarm", title="swarm", version=VERSION),
            auth_methods=[],
            agent_capabilities=AgentCapabilities(
                load_session=True,
                mcp_capabilities=McpCapabilities(http=True, sse=False),
                prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                    additional_directories=SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
        )

    async def authenticate(self, method_id: str, **_: object) -> AuthenticateResponse:
        raise _invalid(
            f"no method {method_id[:100]!r}: keys come from the environment in which the editor "
            "starts swarm (OPENAI_API_KEY, ANTHROPIC_API_KEY); `swarm doctor` says what is missing"
        )

    # --- sessions ----------------------------------------------------------------------------

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: Sequence[EditorServer] = (),
        **_: object,
    ) -> NewSessionResponse:
        models = await self._models
        with _in_words():
            session = self._sessions.create(_place(cwd, additional_directories, mcp_servers))
        self._announce(session)
        return NewSessionResponse(
            session_id=session.session_id,
            modes=mode_state(session.settings),
            config_options=config_options(session.settings, models),
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: Sequence[EditorServer] = (),
        additional_directories: list[str] | None = None,
        **_: object,
    ) -> LoadSessionResponse:
        models = await self._models
        with _in_words():
            place = _place(cwd, additional_directories, mcp_servers)
            session = await self._sessions.reopen(session_id, place)
            await session.replay()
            await session.join()
        self._announce(session)
        return LoadSessionResponse(
            modes=mode_state(session.settings),
            config_options=config_options(session.settings, models),
        )

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: Sequence[EditorServer] = (),
        **_: object,
    ) -> ResumeSessionResponse:
        models = await self._models
        with _in_words():
            place = _place(cwd, additional_directories, mcp_servers)
            session = await self._sessions.reopen(session_id, place)
            await session.skip_replay()
            await session.join()
        self._announce(session)
        return ResumeSessionResponse(
            modes=mode_state(session.settings),
            config_options=config_options(session.settings, models),
        )

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: object
    ) -> ListSessionsResponse:
        sessions, more = await self._sessions.page(cwd, cursor)
        return ListSessionsResponse(sessions=sessions, next_cursor=more)

    async def close_session(self, session_id: str, **_: object) -> CloseSessionResponse:
        with _in_words():
            await self._sessions.end(session_id)
        return CloseSessionResponse()

    def _announce(self, session: EditorSession) -> None:
        """Tell the commands, behind the reply: the editor does not know the session before.

        The caller replies without waiting in between, so the reply is first in line to be written.
        """
        update = AvailableCommandsUpdate(
            session_update="available_commands_update",
            available_commands=shown_commands(self._editor),
        )
        self._show_later(session, update)
        self._keep(asyncio.create_task(self._announce_files(session)))

    async def _announce_files(self, session: EditorSession) -> None:
        """Tell the command files of the session's folder, too; reading them takes a moment."""
        if of_folder := await folder_commands(session.cwd):
            update = AvailableCommandsUpdate(
                session_update="available_commands_update",
                available_commands=[*shown_commands(self._editor), *of_folder],
            )
            await self._editor.show(session.session_id, update)

    def _show_later(
        self,
        session: EditorSession,
        update: AvailableCommandsUpdate | ConfigOptionUpdate | CurrentModeUpdate,
    ) -> None:
        self._keep(asyncio.create_task(self._editor.show(session.session_id, update)))

    def _keep(self, sending: asyncio.Task[None]) -> None:
        self._later.add(sending)
        sending.add_done_callback(self._sent)

    def _sent(self, sending: asyncio.Task[None]) -> None:
        self._later.discard(sending)
        if not sending.cancelled():
            sending.exception()  # the editor has gone: its end is noticed elsewhere

    # --- settings ----------------------------------------------------------------------------

    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: object
    ) -> SetSessionModeResponse:
        models = await self._models
        with _in_words():
            session = self._sessions.find(session_id)
            await session.change_settings(with_mode(session.settings, parse_mode(mode_id)))
        options = config_options(session.settings, models)
        self._show_later(
            session,
            ConfigOptionUpdate(session_update="config_option_update", config_options=options),
        )
        return SetSessionModeResponse()

    async def set_config_option(
        self,
        config_id: str,
        session_id: str,
        value: str | bool,  # noqa: FBT001 - the SDK's
        **_: object,
    ) -> SetSessionConfigOptionResponse:
        models = await self._models
        with _in_words():
            session = self._sessions.find(session_id)
            before = session.settings
            await session.change_settings(with_option(before, config_id, str(value)))
        if session.settings.mode != before.mode:
            self._show_later(
                session,
                CurrentModeUpdate(
                    session_update="current_mode_update", current_mode_id=session.settings.mode
                ),
            )
        options = config_options(session.settings, models)
        return SetSessionConfigOptionResponse(config_options=options)

    # --- prompts -----------------------------------------------------------------------------

    async def prompt(
        self, session_id: str, prompt: list[PromptBlock], **_: object
    ) -> PromptResponse:
        with _in_words():
            session = self._sessions.find(session_id)
            with TemporaryDirectory(prefix="swarm-acp-") as folder:
                content = PromptContent(Path(folder), partial(self._editor.read_file, session_id))
                await content.add_all(prompt)
                command = None if content.images else find_command(content.text)
                if command is not None:
                    await run_command(command, session, self._editor)
                    return PromptResponse(stop_reason="end_turn")
                turn = await session.prompt(content.text, content.images)
        return _response(turn)

    async def cancel(self, session_id: str, **_: object) -> None:
        with suppress(UsageError):  # no session, nothing to cancel
            await self._sessions.find(session_id).cancel()

    async def close(self) -> None:
        """The editor has gone: stop what runs in its sessions."""
        await self._sessions.close()


def _place(cwd: str, add_dirs: list[str] | None, servers: Sequence[EditorServer]) -> SessionPlace:
    return SessionPlace(cwd, tuple(add_dirs or ()), encode_servers(servers))


def _response(turn: TurnResult) -> PromptResponse:
    usage = Usage(
        total_tokens=turn.usage.total_tokens,
        input_tokens=turn.usage.input_tokens,
        output_tokens=turn.usage.output_tokens,
        thought_tokens=turn.usage.reasoning_output_tokens,
        cached_read_tokens=turn.usage.cached_input_tokens,
        cached_write_tokens=turn.usage.cache_write_input_tokens,
    )
    match turn.status:
        case "interrupted":
            return PromptResponse(stop_reason="cancelled", usage=usage)
        case "failed":
            raise RequestError(_INTERNAL_ERROR, turn.text or "the turn failed")
        case "completed" if turn.truncated:
            return PromptResponse(stop_reason="max_tokens", usage=usage)
        case "completed" if turn.refused:
            return PromptResponse(stop_reason="refusal", usage=usage)
        case "completed":
            return PromptResponse(stop_reason="end_turn", usage=usage)


@contextmanager
def _in_words() -> Iterator[None]:
    """Errors as errors of the protocol, with the same words."""
    try:
        yield
    except UsageError as error:
        raise _invalid(str(error)) from error
    except SwarmError as error:
        raise RequestError(_INTERNAL_ERROR, str(error)) from error


def _invalid(words: str) -> RequestError:
    return RequestError(_INVALID_PARAMS, words)
