"""Parents that wait for slots for their children give up their own, and every spawn is granted."""

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from support.team_in_memory import WORK, calls, open_team, says, spawn, wait
from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.protocol.events import CallBegan, CallEnded
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import ItemRecorded, MailHandled, ProcessEnded

LIMIT_S = 3600


def scripts(b=(WORK,)):
    """With two slots, root and `a` hold both, and each stands in line for a child."""
    return {
        "/root": [calls(spawn("a")), calls(spawn("c")), calls(wait("a", "c")), *[says("root")] * 4],
        "/root/a": [calls(spawn("b")), calls(wait("b")), *[says("a")] * 3],
        "/root/a/b": [*map(calls, b), says("b")],
        "/root/c": [calls(WORK), says("c")],
    }


async def over(team):
    with trio.fail_after(LIMIT_S):
        outcome = await team.service.wait_done()
    await wait_all_tasks_blocked()
    return outcome.state


async def until_it_rests(team, path):
    """Its process has ended while it stands in line."""
    with trio.fail_after(60):
        await team.until(lambda: path in rested(team))
    return team.service.team.members[path]


def rested(team):
    ended = [(path, one) for path in team.children for one in team.bodies(ProcessEnded, path)]
    return [path for path, one in ended if one.reason.startswith("it only waits")]


async def test_two_parents_with_two_slots_both_get_their_child(tmp_path, autojump_clock):
    async with open_team(tmp_path, scripts(), max_agents=2) as team:
        await team.begin()
        assert await over(team) == "completed"
        assert {path: states[-1] for path, states in team.ends().items()} == dict.fromkeys(
            scripts(), "completed"
        )
        first, second = team.outputs()[:2]
        assert msgspec.json.decode(first)["task_name"] == "/root/a"
        answer = msgspec.json.decode(second)
        assert answer["task_name"] == "/root/c"
        assert answer["nickname"]
        assert answer["waited_for_slot_s"] >= 0
        assert rested(team)[0] == "/root"


async def test_a_crowd_of_parents_in_line_gets_all_children_with_few_slots(
    tmp_path, autojump_clock
):
    parents = "pqrs"
    responses = {
        "/root": [*[calls(spawn(one)) for one in parents], calls(wait()), *[says("r")] * 9]
    }
    for one in parents:
        path = f"/root/{one}"
        responses[path] = [calls(spawn("x")), calls(spawn("y")), calls(wait()), *[says(one)] * 9]
        for child in ("x", "y"):
            responses[f"{path}/{child}"] = [calls(WORK), says(child)]
    async with open_team(tmp_path, responses, max_agents=3) as team:
        await team.begin()
        assert await over(team) == "completed"
        said = [text for path in responses for text in team.outputs(path)]
        assert not [text for text in said if "slot can ever" in text or "interrupted" in text]
        assert set(team.ends()) == set(responses)
        assert {states[-1] for states in team.ends().values()} == {"completed"}


async def test_a_request_whose_deadline_comes_while_its_parent_rests_is_told_to_it(
    tmp_path, autojump_clock
):
    responses = scripts(b=[WORK] * 15)
    async with open_team(tmp_path, responses, max_agents=2) as team:
        await team.begin()
        await until_it_rests(team, "/root")
        assert await over(team) == "completed"
        ends = [one for one in team.bodies(CallEnded, "/root") if one.tool == "spawn_agent"]
        assert [one.status for one in ends] == ["completed", "failed"]
        assert "no agent slot came free within 120 s" in team.outputs()[1]
        assert "/root/c" not in team.children


@pytest.mark.parametrize("ended", [False, True])
async def test_a_resting_parents_request_is_withdrawn_with_its_turn_and_with_itself(
    tmp_path, autojump_clock, ended
):
    """`p` rests in line for `d` while `e` works in its slot."""
    responses = {
        "/root": [calls(spawn("p")), calls(spawn("e"), WORK), calls(wait("e")), *[says("r")] * 4],
        "/root/p": [calls(WORK), calls(spawn("d")), *[says("p")] * 3],
        "/root/e": [calls(WORK) for _ in range(9)] + [says("e")],
    }
    async with open_team(tmp_path, responses, max_agents=2) as team:
        await team.begin()
        member = await until_it_rests(team, "/root/p")
        assert "/root/p/d" in team.service.team.members
        if ended:
            await team.service.kill(team.service.team.subtree("/root/p"))
        else:
            assert team.service.interrupt_suspended(member)
        with trio.fail_after(30):
            await team.until(lambda: bool(team.bodies(MailHandled, "/root/p/d")))
        assert await over(team) == "completed"
        assert "/root/p/d" not in team.children
        assert [one.dead for one in team.bodies(MailHandled, "/root/p/d")] == [True]
        if not ended:
            ends = [one for one in team.bodies(CallEnded, "/root/p") if one.tool == "spawn_agent"]
            assert [(one.status, one.output) for one in ends] == [
                ("interrupted", "aborted by user")
            ]


async def test_a_persons_words_to_a_parent_that_rests_in_line_are_read_in_its_next_life(
    tmp_path, autojump_clock
):
    async with open_team(tmp_path, scripts(), max_agents=2) as team:
        await team.begin()
        member = await until_it_rests(team, "/root")
        part = TextInput(text="hello")
        await team.service.send_input(member, UserInput(input_id=new_uuid7(), parts=(part,)))
        assert await over(team) == "completed"
        items = [one.item for one in team.bodies(ItemRecorded, "/root") if one.source == "user"]
        said = [text_of(one.content) for one in items if isinstance(one, Message)]
        assert said.count("hello") == 1
        assert "slot can ever" not in str(team.outputs())


async def test_who_has_calls_that_have_not_begun_rests_only_if_nobody_else_can(
    tmp_path, autojump_clock
):
    responses = scripts()
    responses["/root"][1] = calls(spawn("c"), WORK)
    async with open_team(tmp_path, responses, max_agents=2) as team:
        await team.begin()
        await until_it_rests(team, "/root/a")
        assert rested(team) == ["/root/a"]
        assert await over(team) == "completed"
        assert len([one for one in team.bodies(CallBegan, "/root") if one.tool == "work"]) == 1
        assert "interrupted" not in str(team.outputs())
