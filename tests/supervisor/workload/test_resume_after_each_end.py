"""The table of docs/resume.md: what a resume does after each end, in virtual time."""

from functools import partial

import pytest
import trio

from support.team_in_memory import WORK, calls, open_team, says, spawn, wait
from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.protocol.events import CallBegan, TurnAborted, TurnStarted, Warned
from swarm.mailbox.protocol.items import FunctionCallOutput, Message, OutputText, text_of
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import AgentEnded, ItemRecorded
from swarm.mailbox.protocol.sampling import SampleCompleted
from swarm.supervisor.agents.end_states import LIMIT_RAISED_NOTE, REFUSED_NOTE, STOPPED_NOTE
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.journal.replay import fold_agent
from swarm.supervisor.request.run_request import NextInput
from swarm.supervisor.workload.task_workload import NOTHING_TO_DO
from swarm.worker.testing.agent_harness import END, done, failed

AT_WORK = [calls(WORK)]
LIMIT_S = 600
CUT = SampleCompleted(request_id=0, truncated=True)


async def at_work(team, path="/root"):
    await team.until(lambda: bool(team.bodies(CallBegan, path)))


async def by_itself(team):
    return


async def by_ctrl_c(team):
    await at_work(team)
    team.ending.interrupt()


async def by_signal(team):
    await at_work(team)
    team.ending.end("terminated")


async def by_the_deadline_of_the_run(team):
    await at_work(team)
    team.ending.end("deadline")


async def by_its_deadline(team):
    await at_work(team)
    await team.control.interrupt([team.control.agents["/root"]], "deadline")


async def by_a_person(team):
    await at_work(team)
    await team.control.interrupt([team.control.agents["/root"]], "a person interrupted it")


async def by_kill(team):
    await at_work(team)
    await team.service.kill([team.control.agents["/root"]])


async def by_dying(team):
    await at_work(team)
    for lives in (1, 2, 3, 4):
        await team.until(lambda lives=lives: len(team.lives["/root"]) == lives)
        await trio.sleep(0.1)
        team.children["/root"][-1].kill_group()


# What ends the run; what its model says; status of the run, state of the root; what its model is
# told when it goes on (None: it does not).
ENDS = {
    "completed": (by_itself, [says("first")], "completed", "completed", None),
    "truncated": (by_itself, [(done(Message(role="assistant", content=(OutputText(text="fi"),))),
                               CUT)], "truncated", "truncated", None),
    "ctrl-c": (by_ctrl_c, AT_WORK, "interrupted", "interrupted", STOPPED_NOTE),
    "sigterm": (by_signal, AT_WORK, "terminated", "interrupted", STOPPED_NOTE),
    "interrupt": (by_a_person, AT_WORK, "interrupted", "interrupted", STOPPED_NOTE),
    "budget": (by_itself, [(failed("refused_budget"),)], "budget", "budget", LIMIT_RAISED_NOTE),
    "deadline of the run": (by_the_deadline_of_the_run, AT_WORK, "deadline", "interrupted",
                            STOPPED_NOTE),
    "deadline": (by_its_deadline, AT_WORK, "deadline", "deadline", LIMIT_RAISED_NOTE),
    "refused": (by_itself, [calls(("forbidden", {})), *[(END,)] * 4], "refused", "refused",
                REFUSED_NOTE),
    "unauthorized": (by_itself, [(failed("unauthorized"),)], "provider", "failed", ""),
    "broken": (by_itself, [(failed("other"),)], "provider", "failed", ""),
    "repeating": (by_itself, [(failed("repeating"),)], "failed", "failed", ""),
    "crashed": (by_dying, [calls(WORK)] * 4, "failed", "crashed", ""),
    "killed": (by_kill, AT_WORK, "failed", "killed", STOPPED_NOTE),
}  # fmt: skip


