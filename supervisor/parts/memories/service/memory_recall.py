"""Serves agents that search memories, or report one that is not true any more.

Nothing here writes memories: a report is journaled, and the memory job reads it.
"""

import time

import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.parts.memories.memory_messages import (
    MAX_QUERY_CHARS,
    MAX_WHY_CHARS,
    MemoriesFound,
    MemoryMarked,
    MemoryReported,
    RecallMemories,
    ReportStaleMemory,
)

from ....agents.agent_record import Agent
from ....agents.child_plan import AgentRequestError
from ....part_access.part_host import PartHost
from ..memory_context import known_project
from ..memory_database import using_database
from ..memory_facts import FACT_ID, GLOBAL, one_line
from ..memory_paths import DATABASE, memories_folder
from ..memory_readers import reads_memories
from ..memory_search import search_memories
from ..memory_store import MemoryStore


class MemoryRecall:
    """Of one run."""

    def __init__(self, host: PartHost) -> None:
        self._host = host

    async def serve(
        self, asker: Agent, request: RecallMemories | ReportStaleMemory
    ) -> MemoriesFound | MemoryReported:
        """Serve one request. Raises AgentRequestError."""
        wanted = self._host.request
        if not reads_memories(wanted, asker.plan):
            raise AgentRequestError("this agent reads no memories")
        if isinstance(request, RecallMemories):
            query = request.query[:MAX_QUERY_CHARS]
            return await trio.to_thread.run_sync(self._search, query, asker.plan.cwd)
        why = one_line(request.why)[:MAX_WHY_CHARS]
        if not FACT_ID.fullmatch(request.fact_id) or not why:
            raise AgentRequestError("name the memory by its id, as `m1234abcd`, and say why")
        await self._host.commit(MemoryMarked(fact_id=request.fact_id, why=why), agent=asker.path)
        return MemoryReported(fact_id=request.fact_id)

    def _search(self, query: str, cwd: str) -> MemoriesFound:
        request = self._host.request
        folder = memories_folder(self._host.paths.state)
        is_global = request.parts.memories.settings.scope == "global"
        project = GLOBAL if is_global else known_project(folder, request.cwd)
        try:
            with using_database(folder / DATABASE, read_only=True) as base:
                store = MemoryStore(base)
                facts, more = search_memories(store, project, query, cwd=cwd, now=time.time())
        except SwarmError as error:
            raise AgentRequestError(f"memories cannot be read: {error}") from error
        return MemoriesFound(facts=facts, more=more)
