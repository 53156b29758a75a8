"""`RunContext.send`: a request is answered, also if its answer is too large to be sent."""

from types import SimpleNamespace

import pytest

from support.team_in_memory import open_team
from swarm.mailbox.base.errors import MessageTooLarge, PeerGone
from swarm.mailbox.delivery.envelope import MAX_MESSAGE_BYTES
from swarm.mailbox.protocol.ops import Answer, LearnRule, decode_op
from swarm.mailbox.protocol.requests import BlobStored, RequestRefused

LARGE = "x" * (MAX_MESSAGE_BYTES + 1)
AGENT = SimpleNamespace(identity=b"a/agent/1")


async def test_an_answer_that_no_mailbox_takes_becomes_a_refusal_that_names_its_size(
    tmp_path, autojump_clock
):
    async with open_team(tmp_path, {}) as team:
        team.server.admit(AGENT.identity, epoch=1)
        ours = team.server.connect(AGENT.identity, epoch=1)
        await team.running.send(AGENT, Answer(request_id=7, reply=BlobStored(path=LARGE)))
        await team.running.send(AGENT, Answer(request_id=8, reply=BlobStored(path="p")))
        heard = [decode_op((await ours.receive()).body) for _ in range(2)]
    refused, stored = heard
    assert (refused.request_id, type(refused.reply)) == (7, RequestRefused)
    assert "the answer is too large to be sent" in refused.reply.message
    assert str(MAX_MESSAGE_BYTES) in refused.reply.message
    assert stored == Answer(request_id=8, reply=BlobStored(path="p"))


async def test_an_order_that_no_mailbox_takes_is_its_senders_to_refuse(tmp_path, autojump_clock):
    async with open_team(tmp_path, {}) as team:
        team.server.admit(AGENT.identity, epoch=1)
        team.server.connect(AGENT.identity, epoch=1)
        with pytest.raises(MessageTooLarge):
            await team.running.send(AGENT, LearnRule(prefix=(LARGE,)))
        team.server.dismiss(AGENT.identity)
        with pytest.raises(PeerGone):
            await team.running.send(AGENT, Answer(request_id=1, reply=BlobStored(path="p")))