async def first_part(folder, name):
    end, script, status, state, _ = ENDS[name]
    async with open_team(folder, {"/root": [*script]}, prompt="do it") as team:
        team.nursery.start_soon(end, team)
        with trio.fail_after(LIMIT_S):
            completed = await team.work()
        assert (completed.status, team.ends()["/root"][-1]) == (status, state)
        return team.past()


def words(text):
    return UserInput(input_id=new_uuid7(), parts=(TextInput(text=text),))


def told(team):
    items = [one.item for one in team.bodies(ItemRecorded, "/root")]
    return [text_of(one.content) for one in items if isinstance(one, Message)]


@pytest.mark.parametrize("name", ENDS)
async def test_a_resume_goes_on_with_all_that_did_not_come_to_a_good_end(
    tmp_path, autojump_clock, name
):
    past, note = await first_part(tmp_path, name), ENDS[name][-1]
    script = {"/root": [says("again")]}
    async with open_team(tmp_path, script, prompt="do it", resumes=True) as team:
        turns, told_before = len(team.bodies(TurnStarted)), told(team)
        with trio.fail_after(LIMIT_S):
            completed = await team.work(past)
        asked = [items for one in team.asked["/root"] for items in one.inputs]
        warned = [one.message for one in team.bodies(Warned)]
        assert completed.status == ("truncated" if name == "truncated" else "completed")
        if note is None:
            assert (len(team.bodies(TurnStarted)), asked) == (turns, [])
            assert team.ends()["/root"] == [ENDS[name][3]] * 2
            assert completed.result in {"first", "fi"}
            assert warned == [NOTHING_TO_DO]
            return
        assert (completed.result, warned) == ("again", [])
        assert len(asked) == 1
        heard = [text_of(one.content) for one in asked[0] if isinstance(one, Message)]
        assert heard.count("do it") == 1
        assert [one for one in heard if "Go on with the task where" in one] == [note][: bool(note)]
        assert [one for one in told(team) if one not in told_before] == (
            [note, "again"] if note else ["again"]
        )


@pytest.mark.parametrize("name", ENDS)
async def test_words_given_to_a_resume_are_heard_after_all_that_was_before(
    tmp_path, autojump_clock, name
):
    past = await first_part(tmp_path, name)
    script = {"/root": [says("again"), says("and again")]}
    said = NextInput(prompt="and now this")
    more = {"prompt": "do it", "resumes": True, "next_input": said}
    async with open_team(tmp_path, script, **more) as team:
        with trio.fail_after(LIMIT_S):
            completed = await team.work(past)
        assert completed.status == "completed"
        heard = told(team)
        assert heard.index("do it") < heard.index("and now this") < len(heard) - 1
        assert heard[-1].endswith("again")
        assert sum("and now this" in one for one in heard) == 1


async def test_a_call_that_was_cut_off_has_one_output_and_does_not_run_again(
    tmp_path, autojump_clock
):
    past = await first_part(tmp_path, "sigterm")
    async with open_team(tmp_path, {"/root": [says("again")]}, resumes=True) as team:
        with trio.fail_after(LIMIT_S):
            await team.work(past)
        items = [one.item for one in team.bodies(ItemRecorded)]
        outputs = [one.output for one in items if isinstance(one, FunctionCallOutput)]
        assert len(outputs) == len(team.bodies(CallBegan)) == 1
        assert "aborted" in outputs[0]


TEAM = {
    "/root": [calls(spawn("a"), spawn("b")), calls(wait()), says("root")],
    "/root/a": [calls(WORK), says("a")],
    "/root/b": [calls(WORK), says("b")],
}


async def by_the_provider(team):
    """The root's requests fail while its children are at work."""
    await team.until(lambda: bool(team.bodies(CallBegan, "/root/b")))


async def by_losing_the_root(team):
    """The root dies four times while its children are at work."""
    for lives in (1, 2, 3, 4):
        await team.until(lambda lives=lives: len(team.lives["/root"]) == lives)
        await trio.sleep(0.1)
        team.children["/root"][-1].kill_group()


