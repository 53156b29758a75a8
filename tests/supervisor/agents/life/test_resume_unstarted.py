"""Input for an agent that waits for a slot and never starts is returned, however its spawn ends."""

import pytest
import trio

from support.team_in_memory import WORK, calls, open_team, says, spawn, wait
from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.items import text_of
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    InputPosted,
    ItemRecorded,
    MailHandled,
    MailPosted,
)
from swarm.supervisor.agents.life.mail_delivery import make_mail
from swarm.supervisor.agents.life.resume_unstarted import NEVER_STARTED, close_unstarted

CHILD = "/root/p/b"
HELLO = ("send_message", {"target": CHILD, "message": "are you there?"})


def scripts():
    """`p` wants a child while all slots are taken; `a` writes to that child, and works on."""
    return {
        "/root": [calls(spawn("a")), calls(spawn("p")), calls(wait("a")), *[says("root")] * 4],
        "/root/a": [calls(WORK), calls(HELLO), *[calls(WORK) for _ in range(14)], says("a")],
        "/root/p": [calls(spawn("b")), *[says("p")] * 3],
    }


def told(team, path="/root/a"):
    """What came back to the author, and was read."""
    items = [one.item for one in team.bodies(ItemRecorded, path) if one.source == "mail"]
    return [text for one in items if "was not read" in (text := text_of(one.content))]


async def to_wait(team):
    return


async def to_interrupt(team):
    await team.control.interrupt([team.control.agents["/root/p"]], "a person said so")


async def to_kill_the_process(team):
    team.children["/root/p"][-1].kill_group()


async def to_end_the_child(team):
    await team.service.kill([team.service.team.members[CHILD]])


async def to_end_the_asker(team):
    await team.service.kill(team.service.team.subtree("/root/p"))


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (to_wait, "no agent slot came free within 120 s"),
        (to_interrupt, "the one who asked for it is gone"),
        (to_kill_the_process, "the one who asked for it is gone"),
        (to_end_the_child, f"{CHILD} was ended for good"),
        (to_end_the_asker, f"{CHILD} was ended for good"),
    ],
)
async def test_a_mail_to_who_never_leaves_the_line_is_dead_and_its_author_is_told(
    tmp_path, autojump_clock, end, reason
):
    async with open_team(tmp_path, scripts(), max_agents=3) as team:
        await team.begin()
        with trio.fail_after(600):
            await team.until(lambda: len(team.bodies(MailPosted, CHILD)) == 2)
            await end(team)
            await team.until(lambda: bool(told(team)))
            await team.service.wait_done()
        (words,) = told(team)
        assert reason in words
        assert words.endswith("It said: are you there?")
        assert not team.bodies(AgentSpawned, CHILD)
        posted = [one.mail.mail_id for one in team.bodies(MailPosted, CHILD)]
        fates = [one for one in team.bodies(MailHandled) if one.mail_id in posted]
        assert [one.mail_id for one in fates] == posted
        assert all(one.dead and reason[:40] in one.reason for one in fates), fates


async def test_a_name_that_a_withdrawn_request_left_free_gets_none_of_its_mails(
    tmp_path, autojump_clock
):
    responses = scripts()
    responses["/root/p"] = [calls(spawn("b")), calls(spawn("b")), *[says("p")] * 3]
    responses[CHILD] = [says("b")]
    async with open_team(tmp_path, responses, max_agents=3) as team:
        await team.begin()
        with trio.fail_after(600):
            await team.service.wait_done()
        read = [one for one in team.bodies(ItemRecorded, CHILD) if one.source == "mail"]
        assert ["are you there?" in text_of(one.item.content) for one in read] == [False]
        assert len(told(team)) == 1


async def test_a_further_task_of_an_agent_in_line_waits_for_a_resume_when_the_run_ends(
    tmp_path, autojump_clock
):
    again = ("followup_task", {"target": "a", "message": "once more"})
    responses = {
        "/root": [calls(spawn("a")), calls(wait("a")), calls(spawn("b")), calls(again),
                  calls(wait("b")), says("root")],
        "/root/a": [says("a")],
        "/root/b": [*[calls(WORK) for _ in range(9)], says("b")],
    }  # fmt: skip
    async with open_team(tmp_path, responses, max_agents=2) as team:
        await team.begin()
        with trio.fail_after(600):
            await team.until(lambda: team.running.agents.registry.waiting == 1)
            team.service.close()
            await trio.sleep(200)
        assert [one.state for one in team.bodies(AgentEnded, "/root/a")] == ["completed"]
        assert not any(one.dead for one in team.bodies(MailHandled, "/root/a"))
        assert len(team.children["/root/a"]) == 1, "nothing starts while the run ends"


async def test_a_resume_tells_the_authors_of_mails_to_who_was_never_started(
    tmp_path, autojump_clock
):
    async with open_team(tmp_path, scripts(), max_agents=3) as team:
        await team.begin()
        await team.until(lambda: "/root/a" in team.control.agents)
        running, post, file = team.running, team.service.mail, "f" * 32
        mail = make_mail("/root/a", CHILD, "are you there?")
        words = InputPosted(input_id=new_uuid7(), parts=(TextInput(text="hm"),), source="person")
        for body in (MailPosted(mail=mail), words):
            await running.commit(body, agent=CHILD, file=file)
        known = {one.plan.agent_id for one in team.service.team.members.values()}
        for _ in range(2):  # also after another cut
            close_unstarted(running, post, known)
            await running.journal.flush()
        dead = [one for one in team.bodies(MailHandled, CHILD) if one.mail_id == mail.mail_id]
        assert [(one.dead, one.reason) for one in dead] == [(True, NEVER_STARTED)]
        assert [NEVER_STARTED in one.message for one in team.bodies(Warned, CHILD)] == [True]
        with trio.fail_after(600):
            await team.until(lambda: bool(told(team)))
        assert len(told(team)) == 1


async def test_a_persons_words_to_who_never_leaves_the_line_are_said_to_be_lost(
    tmp_path, autojump_clock
):
    async with open_team(tmp_path, scripts(), max_agents=3) as team:
        await team.begin()
        with trio.fail_after(600):
            await team.until(lambda: bool(team.bodies(MailPosted, CHILD)))
            part = TextInput(text="hm")
            words = UserInput(input_id=new_uuid7(), parts=(part,))
            await team.service.send_input(team.service.team.members[CHILD], words)
            await team.service.wait_done()
        (warned,) = team.bodies(Warned, CHILD)
        assert "never started, and nobody read what was said to it: no agent slot" in warned.message
