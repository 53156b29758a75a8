"""Letters are handed over only once they are written."""

from types import SimpleNamespace

import pytest
import trio

from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.records import MailPosted
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.supervisor.agency.letters import Post, write_letter
from swarm.supervisor.agency.team import Team
from swarm.supervisor.agents import AgentPlan
from swarm.supervisor.journal.reading import read_records
from swarm.supervisor.journal.rollout import open_journal
from swarm.supervisor.places import RunPlaces


def plan_of(path, agent_id):
    return AgentPlan(path=path, agent_id=agent_id, role=RoleBrief(), limits=Limits(), cwd="/")


@pytest.fixture
def places(tmp_path):
    return RunPlaces(folder=tmp_path, sockets=tmp_path)


async def test_a_letter_is_not_for_its_reader_before_the_journal_has_it(places):
    team, shown = Team(), []
    reader = team.enlist(plan_of("/root/a", "a"), state="running")
    async with open_journal(places) as journal, trio.open_nursery() as nursery:
        showing = SimpleNamespace(record=shown.append)
        running = SimpleNamespace(journal=journal, showing=showing)
        post = Post(running, team, nursery, wake=lambda member: None)
        letter = write_letter("/root", "/root/a", "read me")
        post.post(reader, letter)
        assert not post.is_written(letter)
        assert reader.letters == {letter.mail_id: letter}
        await journal.settle()
        assert post.is_written(letter)
        (record,) = read_records(places, file="a")
        assert record.body == MailPosted(mail=letter)
        assert [one.body for one in shown] == [record.body]
