"""Whole trees in virtual time: hours of waiting cost nothing, and no slot is lost on any way."""

import msgspec
import trio
from trio.testing import wait_all_tasks_blocked

from support.team_in_memory import END, WORK, calls, open_team, says, spawn, wait
from swarm.mailbox.protocol.events import CallBegan, TurnCompleted
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import AgentSpawned, ItemRecorded, MailHandled, MailPosted
from swarm.supervisor.agents.agent_phases import Phase
from swarm.worker.testing.agent_harness import failed

LIMIT_S = 7200


async def over(team) -> str:
    """Until the run's work is done; the root's end state."""
    with trio.fail_after(LIMIT_S):
        outcome = await team.service.wait_done()
    await wait_all_tasks_blocked()
    assert team.slots == len(team.control.agents) == len(team.alive)
    return outcome.state


async def test_a_nested_tree_spawns_waits_and_finishes_from_the_leaves_up(tmp_path, autojump_clock):
    scripts = {
        "/root": [calls(spawn("a"), spawn("b")), calls(wait("a", "b")), says("root")],
        "/root/a": [calls(spawn("x"), spawn("y")), calls(wait("x", "y")), says("a")],
        "/root/b": [calls(WORK), says("b")],
        "/root/a/x": [calls(spawn("deep")), calls(wait("deep")), says("x")],
        "/root/a/y": [calls(WORK), calls(WORK), says("y")],
        "/root/a/x/deep": [calls(WORK, WORK, WORK), says("deep")],
    }
    async with open_team(tmp_path, scripts, max_agents=8) as team:
        began = trio.current_time()
        await team.begin()
        assert await over(team) == "completed"
        ends = team.ends()
        assert set(ends) == {*scripts} - {""}
        assert {state for states in ends.values() for state in states} == {"completed"}
        assert team.alive == {"/root"}
        assert 10 <= trio.current_time() - began < 60
        mails = [one.mail for one in team.bodies(MailPosted)]
        assert sorted(one.author for one in mails if one.kind == "final_answer") == sorted(
            path for path in scripts if path != "/root"
        )


async def test_with_two_slots_a_deep_tree_still_finishes_by_suspended_parents(
    tmp_path, autojump_clock
):
    scripts = {
        "/root": [calls(spawn("a")), calls(wait("a")), says("root")],
        "/root/a": [calls(spawn("b")), calls(wait("b")), says("a")],
        "/root/a/b": [calls(WORK), says("b")],
    }
    async with open_team(tmp_path, scripts, max_agents=2) as team:
        await team.begin()
        assert await over(team) == "completed"
        assert team.ends()["/root/a/b"] == ["completed"]
        assert len(team.children["/root"]) + len(team.children["/root/a"]) > 2, "nobody gave way"


async def test_mails_are_read_in_order_and_one_that_wakes_starts_a_finished_agent_again(
    tmp_path, autojump_clock
):
    def message(text):
        return "send_message", {"target": "a", "message": text}

    scripts = {
        "/root": [
            calls(spawn("a")),
            calls(message("one"), message("two"), message("three")),
            calls(wait("a")),
            calls(("followup_task", {"target": "a", "message": "again"})),
            calls(wait("a")),
            says("root"),
        ],
        "/root/a": [calls(WORK), says("first"), says("second")],
    }
    async with open_team(tmp_path, scripts) as team:
        await team.begin()
        assert await over(team) == "completed"
        read = [one.item for one in team.bodies(ItemRecorded, "/root/a") if one.source == "mail"]
        words = [item.content[0].text for item in read]
        assert [text.rpartition("\n")[2] for text in words] == [
            "be a", "one", "two", "three", "again",
        ]  # fmt: skip
        assert team.ends()["/root/a"] == ["completed", "completed"]
        assert len(team.children["/root/a"]) == 2


async def test_the_empty_private_folder_of_who_has_finished_goes_and_comes_back_with_a_further_task(
    tmp_path, autojump_clock
):
    again = ("followup_task", {"target": "a", "message": "again"})
    scripts = {
        "/root": [calls(spawn("a")), calls(wait("a")), calls(WORK), calls(again), calls(wait("a")),
                  calls(WORK), says("root")],
        "/root/a": [calls(WORK), says("first"), calls(WORK), says("second")],
    }  # fmt: skip
    async with open_team(tmp_path, scripts) as team:
        await team.begin()
        await team.until(lambda: "/root/a" in team.alive)
        own = team.running.paths.tmp / team.service.team.members["/root/a"].plan.agent_id
        assert own.is_dir()
        await team.until(lambda: "/root/a" not in team.alive)
        await team.until(lambda: not own.exists())
        await team.until(lambda: "/root/a" in team.alive)
        (own / "left").touch()
        assert await over(team) == "completed"
        assert "/root/a" not in team.alive
        assert (own / "left").exists(), "what lies in it is not ours to throw away"