@pytest.mark.parametrize(
    "end", [by_ctrl_c, by_signal, by_the_deadline_of_the_run, by_the_provider, by_losing_the_root]
)
async def test_children_that_the_end_of_the_run_cut_off_go_on_and_report_once(
    tmp_path, autojump_clock, end
):
    responses = {path: [*said] for path, said in TEAM.items()}
    if end is by_losing_the_root:
        responses["/root"][1:] = [calls(WORK)] * 5
    if end is by_the_provider:
        responses["/root"][1] = (failed("unauthorized"),)

    async def stop(team):
        await at_work(team, "/root/a")
        await at_work(team, "/root/b")
        await end(team)

    async with open_team(tmp_path, responses, prompt="do it", max_agents=4) as team:
        if end is by_the_provider:
            responses["/root"][1] = (1.0, failed("unauthorized"))
        team.nursery.start_soon(stop, team)
        with trio.fail_after(LIMIT_S):
            await team.work()
        for path in ("/root/a", "/root/b"):
            (ended,) = team.bodies(AgentEnded, path)
            assert (ended.state, ended.cut_off) == ("interrupted", True)
        past = team.past()
    script = {
        "/root": [calls(wait("a", "b")), *[says("root")] * 3],
        "/root/a": [says("a")],
        "/root/b": [says("b")],
    }
    async with open_team(tmp_path, script, resumes=True, max_agents=4) as team:
        with trio.fail_after(LIMIT_S):
            completed = await team.work(past)
        assert (completed.status, completed.result) == ("completed", "root")
        for path in ("/root/a", "/root/b"):
            assert [one.state for one in team.bodies(AgentEnded, path)][-1] == "completed"
            assert len(team.bodies(CallBegan, path)) == 1
        mails = [text_of(one.item.content) for one in team.bodies(ItemRecorded, "/root")
                   if one.source == "mail"]  # fmt: skip
        assert not [one for one in mails if "interrupted" in one]


async def test_a_child_that_was_interrupted_alone_stays_so_after_a_resume(tmp_path, autojump_clock):
    responses = {path: [*said] for path, said in TEAM.items()}
    responses["/root"] = [calls(spawn("a"), spawn("b")), calls(*[WORK] * 3), says("root")]
    async with open_team(tmp_path, responses, prompt="do it", max_agents=4) as team:

        async def stop():
            await at_work(team, "/root/a")
            await team.control.interrupt([team.control.agents["/root/a"]], "a person said so")
            await team.until(lambda: bool(team.bodies(AgentEnded, "/root/a")))
            team.ending.end("terminated")

        team.nursery.start_soon(stop)
        with trio.fail_after(LIMIT_S):
            await team.work()
        assert [one.cut_off for one in team.bodies(AgentEnded, "/root/a")] == [False]
        past = team.past()
    script = {"/root": [*[says("root")] * 3], "/root/b": [says("b")]}
    async with open_team(tmp_path, script, resumes=True, max_agents=4) as team:
        with trio.fail_after(LIMIT_S):
            await team.work(past)
        assert "/root/a" not in team.children
        assert team.ends()["/root/b"][-1] == "completed"


async def test_ctrl_c_after_the_roots_answer_is_no_completed_run_while_children_work(
    tmp_path, autojump_clock
):
    responses = {
        "/root": [calls(spawn("a")), says("soon"), says("root")],
        "/root/a": [calls(WORK), says("a")],
    }
    async with open_team(tmp_path, responses, prompt="do it", max_agents=4) as team:
        team.nursery.start_soon(partial(stop_child, team))
        with trio.fail_after(LIMIT_S):
            completed = await team.work()
        assert (completed.status, completed.result) == ("interrupted", "soon")


async def stop_child(team):
    await team.until(lambda: "/root" in team.ends() and bool(team.bodies(CallBegan, "/root/a")))
    team.ending.interrupt()


