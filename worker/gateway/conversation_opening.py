"""Opens the conversation of a peer that has proved its identity: provider, model, item store."""

import logging
import re
from pathlib import Path

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.protocol.sampling import ConversationRefused, OpenConversation

from .app import GatewayApp, UnknownModel
from .conversations import Conversation, ConversationOwner
from .failures import internal_failure
from .fit.dialect import LearnedDialects
from .open_providers import OpenProvider
from .response_relay import AgentConnection
from .sampling_fields import SamplingFields

_log = logging.getLogger("swarm.gateway")
_PEER = re.compile(rb"a/(?P<agent>[^/]{1,200})/(?P<epoch>[1-9][0-9]{0,8})\Z")


def agent_of(peer: bytes) -> tuple[str, int] | None:
    """The agent's id and its process's epoch; None if this is no name of an agent."""
    found = _PEER.match(peer)
    return (
        None if found is None else (found["agent"].decode("utf-8", "replace"), int(found["epoch"]))
    )


class ConversationOpener:
    """Makes the connections of agents. It keeps none."""

    def __init__(self, app: GatewayApp, blobs_dir: Path, redactor: Redactor) -> None:
        self._app, self._blobs_dir, self._redactor = app, blobs_dir, redactor
        self._fields = SamplingFields()
        self._dialects = LearnedDialects(app.configured_dialect)

    def open_now(
        self, peer: bytes, op: OpenConversation
    ) -> AgentConnection | ConversationRefused | None:
        """None: the provider must be opened or asked first, which may take seconds."""
        provider = self._app.find_provider(op.provider)
        if provider is None or self._app.must_look_up(provider, op.model):
            return None
        return self._open_with(provider, peer, op)

    async def open_later(
        self, peer: bytes, op: OpenConversation
    ) -> AgentConnection | ConversationRefused:
        """The same, after the provider was opened and asked."""
        try:
            provider = await self._app.open_provider(op.provider, op.model)
        except Exception as error:
            return self._refusal(error)
        return self._open_with(provider, peer, op)

    def _open_with(
        self, provider: OpenProvider, peer: bytes, op: OpenConversation
    ) -> AgentConnection | ConversationRefused:
        try:
            model = self._app.model_for(provider, op.model, op.agent_path)
            self._app.note_model(op.agent_path, model)
            store = self._app.new_store(provider, model, self._blobs_dir)
        except Exception as error:
            return self._refusal(error)
        found = agent_of(peer)
        owner = ConversationOwner(op.agent_id, op.agent_path, model)
        conversation = Conversation(owner, store, self._fields, self._dialects)
        return AgentConnection(peer, found[1] if found else 0, conversation, provider)

    def _refusal(self, error: Exception) -> ConversationRefused:
        text = str(error)
        if not isinstance(error, UnknownModel | SwarmError):
            text = internal_failure(error).message
            _log.error("%s", text)
        return ConversationRefused(message=self._redactor.redact_error(text))


class PendingOpenings:
    """Conversations whose provider is being opened: the latest of each agent."""

    def __init__(self) -> None:
        self._pending: dict[str, tuple[bytes, OpenConversation]] = {}  # by agent id

    def add(self, peer: bytes, op: OpenConversation) -> None:
        self._pending[op.agent_id] = peer, op

    def has(self, peer: bytes) -> bool:
        """True if this process waits for its conversation."""
        return any(pending == peer for pending, _ in self._pending.values())

    def epoch(self, agent_id: str) -> int:
        """The epoch of the process that waits; 0: none does."""
        peer, _ = self._pending.get(agent_id, (b"", None))
        found = agent_of(peer)
        return 0 if found is None else found[1]

    def end(self, peer: bytes, op: OpenConversation) -> bool:
        """Its provider is open. False: the agent has asked for another one meanwhile, or ended."""
        pending = self._pending.get(op.agent_id)
        is_latest = pending is not None and pending[0] == peer and pending[1] is op
        if is_latest:
            del self._pending[op.agent_id]
        return is_latest

    def forget(self, agent_id: str, epoch: int) -> bytes | None:
        """This process has ended (0: any); returns the peer that waited."""
        if epoch and self.epoch(agent_id) > epoch:
            return None
        return self._pending.pop(agent_id, (None, None))[0]
