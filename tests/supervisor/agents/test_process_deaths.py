"""Whole trees in virtual time in which processes die at bad moments: nobody waits for nothing."""

import signal
from types import SimpleNamespace

import trio

from support import team_in_memory
from support.team_in_memory import WORK, calls, open_team, says, spawn, wait
from swarm.mailbox.protocol.events import CallBegan, TurnStarted
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import AgentSpawned, ItemRecorded, MailPosted
from swarm.supervisor.context.run_context import RunContext
from swarm.supervisor.journal.journal import Journal


async def test_who_died_and_stands_in_line_for_a_slot_keeps_nobody_from_giving_way(
    tmp_path, autojump_clock
):
    scripts = {
        "/root": [
            calls(spawn("a"), spawn("b"), spawn("c")), calls(spawn("d")), calls(wait()),
            *[says("root")] * 6,
        ],
        "/root/a": [calls(spawn("x")), *[says("a")] * 4],
        "/root/b": [calls(spawn("y")), *[says("b")] * 4],
        "/root/c": [calls(spawn("z")), *[says("c")] * 4],
        **{path: [calls(WORK), says("leaf")] for path in ("/root/a/x", "/root/b/y", "/root/c/z")},
        "/root/d": [says("d")],
    }  # fmt: skip
    async with open_team(tmp_path, scripts, max_agents=3) as team:
        await team.begin()
        with trio.fail_after(110):  # a request for a slot has 120 s by itself
            while team.running.agents.registry.waiting < 3:  # noqa: ASYNC110 — c, x and y; soon one gives way
                await trio.sleep(0.01)
            team.children["/root/a"][0].signal_group(signal.SIGKILL)
            assert (await team.service.wait_done()).state == "completed"
        assert {"/root/b/y", "/root/c/z", "/root/d"} <= set(team.children)
        said = [text for path in scripts for text in team.outputs(path)]
        assert not [text for text in said if "slot can ever" in text]


async def test_an_agent_in_whose_start_the_gateway_is_replaced_is_told_where_it_is(
    tmp_path, autojump_clock, monkeypatch
):
    dialled = []
    usual = team_in_memory._dial

    def dial(gateways, spec, endpoint):
        dialled.append((spec.path, endpoint))
        return usual(gateways, spec, endpoint)

    monkeypatch.setattr(team_in_memory, "_dial", dial)
    scripts = {"/root": [calls(spawn("a")), calls(wait("a")), says("root")], "/root/a": []}
    async with open_team(tmp_path, scripts, max_agents=3) as team:
        gateway = team.control.starts.gateway
        start = team.start

        async def start_and_lose_the_gateway(spec, **more):
            child = await start(spec, **more)
            if spec.path == "/root/a":
                gateway.endpoint = "the next one"  # nobody knows this agent yet
            return child

        team.control.starts = team.control.starts._replace(
            processes=SimpleNamespace(
                start=start_and_lose_the_gateway, start_limiter=team.start_limiter
            )
        )
        await team.begin()
        with trio.fail_after(60):
            await team.until(lambda: ("/root/a", "the next one") in dialled)
    assert ("/root", "the next one") not in dialled  # the manager tells those who live already


async def test_who_has_the_answer_to_a_wait_is_not_ended_as_one_that_only_waits(
    tmp_path, autojump_clock
):
    """Its next life would wait for an answer that has been given."""
    scripts = {"/root": [calls(wait("nobody")), says("root")]}
    async with open_team(tmp_path, scripts, max_agents=3) as team:
        team.nursery.start_soon(team.begin)
        answered = 0
        for _ in range(1_000):  # all of it is done without the clock
            life = team.control.agents.get("/root")
            if life is not None and list(life.process.open_calls.values()) == ["wait_agent"]:
                is_open = bool(list(team.service._open_requests("/root")))
                answered += not is_open
                assert team.service.lifecycle.only_waits(life) == is_open
            await trio.lowlevel.checkpoint()
        assert answered


async def test_who_dies_before_it_read_its_task_answers_it_once(
    tmp_path, autojump_clock, monkeypatch
):
    """Its turn had begun and goes on; the posted_mail that it had not read belongs to that turn."""
    killed = []
    scripts = {
        "/root": [calls(spawn("a")), calls(wait("a")), says("root")],
        "/root/a": [says("a"), says("a again")],
    }
    async with open_team(tmp_path, scripts, max_agents=3) as team:
        write = Journal.write

        def write_and_kill(journal, body, *, agent="", **more):
            lives = team.children.get("/root/a", [])
            if killed and len(lives) == 1 and isinstance(body, ItemRecorded) and agent == "/root/a":
                return None  # what it said after its death never came
            record = write(journal, body, agent=agent, **more)
            if isinstance(body, TurnStarted) and agent == "/root/a" and not killed:
                killed.extend(lives)
                lives[0].kill_group()
            return record

        send = RunContext.send

        async def send_slowly(running, agent, op):
            await send(running, agent, op)
            await trio.sleep(1)

        monkeypatch.setattr(Journal, "write", write_and_kill)
        monkeypatch.setattr(RunContext, "send", send_slowly)
        with trio.fail_after(110):
            await team.begin()
            assert (await team.service.wait_done()).state == "completed"
        assert killed
        assert len(team.bodies(AgentSpawned, "/root/a")) == 2
        mails = [one.mail for one in team.bodies(MailPosted) if one.mail.kind == "final_answer"]
        assert len(mails) == 1
        read = [one.source for one in team.bodies(ItemRecorded, "/root/a")]
        assert read.index("mail") < read.index("model")


SCHEMA = b'{"type":"integer"}'
UNFIT_THEN_FIT = (calls(WORK), says("not what was asked for"), says("1"))


async def lose_the_root_in_its_call(team) -> None:
    await team.begin(schema=SCHEMA)
    await team.until(lambda: bool(team.bodies(CallBegan)))
    team.children["/root"][0].kill_group()


async def test_words_that_joined_a_turn_that_was_cut_off_are_answered_under_its_schema(
    tmp_path, autojump_clock
):
    scripts = {"/root": [*UNFIT_THEN_FIT]}
    async with open_team(tmp_path, scripts, max_agents=1) as team:
        with trio.fail_after(100):
            await lose_the_root_in_its_call(team)
            more = UserInput(input_id="i2", parts=(TextInput(text="and more"),))
            await team.control.send_input(team.control.agents["/root"], more)
            outcome = await team.service.wait_done()
        assert (outcome.state, outcome.message) == ("completed", "1")


async def test_a_turn_that_goes_on_after_a_death_still_has_its_schema(tmp_path, autojump_clock):
    scripts = {"/root": [*UNFIT_THEN_FIT]}
    async with open_team(tmp_path, scripts, max_agents=1) as team:
        with trio.fail_after(100):
            await lose_the_root_in_its_call(team)
            outcome = await team.service.wait_done()
        assert (outcome.state, outcome.message) == ("completed", "1")
