"""`swarm fork` and `swarm rollback` over real runs: what the model is asked next is true."""

import json
import shutil

import pytest
import trio

from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.protocol.events import CallBegan
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.records import ContextRecorded, ItemRecorded, RunStarted
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.journal.replay import fold_agent, fold_run
from swarm.supervisor.runs.paths import RunPaths

pytestmark = pytest.mark.live
LIMIT_S = 90


def call(cmd):
    return {"calls": [{"name": "exec_command", "arguments": {"cmd": cmd}}]}


TURNS = [
    call("echo 1 > f1"), {"text": "one"}, call("echo 2 > f2"), {"text": "two"},
    call("echo 3 > f3"), {"text": "three"}, {"text": "four"},
]  # fmt: skip


async def swarm(rig, *words, code=0):
    ended = await (await rig.start(*words)).wait_end()
    assert ended.code == code, ended.err
    return ended


async def three_turns(rig):
    """A run whose root has had three turns; its id."""
    run = rig.home / "state" / "runs"
    provider = rig.script(*TURNS)
    assert (await (await rig.run(provider, "-a", "never")).wait_end()).code == 0
    (folder,) = run.iterdir()
    for words in ("second", "third"):
        await swarm(rig, "resume", folder.name, "-p", words, "--plain")
    return folder.name


def of(rig, run):
    return RunPaths(folder=rig.home / "state" / "runs" / run, sockets=rig.runtime)


def words_of(places):
    """What the root's history says, in order: words and answers."""
    past = fold_run(read_records(places, file="run"))
    memory = fold_agent(read_records(places, file=past.agents["/root"].spawned.agent_id))
    return [text_of(one.content) for one in memory.items
            if isinstance(one, Message) and one.role != "developer"][1:]  # fmt: skip


def find_other(rig, run):
    (other,) = [one.name for one in (rig.home / "state" / "runs").iterdir() if one.name != run]
    return other


@pytest.fixture
def rig_of_two(rig):
    """A rig knows one run; the other one goes before it looks for what is left of it."""
    yield rig
    for one in sorted((rig.home / "state" / "runs").iterdir())[1:]:
        shutil.rmtree(one)


async def test_a_fork_goes_on_from_its_turn_and_the_original_is_untouched(rig_of_two):
    rig = rig_of_two
    with trio.fail_after(LIMIT_S):
        run = await three_turns(rig)
        before = sorted((one.name, one.read_bytes()) for one in of(rig, run).journal.iterdir())
        made = await swarm(rig, "fork", run, "--at", "2")
        fork = find_other(rig, run)
        listed = [json.loads(line) for line in (await swarm(rig, "ps", "--json")).out.splitlines()]
        gone_on = await swarm(rig, "resume", fork, "-p", "elsewhere", "--plain")
    assert made.out.strip() == fork[-8:]
    assert sorted((one.name, one.read_bytes()) for one in of(rig, run).journal.iterdir()) == before
    assert {one["run_id"]: one["state"] for one in listed} == {run: "completed", fork: "forked"}
    assert {one["run_id"]: one["forked_from"] for one in listed} == {run: "", fork: run}
    started = [one.body for one in read_records(of(rig, fork)) if isinstance(one.body, RunStarted)]
    assert started[0].forked_from == run
    assert words_of(of(rig, fork)) == ["do it", "one", "second", "two", "elsewhere", "three"]
    assert gone_on.out == "three\n"  # by a model that answers by the number of its answers
    numbers = [one.seq for one in read_records(of(rig, fork))]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_fork_in_the_middle_of_a_turn_says_so_to_the_model(rig_of_two):
    rig = rig_of_two
    provider = rig.script(call("until test -e go; do sleep 0.02; done"), {"text": "end"})
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider, "-a", "never")
        await rig.wait_call()
        source = rig.run_id
        made = await swarm(rig, "fork", source, "-p", "and here?", "--plain")
        (rig.work / "go").write_text("")
        assert (await run.wait_end()).code == 0
    fork = find_other(rig, source)
    items = [one.body for one in read_records(of(rig, fork)) if isinstance(one.body, ItemRecorded)]
    (note,) = [one for one in items if one.source == "note"]
    assert "branched off in the middle" in text_of(note.item.content)
    assert [one.source for one in items].count("tool") == 1  # the open call has an output
    assert words_of(of(rig, fork))[-2:] == ["and here?", "end"]
    assert "in the middle of turn 1" in made.err


