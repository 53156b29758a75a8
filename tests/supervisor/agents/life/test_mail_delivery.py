"""Letters are handed over only once they are written."""

from types import SimpleNamespace

import pytest
import trio

from support.agent_records import add_working
from swarm.mailbox.protocol.records import MailPosted
from swarm.supervisor.agents.agent_directory import AgentDirectory
from swarm.supervisor.agents.finished_agents import FinishedAgents
from swarm.supervisor.agents.life.mail_delivery import MailDelivery, make_mail
from swarm.supervisor.agents.slots import AgentRegistry
from swarm.supervisor.journal.journal import open_journal
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.runs.paths import RunPaths


@pytest.fixture
def places(tmp_path):
    return RunPaths(folder=tmp_path, sockets=tmp_path)


async def test_a_mail_is_not_for_its_reader_before_the_journal_has_it(places):
    shown = []
    team = AgentDirectory(AgentRegistry(8), FinishedAgents(places.folder))
    reader = add_working(team, "/root/a", agent_id="a")
    async with open_journal(places) as journal, trio.open_nursery() as nursery:
        broadcast = SimpleNamespace(publish_record=shown.append)
        running = SimpleNamespace(journal=journal, broadcast=broadcast, agents=team)
        post = MailDelivery(running, nursery, wake=lambda member: None)
        posted_mail = make_mail("/root", "/root/a", "read me")
        post.send(reader, posted_mail)
        assert reader.unwritten_mail == {posted_mail.mail_id}
        assert reader.unread_mail == {posted_mail.mail_id: posted_mail}
        await journal.flush()
        assert not reader.unwritten_mail
        (record,) = read_records(places, file="a")
        assert record.body == MailPosted(mail=posted_mail)
        assert [one.body for one in shown] == [record.body]