async def test_a_spawn_that_waits_for_a_slot_fails_at_its_deadline_and_leaves_nothing(
    tmp_path, autojump_clock
):
    busy = [calls(WORK) for _ in range(30)]
    scripts = {
        "/root": [calls(spawn("a"), spawn("b")), calls(wait("a")), says("root")],
        "/root/a": [*busy, says("a")],
    }
    async with open_team(tmp_path, scripts, max_agents=2) as team:
        began = trio.current_time()
        await team.begin()
        await team.until(lambda: len(team.outputs()) == 2)
        assert 120 <= trio.current_time() - began < 135
        assert "no agent slot came free within 120 s" in team.outputs()[1]
        assert await over(team) == "completed"
        assert "/root/b" not in team.children
        assert [one.dead for one in team.bodies(MailHandled, "/root/b")] == [True]


async def test_an_interrupted_parents_request_is_withdrawn_and_its_child_works_on(
    tmp_path, autojump_clock
):
    scripts = {
        "/root": [calls(spawn("p")), calls(wait("p")), calls(wait("p/c")), says("1"), says("2")],
        "/root/p": [calls(spawn("c")), calls(spawn("d")), says("c has told me")],
        "/root/p/c": [calls(WORK), calls(WORK), says("c")],
    }
    async with open_team(tmp_path, scripts, max_agents=3) as team:
        await team.begin()
        await team.until(lambda: len(team.bodies(CallBegan, "/root/p")) == 2)
        await team.until(lambda: bool(team.bodies(MailPosted, "/root/p/d")))
        await team.control.interrupt([team.control.agents["/root/p"]], "a person said so")
        assert await over(team) == "completed"
        assert team.ends()["/root/p"] == ["interrupted", "completed"]
        assert team.ends()["/root/p/c"] == ["completed"]
        assert not team.bodies(AgentSpawned, "/root/p/d")


async def test_a_child_that_never_says_hello_is_refused_at_its_deadline(tmp_path, autojump_clock):
    scripts = {"/root": [calls(spawn("a")), says("root")]}
    async with open_team(tmp_path, scripts) as team:
        team.mute.add("/root/a")
        began = trio.current_time()
        await team.begin()
        assert await over(team) == "completed"
        assert 10 <= trio.current_time() - began < 20
        assert "did not answer in 10 s" in team.outputs()[0]


async def test_a_killed_child_lives_again_and_four_deaths_in_a_minute_are_told(
    tmp_path, autojump_clock
):
    scripts = {
        "/root": [calls(spawn("a")), calls(wait("a")), says("root")],
        "/root/a": [calls(WORK) for _ in range(20)],
    }
    async with open_team(tmp_path, scripts) as team:
        await team.begin()
        for life in range(1, 5):
            await team.until(lambda life=life: len(team.bodies(CallBegan, "/root/a")) == life)
            team.children["/root/a"][-1].kill_group()
        assert await over(team) == "completed"
        assert team.ends()["/root/a"] == ["crashed"]
        finished = msgspec.json.decode(team.outputs()[1])["finished"]
        assert [one["end_state"] for one in finished] == ["crashed"]


class MuteStarts:
    """In the place of `Tree.mute`: these starts of one path, counted from 1, never say anything."""

    def __init__(self, path: str, *which: int) -> None:
        self._path, self._which, self._count = path, which, 0

    def __contains__(self, path: str) -> bool:
        self._count += path == self._path
        return path == self._path and self._count in self._which


async def test_a_restart_that_never_says_hello_is_tried_again(tmp_path, autojump_clock):
    scripts = {
        "/root": [calls(spawn("a")), calls(wait("a")), says("root")],
        "/root/a": [calls(WORK), says("a")],
    }
    async with open_team(tmp_path, scripts) as team:
        team.mute = MuteStarts("/root/a", 2, 3)
        await team.begin()
        await team.until(lambda: len(team.bodies(CallBegan, "/root/a")) == 1)
        team.children["/root/a"][-1].kill_group()
        assert await over(team) == "completed"
        assert team.ends()["/root/a"] == ["completed"]
        assert len(team.children["/root/a"]) == 4


async def test_a_further_task_survives_new_lives_that_never_say_hello(tmp_path, autojump_clock):
    scripts = {
        "/root": [
            calls(spawn("a")),
            calls(wait("a")),
            calls(("followup_task", {"target": "a", "message": "again"})),
            calls(wait("a")),
            says("root"),
        ],
        "/root/a": [says("first"), says("second")],
    }
    async with open_team(tmp_path, scripts) as team:
        team.mute = MuteStarts("/root/a", 2, 3)
        await team.begin()
        assert await over(team) == "completed"
        assert team.ends()["/root/a"] == ["completed", "completed"]
        epochs = [one.epoch for one in team.bodies(AgentSpawned) if one.path == "/root/a"]
        assert epochs == [1, 4], "a failed start has used up its identity"


def words(text: str) -> UserInput:
    return UserInput(input_id=f"said-{text}", parts=(TextInput(text=text),))


def heard(team, path: str) -> list[str]:
    items = [one.item for one in team.bodies(ItemRecorded, path) if one.source == "user"]
    return [item.content[0].text for item in items]


