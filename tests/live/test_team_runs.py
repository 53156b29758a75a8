"""Teams that work: asked again, woken, suspended, forked, over a table."""

import csv

import msgspec
import pytest

from support.scripted_team_run import call, calls, open_scripted_run, says, spawns, waits
from swarm.mailbox.protocol.events import TurnStarted
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    ContextRecorded,
    ItemRecorded,
    ProcessEnded,
    RunCompleted,
)
from swarm.mailbox.protocol.values.limits import ReadOnly

pytestmark = pytest.mark.live


async def test_a_finished_agent_is_asked_again_by_its_path_and_knows_what_it_said(tmp_path):
    turns = [
        calls("/root", *spawns("a")),
        calls("/root", waits("a")),
        calls("/root", call("followup_task", target="a", message="once more")),
        calls("/root", waits("a")),
        says("/root", "{last_output}"),
        says("/root/a", "first"),
        says("/root/a", "second"),
    ]
    async with open_scripted_run(tmp_path, turns) as scripted:
        pass
    assert scripted.code == 0
    assert [one.epoch for one in scripted.of(AgentSpawned, "/root/a")] == [1, 2]
    assert [one.message for one in scripted.of(AgentEnded, "/root/a")] == ["first", "second"]
    assert "second" in scripted.of(RunCompleted)[0].result
    assert all(one.orderly for one in scripted.of(ProcessEnded, "/root/a"))


async def test_an_idle_parent_is_woken_by_its_childs_answer(tmp_path):
    turns = [
        calls("/root", *spawns("a")),
        says("/root", "it works on"),
        says("/root", "it has answered"),
        says("/root/a", "here", delay_s=0.5),
    ]
    async with open_scripted_run(tmp_path, turns) as scripted:
        pass
    assert scripted.of(RunCompleted)[0].result == "it has answered"
    assert [one.started_by for one in scripted.of(TurnStarted, "/root")] == ["user", "mail"]


async def test_a_parent_that_only_waits_gives_its_slot_to_its_grandchild(tmp_path):
    turns = [
        calls("/root", *spawns("a")),
        calls("/root", waits("a")),
        says("/root", "{last_output}"),
        calls("/root/a", *spawns("b")),
        calls("/root/a", waits("b")),
        says("/root/a", "b told me"),
        says("/root/a/b", "deep"),
    ]
    async with open_scripted_run(tmp_path, turns, "--max-agents", "2") as scripted:
        pass
    assert scripted.code == 0, (tmp_path / "out").read_text()[-3000:]
    result = msgspec.json.decode(scripted.of(RunCompleted)[0].result)
    assert result["finished"][0]["result"] == "b told me"
    assert len(scripted.of(AgentSpawned, "/root")) >= 2
    scripted.slots_at_the_end()
    assert scripted.most <= 2


async def test_parents_that_all_stand_in_line_both_get_their_child_with_two_slots(tmp_path):
    turns = [
        calls("/root", *spawns("a")),
        calls("/root", *spawns("c")),
        calls("/root", waits("a", "c")),
        says("/root", "{last_output}", repeat="forever"),
        calls("/root/a", *spawns("b")),
        calls("/root/a", waits("b")),
        says("/root/a", "b told me", repeat="forever"),
        says("/root/a/b", "deep"),
        says("/root/c", "broad"),
    ]
    async with open_scripted_run(tmp_path, turns, "--max-agents", "2") as scripted:
        pass
    assert scripted.code == 0, (tmp_path / "out").read_text()[-3000:]
    answers = [msgspec.json.decode(output) for output in scripted.outputs()[:2]]
    assert [one["task_name"] for one in answers] == ["/root/a", "/root/c"]
    assert {one.path for one in scripted.of(AgentSpawned)} == {
        "/root", "/root/a", "/root/a/b", "/root/c",
    }  # fmt: skip
    assert "slot can ever" not in str(scripted.outputs() + scripted.outputs("/root/a"))
    scripted.slots_at_the_end()
    assert scripted.most <= 2


async def test_a_job_over_a_table_joins_one_result_a_row_in_order(tmp_path):
    rows = "\n".join(f"n{number},{number}" for number in range(12))
    (tmp_path / "in.csv").write_text(f"name,value\n{rows}\n")
    job = call("spawn_agents_on_csv", csv_path="in.csv", instruction="say {name} {{x}}",
               id_column="name", output_csv_path="out.csv", max_concurrency=3)  # fmt: skip
    turns = [
        calls("/root", job),
        says("/root", "{last_output}"),
        says("/root/job_*_5", "I forgot"),
        {**calls("/root/job_*", call("exec_command", cmd="sleep 0.1")), "repeat": 1},
        says("/root/job_*", "never told"),
    ]
    async with open_scripted_run(tmp_path, turns, "--max-agents", "4") as scripted:
        pass
    assert scripted.code == 0, (tmp_path / "out").read_text()[-3000:]
    summary = msgspec.json.decode(scripted.of(RunCompleted)[0].result)
    assert (summary["total_items"], summary["failed_items"]) == (12, 12)
    with (tmp_path / "out.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["item_id"] for row in table] == [f"n{number}" for number in range(12)]
    assert {row["status"] for row in table} == {"failed"}
    scripted.slots_at_the_end()
    assert scripted.most <= 4


async def test_a_forked_child_knows_what_was_said_and_its_own_rights(tmp_path):
    turns = [
        calls("/root", call("spawn_agent", task_name="a", message="go on", agent_type="explorer")),
        calls("/root", waits("a")),
        says("/root", "{last_output}"),
        says("/root/a", "I was told {last_user}"),
    ]
    async with open_scripted_run(tmp_path, turns) as scripted:
        pass
    assert scripted.code == 0
    texts = [
        "".join(part.text for part in body.item.content)
        for body in scripted.of(ItemRecorded, "/root/a")
        if isinstance(body.item, Message)
    ]
    assert sum(text.startswith("Message Type: NEW_TASK\n") for text in texts) == 1
    assert any("/root/a" in text and "`/root` started you" in text for text in texts)
    assert scripted.of(AgentSpawned, "/root/a")[0].limits.sandbox == ReadOnly()
    begun = [one for one in scripted.records() if one.agent == "/root/a"]
    assert isinstance(begun[0].body, ContextRecorded)
    assert any(
        isinstance(item, Message) and text_of(item.content).strip() == "go"
        for item in begun[0].body.items
    )
