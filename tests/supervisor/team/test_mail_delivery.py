"""Letters are handed over only once they are written."""

from types import SimpleNamespace

import pytest
import trio

from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.records import MailPosted
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.supervisor.agents.live_agent import AgentPlan
from swarm.supervisor.journal.journal import open_journal
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.runs.paths import RunPaths
from swarm.supervisor.team.mail_delivery import MailDelivery, make_mail
from swarm.supervisor.team.team_members import TeamMembers


def plan_of(path, agent_id):
    return AgentPlan(path=path, agent_id=agent_id, role=RoleBrief(), limits=Limits(), cwd="/")


@pytest.fixture
def places(tmp_path):
    return RunPaths(folder=tmp_path, sockets=tmp_path)


async def test_a_letter_is_not_for_its_reader_before_the_journal_has_it(places):
    team, shown = TeamMembers(), []
    reader = team.add(plan_of("/root/a", "a"), state="running")
    async with open_journal(places) as journal, trio.open_nursery() as nursery:
        broadcast = SimpleNamespace(publish_record=shown.append)
        running = SimpleNamespace(journal=journal, broadcast=broadcast)
        post = MailDelivery(running, team, nursery, wake=lambda member: None)
        letter = make_mail("/root", "/root/a", "read me")
        post.send(reader, letter)
        assert not post.is_written(letter)
        assert reader.unread_mail == {letter.mail_id: letter}
        await journal.flush()
        assert post.is_written(letter)
        (record,) = read_records(places, file="a")
        assert record.body == MailPosted(mail=letter)
        assert [one.body for one in shown] == [record.body]
