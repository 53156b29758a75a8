"""One question a host, however many wait; answers hold for whom they were meant."""

import trio
from trio.testing import wait_all_tasks_blocked

from swarm.mailbox.protocol.proxy import (
    NetworkAnswered,
    NetworkAsked,
    NetworkTarget,
    NetworkWithdrawn,
)
from swarm.worker.parts.network.network_questions import MOST_OPEN_OF_AGENT, NetworkQuestions

HOST = NetworkTarget(host="a.com", port=443, protocol="https")


class RecordedQuestions:
    """What was sent to the supervisor, and the answers of those who asked."""

    def __init__(self):
        self.sent, self.answers = [], []
        self.questions = NetworkQuestions(self.sent.append)

    async def ask(self, agent, target=HOST):
        self.answers.append((agent, await self.questions.ask(agent, target, "curl")))


async def test_two_agents_who_want_one_host_share_one_question_and_its_answer():
    recorded = RecordedQuestions()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorded.ask, "/root/a")
        nursery.start_soon(recorded.ask, "/root/b")
        await wait_all_tasks_blocked()
        assert len(recorded.sent) == 1
        recorded.questions.answer(NetworkAnswered(question=1, allow=True))
    assert sorted(recorded.answers) == [("/root/a", True), ("/root/b", True)]


async def test_a_yes_for_once_is_asked_again_by_the_next():
    recorded = RecordedQuestions()
    for number in (1, 2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorded.ask, "/root")
            await wait_all_tasks_blocked()
            recorded.questions.answer(NetworkAnswered(question=number, allow=True))
    assert [one.question for one in recorded.sent] == [1, 2]


async def test_an_answer_for_the_run_is_remembered_for_all_a_subtrees_for_those_below():
    recorded = RecordedQuestions()
    for allow, below, who in ((True, "/root/a", "/root/a/b"), (False, "", "/root/c")):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(recorded.ask, who)
            await wait_all_tasks_blocked()
            number = recorded.sent[-1].question
            answer = NetworkAnswered(question=number, allow=allow, remember=True, below=below)
            recorded.questions.answer(answer)
    asked = len(recorded.sent)
    for who in ("/root/a", "/root/a/b/c", "/root/ab", "/root"):
        await recorded.ask(who)
    assert len(recorded.sent) == asked
    assert recorded.answers[2:] == [
        ("/root/a", True), ("/root/a/b/c", True), ("/root/ab", False), ("/root", False)
    ]  # fmt: skip


async def test_a_question_nobody_waits_for_is_withdrawn():
    recorded = RecordedQuestions()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recorded.ask, "/root")
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert recorded.sent[1:] == [NetworkWithdrawn(question=1)]
    recorded.questions.answer(NetworkAnswered(question=1, allow=True))  # too late: nothing happens
    assert recorded.answers == []


async def test_a_command_that_invents_names_does_not_bury_a_person():
    recorded = RecordedQuestions()
    async with trio.open_nursery() as nursery:
        for number in range(MOST_OPEN_OF_AGENT + 5):
            target = NetworkTarget(host=f"{number}.com", port=1, protocol="http")
            nursery.start_soon(recorded.ask, "/root", target)
        await wait_all_tasks_blocked()
        assert sum(isinstance(one, NetworkAsked) for one in recorded.sent) == MOST_OPEN_OF_AGENT
        assert recorded.answers == [("/root", False)] * 5
        nursery.cancel_scope.cancel()