async def test_a_turn_whose_end_was_written_but_not_the_agents_is_not_called_completed(
    tmp_path, autojump_clock
):
    """The supervisor was killed between the two lines."""
    past = await first_part(tmp_path, "unauthorized")
    past.agents["/root"].ended = None
    async with open_team(tmp_path, {"/root": [says("again")]}, resumes=True) as team:
        with trio.fail_after(LIMIT_S):
            completed = await team.work(past)
        assert completed.result == "again"
        assert len(team.asked["/root"][0].inputs) == 1


async def test_a_resume_that_is_stopped_and_resumed_again_loses_and_doubles_nothing(
    tmp_path, autojump_clock
):
    past = await first_part(tmp_path, "ctrl-c")
    for _ in range(3):
        async with open_team(tmp_path, {"/root": [calls(WORK)]}, resumes=True) as team:
            begun = len(team.bodies(CallBegan))

            async def stop(team=team, begun=begun):
                await team.until(lambda: len(team.bodies(CallBegan)) > begun)
                team.ending.end("terminated")

            team.nursery.start_soon(stop)
            with trio.fail_after(LIMIT_S):
                await team.work(past)
            past = team.past()
    async with open_team(tmp_path, {"/root": [says("at last")]}, resumes=True) as team:
        with trio.fail_after(LIMIT_S):
            completed = await team.work(past)
        assert completed.result == "at last"
        file = past.agents["/root"].spawned.agent_id
        memory = fold_agent(read_records(team.running.paths, file=file))
        assert (memory.inputs, memory.open_turn) == ({}, None)
        assert told(team).count("do it") == 1


async def test_no_mail_keeps_a_run_at_work_that_ctrl_c_has_ended(tmp_path, autojump_clock):
    """It comes while its reader is interrupted, and begins another turn of his."""
    responses = {"/root": [calls(WORK), calls(WORK), says("root")]}
    async with open_team(tmp_path, responses, prompt="do it", max_agents=4) as team:

        async def stop():
            await at_work(team)
            team.ending.interrupt()
            await team.until(lambda: bool(team.bodies(TurnAborted)))
            await team.service.send_input(team.service.team.members["/root"], words("and this"))

        team.nursery.start_soon(stop)
        with trio.fail_after(8):  # a second turn would work for ten seconds
            completed = await team.work()
        assert completed.status == "interrupted"
        past = team.past()
    async with open_team(tmp_path, {"/root": [says("again")]}, resumes=True) as team:
        with trio.fail_after(LIMIT_S):
            assert (await team.work(past)).result == "again"


async def test_words_that_are_being_written_when_ctrl_c_comes_begin_no_turn(
    tmp_path, autojump_clock
):
    async with open_team(tmp_path, {"/root": [calls(WORK)]}, prompt="do it", disk_s=0.5) as team:

        async def stop():
            await team.until(lambda: "/root" in team.control.agents)
            team.ending.interrupt()

        team.nursery.start_soon(stop)
        with trio.fail_after(8):
            assert (await team.work()).status == "interrupted"
        assert team.bodies(TurnStarted) == []
        past = team.past()
    async with open_team(tmp_path, {"/root": [says("again")]}, resumes=True) as team:
        with trio.fail_after(LIMIT_S):
            assert (await team.work(past)).result == "again"
        assert told(team).count("do it") == 1


async def test_who_is_started_while_the_run_ends_is_ended_too_and_goes_on_with_the_resume(
    tmp_path, autojump_clock
):
    responses = {path: [*said] for path, said in TEAM.items()}
    async with open_team(tmp_path, responses, prompt="do it", max_agents=4) as team:
        team.mute.add("/root/a")  # its start takes as long as a start may

        async def stop():
            await team.until(lambda: "/root/a" in team.children)
            team.ending.end("terminated")

        team.nursery.start_soon(stop)
        with trio.fail_after(60):
            await team.work()
        assert (team.alive - {"/root/a"}, team.slots) == (set(), 0)
        assert not team.control.agents
        team.running.agents.registry.check()
