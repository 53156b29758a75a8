"""A person's words to agents that have no process just then: each is heard once."""

import pytest
import trio

from support.team_in_memory import WORK, calls, open_tree, says, spawn, wait
from swarm.mailbox.ids import new_uuid7
from swarm.mailbox.protocol.events import TurnCompleted, TurnStarted
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    InputPosted,
    ItemRecorded,
    MailPosted,
)
from swarm.supervisor.agents.child_plan import AgentRequestError
from swarm.supervisor.agents.resume_continuation import has_work_after_end
from swarm.supervisor.journal.journal_reader import run_records
from swarm.supervisor.journal.replay import fold_run
from swarm.supervisor.run_context import RunContext
from swarm.worker.testing.agent_harness import FAKE_MODEL

SCRIPTS = {
    "/root": [
        calls(spawn("a")), calls(wait("a")), calls(spawn("b")), calls(WORK, WORK, WORK),
        calls(wait("b")), says("root"), says("root again"), says("root once more"),
    ],
    "/root/a": [says("a"), says("a again"), says("a once more")],
    "/root/b": [calls(WORK, WORK), says("b")],
}  # fmt: skip


def words(text):
    return UserInput(input_id=new_uuid7(), parts=(TextInput(text=text),))


def heard(tree, path, text):
    items = [one.item for one in tree.bodies(ItemRecorded, path) if one.source == "user"]
    return sum(text in text_of(one.content) for one in items if isinstance(one, Message))


def member_of(tree, path):
    found = tree.agency.team.find(path)
    assert found is not None
    return found


async def test_words_are_on_the_disk_before_it_is_said_that_they_were_sent(
    tmp_path, autojump_clock
):
    async with open_tree(
        tmp_path, {path: [*said] for path, said in SCRIPTS.items()}, max_agents=2
    ) as tree:
        await tree.begin()
        with trio.fail_after(600):
            await tree.until(lambda: "/root/a" in tree.ends() and "/root/a" not in tree.alive)
            await tree.agency.send_input(member_of(tree, "/root/a"), words("listen"))
        assert [one.parts[0].text for one in tree.bodies(InputPosted, "/root/a")] == ["listen"]


async def test_words_to_an_agent_that_stands_in_line_for_its_next_life_are_heard_in_it(
    tmp_path, autojump_clock
):
    async with open_tree(
        tmp_path, {path: [*said] for path, said in SCRIPTS.items()}, max_agents=2
    ) as tree:
        await tree.begin()
        with trio.fail_after(600):
            await tree.until(lambda: tree.bodies(AgentSpawned, "/root/b"))
            await tree.agency.send_input(member_of(tree, "/root/a"), words("first"))
            await tree.until(
                lambda: len(tree.running.slot_scheduler) == 1
            )  # its memory is read by now
            await trio.sleep(1)
            await tree.agency.send_input(member_of(tree, "/root/a"), words("second"))
            assert "/root/a" not in tree.alive
            await tree.until(lambda: len(tree.ends()["/root/a"]) > 1)
            await tree.agency.wait_done()
        assert [heard(tree, "/root/a", text) for text in ("first", "second")] == [1, 1]


@pytest.mark.parametrize(("said", "expected"), [(True, True), (False, False)])
async def test_a_resume_knows_who_was_spoken_to_after_its_work_had_ended(
    tmp_path, autojump_clock, said, expected
):
    async with open_tree(
        tmp_path, {path: [*said] for path, said in SCRIPTS.items()}, max_agents=2
    ) as tree:
        await tree.begin()
        with trio.fail_after(600):
            await tree.until(lambda: tree.bodies(AgentSpawned, "/root/b"))  # no slot is free
            if said:
                await tree.agency.send_input(member_of(tree, "/root/a"), words("listen"))
        past = fold_run(run_records(tree.running.paths))  # as if it were killed now
        assert past.agents["/root/a"].ended is not None
        assert has_work_after_end(tree.running.paths, past.agents["/root/a"]) is expected
        assert not has_work_after_end(tree.running.paths, past.agents["/root"])


async def test_a_word_to_who_waits_for_a_slot_does_not_pass_for_work(tmp_path, autojump_clock):
    scripts = {
        "/root": [calls(spawn("a"), spawn("b")), calls(wait()), *[says("root")] * 4],
        "/root/a": [calls(spawn("x")), *[says("a")] * 4],
        "/root/a/x": [says("x")],
        "/root/b": [says("b")],
    }
    async with open_tree(tmp_path, scripts, max_agents=2) as tree:
        await tree.begin()
        with trio.fail_after(60):  # a wish for a slot has 120 s by itself
            while len(tree.running.slot_scheduler) < 2:  # noqa: ASYNC110 — soon one of them gives way
                await trio.sleep(0.01)
            await tree.agency.send_input(member_of(tree, "/root"), words("listen"))
            await tree.agency.send_input(member_of(tree, "/root/a"), words("listen"))
            await tree.until(lambda: {"/root/b", "/root/a/x"} <= set(tree.children))
            await tree.until(lambda: heard(tree, "/root", "listen") == 1)
            await tree.until(lambda: heard(tree, "/root/a", "listen") == 1)
        assert "slot can ever" not in str(tree.outputs("/root") + tree.outputs("/root/a"))