async def test_words_to_an_agent_that_stands_in_line_are_read_once_it_lives(
    tmp_path, autojump_clock
):
    scripts = {
        "/root": [calls(spawn("a"), spawn("b")), calls(wait("a", "b")), says("root")],
        "/root/a": [calls(WORK), says("a")],
        "/root/b": [says("b"), says("b, to a person")],
    }
    async with open_team(tmp_path, scripts, max_agents=2) as team:
        await team.begin()
        await team.until(lambda: bool(team.bodies(MailPosted, "/root/b")))
        assert "/root/b" not in team.children
        await team.service.send_input(team.service.team.members["/root/b"], words("hello"))
        assert await over(team) == "completed"
        assert heard(team, "/root/b") == ["hello"]


async def test_a_persons_words_end_a_wait_that_goes_on_without_a_process(tmp_path, autojump_clock):
    scripts = {
        "/root": [calls(spawn("a")), calls(wait("a")), says("root"), says("root, told twice")],
        "/root/a": [calls(spawn("b")), calls(wait("b")), says("heard it"), says("b has told me")],
        "/root/a/b": [calls(WORK) for _ in range(9)] + [says("b")],
    }
    async with open_team(tmp_path, scripts, max_agents=3) as team:
        await team.begin()
        await team.until(lambda: bool(team.bodies(CallBegan, "/root/a/b")))
        member = team.service.team.members["/root/a"]
        await team.until(lambda: len(team.bodies(CallBegan, "/root/a")) == 2)
        assert await team.service.lifecycle.suspend(member)
        began = trio.current_time()
        await team.service.send_input(member, words("hello"))
        await team.until(lambda: bool(heard(team, "/root/a")))
        assert trio.current_time() - began < 5
        assert heard(team, "/root/a") == ["hello"]
        assert await over(team) == "completed"


async def test_a_run_goes_on_while_the_end_of_a_turn_is_on_its_way_to_the_disk(
    tmp_path, autojump_clock
):
    scripts = {
        "/root": [calls(spawn("a")), (says("first")[0], 2.5, END), (0.2, *says("second"))],
        "/root/a": [(0.5, *says("a"))],  # its posted_mail comes behind the root's shown answer
    }
    async with open_team(tmp_path, scripts, disk_s=1.0) as team:
        await team.begin()
        assert await over(team) == "completed"
        assert [one.last_message for one in team.bodies(TurnCompleted, "/root")] == [
            "first",
            "second",
        ]


async def test_who_stands_in_line_after_a_cut_response_is_known_to_do_nothing_else(
    tmp_path, autojump_clock
):
    """Else each would wait for the slot of the other, as long as it can."""
    cut = (calls(spawn("b"))[0], failed("stream_disconnected", retryable=True))
    scripts = {"/root": [calls(spawn("a")), cut], "/root/a": [calls(spawn("c"))]}
    async with open_team(tmp_path, scripts, max_agents=2) as team:
        await team.begin()
        with trio.fail_after(10):
            await team.until(lambda: bool({"/root/b", "/root/a/c"} & set(team.children)))


async def test_an_agent_that_is_closed_while_its_turn_is_being_suspended_ends(
    tmp_path, autojump_clock
):
    scripts = {
        "/root": [calls(spawn("a")), *[says("root")] * 3],
        "/root/a": [calls(spawn("b")), calls(wait("b")), says("a")],
        "/root/a/b": [calls(WORK) for _ in range(9)] + [says("b")],
    }
    async with open_team(tmp_path, scripts, max_agents=3) as team:
        await team.begin()
        await team.until(lambda: len(team.bodies(CallBegan, "/root/a")) == 2)
        agent = team.service.team.members["/root/a"]
        await team.until(lambda: team.service.lifecycle.only_waits(agent))
        team.nursery.start_soon(team.service.lifecycle.suspend, agent)
        with trio.fail_after(30):
            # Which of both is seen is up to the scheduler; the end is the same.
            while agent.phase not in (Phase.SUSPENDING, Phase.SUSPENDED):
                await trio.lowlevel.checkpoint()
            await team.service.kill(team.service.team.subtree("/root/a"))
        assert (agent.phase, agent.status) == (Phase.CLOSED, "killed")
        assert await over(team) == "completed"


async def test_an_agent_that_is_closed_while_it_waits_for_its_next_process_keeps_no_slot(
    tmp_path, autojump_clock
):
    scripts = {
        "/root": [calls(spawn("a")), calls(wait("a")), calls(spawn("b")), calls(wait("b"))]
        + [says("root")] * 3,
        "/root/a": [says("a")],
        "/root/b": [calls(WORK), says("b")],
    }
    async with open_team(tmp_path, scripts, max_agents=2) as team:
        await team.begin()
        await team.until(lambda: bool(team.bodies(CallBegan, "/root/b")))
        agent = team.service.team.members["/root/a"]
        await team.service.send_input(agent, words("go on"))
        await team.until(lambda: agent.status == "queued")
        await team.service.kill([agent])
        assert await over(team) == "completed"
        assert agent.phase is Phase.CLOSED
        assert "/root/a" not in team.control.agents
