"""A person's words to agents that have no process just then: each is heard once."""

import pytest
import trio

from support.team_in_memory import WORK, calls, open_team, says, spawn, wait
from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.protocol.events import CallBegan, TurnCompleted, TurnStarted
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    InputPosted,
    ItemRecorded,
    MailPosted,
)
from swarm.supervisor.agents.agent_phases import AgentEvent
from swarm.supervisor.agents.child_plan import AgentRequestError
from swarm.supervisor.agents.life.resume_continuation import continue_cut_off, has_work_after_end
from swarm.supervisor.context.run_context import RunContext
from swarm.supervisor.journal.journal_reader import run_records
from swarm.supervisor.journal.replay import fold_run
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


def heard(team, path, text):
    items = [one.item for one in team.bodies(ItemRecorded, path) if one.source == "user"]
    return sum(text in text_of(one.content) for one in items if isinstance(one, Message))


def member_of(team, path):
    found = team.service.team.find(path)
    assert found is not None
    return found


async def test_words_are_on_the_disk_before_it_is_said_that_they_were_sent(
    tmp_path, autojump_clock
):
    async with open_team(
        tmp_path, {path: [*said] for path, said in SCRIPTS.items()}, max_agents=2
    ) as team:
        await team.begin()
        with trio.fail_after(600):
            await team.until(lambda: "/root/a" in team.ends() and "/root/a" not in team.alive)
            await team.service.send_input(member_of(team, "/root/a"), words("listen"))
        assert [one.parts[0].text for one in team.bodies(InputPosted, "/root/a")] == ["listen"]


async def test_words_to_an_agent_that_stands_in_line_for_its_next_life_are_heard_in_it(
    tmp_path, autojump_clock
):
    async with open_team(
        tmp_path, {path: [*said] for path, said in SCRIPTS.items()}, max_agents=2
    ) as team:
        await team.begin()
        with trio.fail_after(600):
            await team.until(lambda: team.bodies(AgentSpawned, "/root/b"))
            await team.service.send_input(member_of(team, "/root/a"), words("first"))
            # Its memory is read by now.
            await team.until(lambda: team.running.agents.registry.waiting == 1)
            await trio.sleep(1)
            await team.service.send_input(member_of(team, "/root/a"), words("second"))
            assert "/root/a" not in team.alive
            await team.until(lambda: len(team.ends()["/root/a"]) > 1)
            await team.service.wait_done()
        assert [heard(team, "/root/a", text) for text in ("first", "second")] == [1, 1]


@pytest.mark.parametrize(("said", "expected"), [(True, True), (False, False)])
async def test_a_resume_knows_who_was_spoken_to_after_its_work_had_ended(
    tmp_path, autojump_clock, said, expected
):
    async with open_team(
        tmp_path, {path: [*said] for path, said in SCRIPTS.items()}, max_agents=2
    ) as team:
        await team.begin()
        with trio.fail_after(600):
            await team.until(lambda: team.bodies(AgentSpawned, "/root/b"))  # no slot is free
            if said:
                await team.service.send_input(member_of(team, "/root/a"), words("listen"))
        past = fold_run(run_records(team.running.paths))  # as if it were killed now
        assert past.agents["/root/a"].ended is not None
        assert has_work_after_end(team.running.paths, past.agents["/root/a"]) is expected
        assert not has_work_after_end(team.running.paths, past.agents["/root"])


async def test_a_word_to_who_waits_for_a_slot_does_not_pass_for_work(tmp_path, autojump_clock):
    scripts = {
        "/root": [calls(spawn("a"), spawn("b")), calls(wait()), *[says("root")] * 4],
        "/root/a": [calls(spawn("x")), *[says("a")] * 4],
        "/root/a/x": [says("x")],
        "/root/b": [says("b")],
    }
    async with open_team(tmp_path, scripts, max_agents=2) as team:
        await team.begin()
        with trio.fail_after(60):  # a request for a slot has 120 s by itself
            while team.running.agents.registry.waiting < 2:  # noqa: ASYNC110 — soon one of them gives way
                await trio.sleep(0.01)
            await team.service.send_input(member_of(team, "/root"), words("listen"))
            await team.service.send_input(member_of(team, "/root/a"), words("listen"))
            await team.until(lambda: {"/root/b", "/root/a/x"} <= set(team.children))
            await team.until(lambda: heard(team, "/root", "listen") == 1)
            await team.until(lambda: heard(team, "/root/a", "listen") == 1)
        assert "slot can ever" not in str(team.outputs("/root") + team.outputs("/root/a"))


async def test_a_resume_knows_who_had_begun_a_further_turn_in_the_same_process(
    tmp_path, autojump_clock
):
    async with open_team(tmp_path, {path: [*said] for path, said in SCRIPTS.items()}) as team:
        await team.begin()
        with trio.fail_after(600):
            await team.until(lambda: "/root/a" in team.ends())
        (spawned,) = team.bodies(AgentSpawned, "/root/a")

        def is_seen() -> bool:
            past = fold_run(run_records(team.running.paths))
            return has_work_after_end(team.running.paths, past.agents["/root/a"])

        assert not is_seen()
        begun = TurnStarted(turn_id="t", model=FAKE_MODEL)
        await team.running.commit(begun, agent="/root/a", file=spawned.agent_id)
        assert is_seen()
        end = TurnCompleted(turn_id="t", last_message="a again")
        await team.running.commit(end, agent="/root/a", file=spawned.agent_id)
        assert is_seen()  # its end was not told
        ended = AgentEnded(agent_id=spawned.agent_id, state="completed", message="a again")
        await team.running.commit(ended, agent="/root/a")
        assert not is_seen()