async def test_a_resume_knows_who_had_begun_a_further_turn_in_the_same_process(
    tmp_path, autojump_clock
):
    async with open_tree(tmp_path, {path: [*said] for path, said in SCRIPTS.items()}) as tree:
        await tree.begin()
        with trio.fail_after(600):
            await tree.until(lambda: "/root/a" in tree.ends())
        (spawned,) = tree.bodies(AgentSpawned, "/root/a")

        def is_seen() -> bool:
            past = fold_run(run_records(tree.running.paths))
            return has_work_after_end(tree.running.paths, past.agents["/root/a"])

        assert not is_seen()
        begun = TurnStarted(turn_id="t", model=FAKE_MODEL)
        await tree.running.commit(begun, agent="/root/a", file=spawned.agent_id)
        assert is_seen()
        end = TurnCompleted(turn_id="t", last_message="a again")
        await tree.running.commit(end, agent="/root/a", file=spawned.agent_id)
        assert is_seen()  # its end was not told
        ended = AgentEnded(agent_id=spawned.agent_id, state="completed", message="a again")
        await tree.running.commit(ended, agent="/root/a")
        assert not is_seen()


async def test_words_to_one_that_is_withdrawn_from_the_line_meanwhile_are_refused_and_start_nobody(
    tmp_path, autojump_clock
):
    scripts = {"/root": [calls(spawn("a"), spawn("b"))], "/root/a": [calls(WORK, WORK), says("a")]}
    async with open_tree(tmp_path, scripts, disk_s=0.5, max_agents=2) as tree:
        await tree.begin()
        with trio.fail_after(600):
            await tree.until(lambda: bool(tree.bodies(MailPosted, "/root/b")))
            async with trio.open_nursery() as talk:
                talk.start_soon(refused, tree, member_of(tree, "/root/b"))
                await trio.sleep(0.1)  # the words are on their way to the disk
                tree.agency.on_process_ended(
                    tree.control.agents["/root"]
                )  # whoever asked for it is gone
            await tree.until(lambda: "/root/a" in tree.ends())
        assert "/root/b" not in tree.children


async def refused(tree, member):
    with pytest.raises(AgentRequestError, match="was never started"):
        await tree.agency.send_input(member, words("hello"))


END = {
    "/root": [calls(spawn("a")), calls(wait("a")), says("root"), says("root again")],
    "/root/a": [says("a"), says("a again")],
}


async def test_the_run_does_not_end_while_words_to_a_finished_agent_are_being_written(
    tmp_path, autojump_clock, monkeypatch
):
    async with open_tree(tmp_path, {path: [*said] for path, said in END.items()}) as tree:
        written, commit = trio.Event(), RunContext.commit

        async def commit_late(self, body, **where):
            if isinstance(body, InputPosted) and body.source == "person":
                await written.wait()  # a slow disk
            return await commit(self, body, **where)

        monkeypatch.setattr(RunContext, "commit", commit_late)
        await tree.begin()
        with trio.fail_after(600):
            await tree.until(lambda: "/root/a" in tree.ends() and "/root/a" not in tree.alive)
            async with trio.open_nursery() as talk:
                talk.start_soon(tree.agency.send_input, member_of(tree, "/root/a"), words("listen"))
                await trio.sleep(0.1)  # they are on their way to the disk
                await tree.until(lambda: "/root" in tree.ends())
                with trio.move_on_after(30) as patience:
                    await tree.agency.wait_done()
                assert patience.cancelled_caught
                written.set()
            await tree.agency.wait_done()
        assert heard(tree, "/root/a", "listen") == 1


async def test_words_to_a_run_that_is_ending_are_refused_and_not_written(tmp_path, autojump_clock):
    async with open_tree(tmp_path, {path: [*said] for path, said in END.items()}) as tree:
        await tree.begin()
        with trio.fail_after(600):
            await tree.agency.wait_done()
            tree.agency.close()
            with pytest.raises(AgentRequestError, match="the run is ending"):
                await tree.agency.send_input(member_of(tree, "/root/a"), words("listen"))
        assert not tree.bodies(InputPosted, "/root/a")


async def test_who_speaks_while_the_run_is_stopped_hears_that_a_resume_begins_with_it(
    tmp_path, autojump_clock
):
    async def told(tree):
        with pytest.raises(AgentRequestError, match="`swarm resume` begins with these words"):
            await tree.agency.send_input(member_of(tree, "/root/a"), words("listen"))

    scripts = {path: [*said] for path, said in END.items()}
    async with open_tree(tmp_path, scripts, disk_s=0.5) as tree:
        await tree.begin()
        with trio.fail_after(600):
            await tree.until(lambda: "/root/a" in tree.ends())
            async with trio.open_nursery() as talk:
                talk.start_soon(told, tree)
                await trio.sleep(0.1)  # the words are on their way to the disk
                tree.agency.close()
        past = fold_run(run_records(tree.running.paths))
        assert has_work_after_end(tree.running.paths, past.agents["/root/a"])
