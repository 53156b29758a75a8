"""A fan-out with real agents: every item has a result, one's misfortune is nobody else's."""

import os
import re
import signal
from collections import Counter

import pytest
import trio

from swarm.mailbox.protocol.items import text_of
from swarm.mailbox.protocol.records import AgentSpawned, FanOutItemEnded, ItemRecorded, ProcessEnded

pytestmark = pytest.mark.live
LIMIT_S = 120  # that nothing hangs; twelve agents take their time on a machine at work
COUNT = 12
TASK = """---
fan_out:
  role: default
  each: {files: "items/*"}
  prompt: "Explain {item}."
  concurrency: 3
---
Sum it up.
"""
STAY = {"name": "exec_command", "arguments": {"cmd": "echo once >> runs; sleep 308"}}
REFUSED = {"fault": {"status": 400, "message": "not this one"}, "repeat": "forever"}


def entries(*special: dict) -> tuple[dict, ...]:
    return (
        *special,
        {"agent": "/root", "text": "sum: {last_user}", "repeat": "forever"},
        {"agent": "/root/*", "text": "answer of {agent}", "repeat": "forever"},
    )


def begin(rig) -> tuple[str, ...]:
    (rig.work / "items").mkdir()
    for number in range(COUNT):
        (rig.work / "items" / f"i{number:02}").touch()
    (rig.work / "task.md").write_text(TASK)
    return ("run", "task.md", "-s", "danger-full-access", "--plain", "--provider")


def results(rig) -> dict[int, FanOutItemEnded]:
    return {end.index: end for end in rig.bodies(FanOutItemEnded)}


def most_alive(rig) -> int:
    """The highest number of slots held at once, from starts and deaths in the journal."""
    held = most = 0
    for record in rig.records():
        match record.body:
            case AgentSpawned():
                held += 1
            case ProcessEnded():
                held -= 1
            case _:
                continue
        most = max(most, held)
    assert held == 0
    return most


def spawned(rig) -> Counter[str]:
    return Counter(body.path for body in rig.bodies(AgentSpawned))


async def test_a_killed_agent_and_a_failed_item_cost_no_other_item(rig):
    words = begin(rig)
    stay = (
        {"agent": "/root/items_i03", "calls": [STAY]},
        {"agent": "/root/items_i03", "text": "after {last_output}"},
        {"agent": "/root/items_i05", **REFUSED},
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.start(*words, rig.script(*entries(*stay)))
        await rig.wait_runs()
        os.kill(rig.lives("/root/items_i03")[0].pid, signal.SIGKILL)
        ended = await run.wait_end()
    assert ended.code == 8, ended.err
    assert ended.err.splitlines()[-1].startswith("partial: 1 of 12 items failed")
    found = results(rig)
    assert sorted(found) == list(range(COUNT))
    assert found[3].result.startswith("after interrupted: ")
    assert (found[5].state, found[5].result.count("not this one")) == ("failed", 1)
    others = {index: end.result for index, end in found.items() if index not in (3, 5)}
    assert others == {index: f"answer of /root/items_i{index:02}" for index in others}
    assert (rig.work / "runs").read_text() == "once\n"
    assert re.findall(r"## items/i(\d\d)", ended.out) == [f"{n:02}" for n in range(COUNT)]
    assert "## items/i05 (failed)" in ended.out
    assert most_alive(rig) <= 3
    assert rig.alive() == {}

    rig.script(*entries())
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.resume()).wait_end()
    assert ended.code == 0, ended.err
    assert results(rig)[5].state == "completed"
    again = {
        path: count
        for path, count in spawned(rig).items()
        if not path.startswith("/root/items_i05")
    }
    assert again == {"/root": 2, "/root/items_i03": 2} | {
        f"/root/items_i{n:02}": 1 for n in range(COUNT) if n not in (3, 5)
    }
    told = [text_of(body.item.content) for body in rig.bodies(ItemRecorded, agent="/root")
            if body.source == "user"]  # fmt: skip
    assert re.findall(r"## items/i(\d\d)", told[-1]) == ["05"]


async def test_after_the_supervisor_was_killed_only_what_is_missing_runs(rig):
    words = begin(rig)
    stay = {"agent": "/root/items_i06", "calls": [STAY]}
    with trio.fail_after(LIMIT_S):
        run = await rig.start(*words, rig.script(*entries(stay)))
        await rig.wait_runs()
        await rig.wait(lambda: len(results(rig)) >= 8)
        rig.alive()
        run.process.kill()
        with trio.fail_after(20):
            await rig.wait_gone()
        before = results(rig)
        rig.script(*entries())
        ended = await (await rig.resume()).wait_end()
    assert ended.code == 0, ended.err
    found = results(rig)
    assert sorted(found) == list(range(COUNT))
    assert {end.state for end in found.values()} == {"completed"}
    ends = Counter(end.index for end in rig.bodies(FanOutItemEnded))
    assert all(ends[index] == 1 for index in before)
    assert re.findall(r"## items/i(\d\d)", ended.out) == [f"{n:02}" for n in range(COUNT)]
    assert rig.alive() == {}


async def test_ctrl_c_in_a_fan_out_ends_it_and_resume_does_the_rest(rig):
    words = begin(rig)
    stay = tuple({"agent": f"/root/items_i{n:02}", "calls": [STAY]} for n in range(4, 12))
    with trio.fail_after(LIMIT_S):
        run = await rig.start(*words, rig.script(*entries(*stay)))
        await rig.wait_runs(3)
        run.process.send_signal(signal.SIGINT)
        ended = await run.wait_end()
        assert ended.code == 130, ended.err
        assert Counter(end.state for end in results(rig).values()) == {
            "completed": 4,
            "interrupted": 3,
        }
        assert not rig.lives("/root")
        assert rig.alive() == {}
        rig.script(*entries())
        ended = await (await rig.resume()).wait_end()
    assert ended.code == 0, ended.err
    assert {end.state for end in results(rig).values()} == {"completed"}
    assert (rig.work / "runs").read_text() == "once\n" * 3


async def test_an_item_that_a_person_kills_is_not_tried_again(rig):
    words = begin(rig)
    stay = {"agent": "/root/items_i02", "calls": [STAY], "repeat": "forever"}
    (rig.work / "task.md").write_text(TASK.replace("concurrency: 3", "retries: 2"))
    with trio.fail_after(LIMIT_S):
        run = await rig.start(*words, rig.script(*entries(stay)))
        await rig.wait_runs()
        killed = await (await rig.start("kill", rig.run_id, "items_i02")).wait_end()
        assert killed.code == 0, killed.err
        ended = await run.wait_end()
    assert ended.code == 8, ended.err
    assert results(rig)[2].state == "killed"
    assert spawned(rig)["/root/items_i02"] == 1
    assert Counter(end.state for end in results(rig).values()) == {"completed": 11, "killed": 1}
    assert (rig.work / "runs").read_text() == "once\n"
    assert rig.alive() == {}