async def test_a_fork_says_which_agents_it_leaves_behind_and_its_model_knows_it(rig_of_two):
    rig = rig_of_two

    def spawns(name):
        arguments = {"task_name": name, "message": name, "fork_turns": "none"}
        return {"name": "spawn_agent", "arguments": arguments}

    wait = {"name": "wait_agent", "arguments": {"targets": ["a"]}}
    root = [
        {"calls": [spawns("a")]}, {"calls": [wait]}, {"text": "one"},
        {"calls": [spawns("b")]}, call("until test -e go; do sleep 0.02; done"), {"text": "two"},
    ]  # fmt: skip
    provider = rig.script(
        *({"agent": "/root", **one} for one in root),
        {"agent": "/root", "text": "more", "repeat": "forever"},
        {"agent": "/root/a", "text": "the secret of a is 42"},
        {"agent": "/root/b", **call("until test -e go; do sleep 0.02; done")},
        {"agent": "/root/b", "text": "b"},
    )
    with trio.fail_after(LIMIT_S):
        assert (await (await rig.run(provider, "-a", "never")).wait_end()).code == 0
        source = rig.run_id
        run = await rig.resume("-p", "and b")
        await rig.wait(lambda: [b.tool for b in rig.bodies(CallBegan)].count("exec_command") == 2)
        now = await swarm(rig, "fork", source)
        fork = find_other(rig, source)
        note = [
            one.body for one in read_records(of(rig, fork)) if isinstance(one.body, ItemRecorded)
        ][-1]
        shutil.rmtree(of(rig, fork).folder)
        before = await swarm(rig, "fork", source, "--at", "1")
        (rig.work / "go").write_text("")
        assert (await run.wait_end()).code == 0
    assert "not copied: /root/a (completed), /root/b (at work);" in now.err
    assert f"swarm show {source[-8:]} /root/a" in now.err
    assert "/root/a (completed), /root/b (at work)" in text_of(note.item.content)
    assert "not copied: /root/a (completed);" in before.err
    items = [one.body.item for one in read_records(of(rig, find_other(rig, source)))
             if isinstance(one.body, ItemRecorded)]  # fmt: skip
    assert any("the secret of a is 42" in str(item) for item in items)


async def test_a_fork_of_what_is_not_there_leaves_nothing_behind(rig):
    with trio.fail_after(LIMIT_S):
        assert (await (await rig.run(rig.script({"text": "x"}))).wait_end()).code == 0
        refused = await swarm(rig, "fork", rig.run_id, "--at", "9", code=2)
    assert "there is no turn 9; this agent has had 1" in refused.err
    assert rig.run_id  # there is one run only
    assert new_uuid7() not in refused.err


async def test_turns_taken_back_are_forgotten_and_their_files_come_back(rig):
    with trio.fail_after(LIMIT_S):
        run = await three_turns(rig)
        back = await swarm(rig, "rollback", run, "--turns", "2", "--files")
        files = sorted(one.name for one in rig.work.iterdir())
        assert words_of(of(rig, run)) == ["do it", "one"]
        again = await swarm(rig, "resume", run, "-p", "again", "--plain")
    assert "forgets the last 2 turns" in back.err
    assert "put back 2 files" in back.err
    assert files == ["f1"]
    assert words_of(of(rig, run))[:3] == ["do it", "one", "again"]
    assert again.code == 0
    (body,) = [one.body for one in read_records(of(rig, run))
               if isinstance(one.body, ContextRecorded)]  # fmt: skip
    assert body.rolled_back == 2


async def test_an_agent_at_work_keeps_its_turns(rig):
    provider = rig.script(call("until test -e go; do sleep 0.02; done"), {"text": "end"})
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider, "-a", "never")
        await rig.wait_call()
        refused = await swarm(rig, "rollback", rig.run_id, code=1)
        (rig.work / "go").write_text("")
        assert (await run.wait_end()).code == 0
    assert "/root is at work" in refused.err