async def test_words_to_one_that_is_withdrawn_from_the_line_meanwhile_are_refused_and_start_nobody(
    tmp_path, autojump_clock
):
    scripts = {"/root": [calls(spawn("a"), spawn("b"))], "/root/a": [calls(WORK, WORK), says("a")]}
    async with open_team(tmp_path, scripts, disk_s=0.5, max_agents=2) as team:
        await team.begin()
        with trio.fail_after(600):
            await team.until(lambda: bool(team.bodies(MailPosted, "/root/b")))
            async with trio.open_nursery() as talk:
                talk.start_soon(refused, team, member_of(team, "/root/b"))
                await trio.sleep(0.1)  # the words are on their way to the disk
                # Whoever asked for it is gone.
                root = team.control.agents["/root"]
                team.service.on_agent_event(root, AgentEvent.PROCESS_ENDED)
            await team.until(lambda: "/root/a" in team.ends())
        assert "/root/b" not in team.children


async def refused(team, member):
    with pytest.raises(AgentRequestError, match="was never started"):
        await team.service.send_input(member, words("hello"))


END = {
    "/root": [calls(spawn("a")), calls(wait("a")), says("root"), says("root again")],
    "/root/a": [says("a"), says("a again")],
}


async def test_the_run_does_not_end_while_words_to_a_finished_agent_are_being_written(
    tmp_path, autojump_clock, monkeypatch
):
    async with open_team(tmp_path, {path: [*said] for path, said in END.items()}) as team:
        written, commit = trio.Event(), RunContext.commit

        async def commit_late(self, body, **where):
            if isinstance(body, InputPosted) and body.source == "person":
                await written.wait()  # a slow disk
            return await commit(self, body, **where)

        monkeypatch.setattr(RunContext, "commit", commit_late)
        await team.begin()
        with trio.fail_after(600):
            await team.until(lambda: "/root/a" in team.ends() and "/root/a" not in team.alive)
            async with trio.open_nursery() as talk:
                talk.start_soon(
                    team.service.send_input, member_of(team, "/root/a"), words("listen")
                )
                await trio.sleep(0.1)  # they are on their way to the disk
                await team.until(lambda: "/root" in team.ends())
                with trio.move_on_after(30) as patience:
                    await team.service.wait_done()
                assert patience.cancelled_caught
                written.set()
            await team.service.wait_done()
        assert heard(team, "/root/a", "listen") == 1


async def test_words_to_a_run_that_is_ending_are_refused_and_not_written(tmp_path, autojump_clock):
    async with open_team(tmp_path, {path: [*said] for path, said in END.items()}) as team:
        await team.begin()
        with trio.fail_after(600):
            await team.service.wait_done()
            team.service.close()
            with pytest.raises(AgentRequestError, match="the run is ending"):
                await team.service.send_input(member_of(team, "/root/a"), words("listen"))
        assert not team.bodies(InputPosted, "/root/a")


async def test_who_speaks_while_the_run_is_stopped_hears_that_a_resume_begins_with_it(
    tmp_path, autojump_clock
):
    async def told(team):
        with pytest.raises(AgentRequestError, match="`swarm resume` begins with these words"):
            await team.service.send_input(member_of(team, "/root/a"), words("listen"))

    scripts = {path: [*said] for path, said in END.items()}
    async with open_team(tmp_path, scripts, disk_s=0.5) as team:
        await team.begin()
        with trio.fail_after(600):
            await team.until(lambda: "/root/a" in team.ends())
            async with trio.open_nursery() as talk:
                talk.start_soon(told, team)
                await trio.sleep(0.1)  # the words are on their way to the disk
                team.service.close()
        past = fold_run(run_records(team.running.paths))
        assert has_work_after_end(team.running.paths, past.agents["/root/a"])


async def test_a_turn_that_a_death_left_open_before_the_run_ended_is_continued_without_a_note(
    tmp_path, autojump_clock
):
    async with open_team(tmp_path, {path: [*said] for path, said in SCRIPTS.items()}) as team:
        await team.begin()
        with trio.fail_after(600):
            await team.until(lambda: team.bodies(CallBegan, "/root/b"))
        (spawned,) = team.bodies(AgentSpawned, "/root/b")
        cut_off = AgentEnded(agent_id=spawned.agent_id, state="interrupted", cut_off=True)
        await team.running.commit(cut_off, agent="/root/b")
        past = fold_run(run_records(team.running.paths)).agents["/root/b"]
        continue_cut_off(team.running, past)
        await team.running.journal.flush()
        assert team.bodies(InputPosted, "/root/b") == []
        end = TurnCompleted(turn_id=team.bodies(TurnStarted, "/root/b")[0].turn_id)
        await team.running.commit(end, agent="/root/b", file=spawned.agent_id)
        continue_cut_off(team.running, past)
        await team.running.journal.flush()
        assert len(team.bodies(InputPosted, "/root/b")) == 1
