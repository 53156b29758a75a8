"""Requests of agents about files, images and the environment: what involves no other agent."""

from typing import assert_never

import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.protocol.events import CallBegan, FileWatch, Warned
from swarm.mailbox.protocol.ops import Answer
from swarm.mailbox.protocol.requests import (
    AnyReply,
    EnvironmentReply,
    FilesSaved,
    GetEnvironment,
    KeepFiles,
    ListChanges,
    MergeCopies,
    MergeWritten,
    NonTeamRequest,
    PlanMerge,
    RequestRefused,
    SaveFiles,
    StoreBlob,
    WatchFiles,
)

from ..agents.agent_record import Agent
from ..context.run_context import RunContext
from ..parts.copies.live.agent_merges import serve_merge_request
from ..parts.undo.live.file_history import FileHistory
from ..processes.shell_snapshot import ShellSnapshot
from ..request.withheld_variables import withheld_variables
from ..runs.image_blobs import store_blob


class FileRequests:
    """Serves them, each in a task of its own."""

    def __init__(self, running: RunContext, history: FileHistory, nursery: trio.Nursery) -> None:
        self._run = running
        self._nursery = nursery
        self._history = history
        request = running.request
        self._shell = ShellSnapshot(
            request.environment, withheld=withheld_variables(request), asked=request.shell_snapshot
        )

    def serve(self, agent: Agent, request_id: int, request: NonTeamRequest) -> None:
        """Begin to serve one request. Never waits."""
        self._nursery.start_soon(self._serve, agent, request_id, request)

    def watch(self, agent: Agent, begun: CallBegan, watch: FileWatch) -> trio.Event:
        """Record the files while the begin is being written; the event says that it is.

        The reply is sent when both are done.
        """
        journaled = trio.Event()
        self._nursery.start_soon(self._watch, agent, begun, watch, journaled)
        return journaled

    async def _watch(
        self, agent: Agent, begun: CallBegan, watch: FileWatch, journaled: trio.Event
    ) -> None:
        request = WatchFiles(turn_id=begun.turn_id, call_id=begun.call_id, paths=watch.paths)
        reply = await self._history.change_watcher.call_starting(agent, request)
        await self._history.patch_locks.take(agent, begun.call_id, watch.paths)
        await journaled.wait()
        await self._reply(agent, watch.request_id, reply)

    async def _serve(self, agent: Agent, request_id: int, request: NonTeamRequest) -> None:
        await self._reply(agent, request_id, await self._reply_to(agent, request))

    async def _reply_to(self, agent: Agent, request: NonTeamRequest) -> AnyReply:
        match request:
            case StoreBlob():
                folder, redactor = self._run.paths.blobs, self._run.journal.redactor
                return await trio.to_thread.run_sync(store_blob, folder, request, redactor)
            case KeepFiles():
                return await self._history.take_snapshot(agent, request)
            case WatchFiles():
                reply = await self._history.change_watcher.call_starting(agent, request)
                await self._history.patch_locks.take(agent, request.call_id, request.paths)
                return reply
            case PlanMerge() | MergeCopies() | MergeWritten():
                return await serve_merge_request(self._run, self._history, agent, request)
            case SaveFiles():
                await self._run.hosts.bring_layers(agent.plan.agent_id)
                return FilesSaved()
            case ListChanges():
                return await self._history.list_changes(agent)
            case GetEnvironment():
                return await self._environment_of(agent)
            case _:
                assert_never(request)

    async def _environment_of(self, agent: Agent) -> AnyReply:
        if agent.plan.host:
            return RequestRefused(message="its machine has an environment of its own")
        reply = EnvironmentReply(variables=await self._shell.get())
        if why := self._shell.take_problem():
            self._run.note(Warned(message=why))
        return reply

    async def _reply(self, agent: Agent, request_id: int, reply: AnyReply) -> None:
        try:
            await self._run.send(agent, Answer(request_id=request_id, reply=reply))
        except PeerGone:
            return  # its process ended meanwhile; nobody waits for the reply
