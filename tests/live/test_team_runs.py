"""Whole runs of teams with a scripted model: real processes, real mail, real ends."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio
import yaml

from swarm.mailbox.control import ask_control
from swarm.mailbox.protocol.control import Done, KillAgent, decode_control_reply, encode_control
from swarm.mailbox.protocol.events import CallBegan, TurnStarted
from swarm.mailbox.protocol.items import FunctionCallOutput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    ItemRecorded,
    MailHandled,
    MailPosted,
    ProcessEnded,
    Record,
    RunCompleted,
)
from swarm.supervisor.journal.reading import read_records
from swarm.supervisor.places import find_places, run_places

pytestmark = pytest.mark.live
SWARM = str(Path(sys.executable).with_name("swarm"))


class Story:
    """One run of the command, and what its journal says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "SWARM_HOME": str(folder / "s"),
            "XDG_RUNTIME_DIR": str(folder),
        }
        self.code: int | None = None

    def argv(self, turns, *options):
        script = self.folder / "script.yaml"
        script.write_text(yaml.safe_dump({"turns": turns, "default": {"text": "nothing more"}}))
        return [
            SWARM, "run", "-p", "go", "--plain", "--provider", f"scripted:{script}",
            "-s", "danger-full-access", "-C", str(self.folder), *options,
        ]  # fmt: skip

    def control(self) -> str:
        (folder,) = Path(self.environment["SWARM_HOME"]).rglob("journal")
        return run_places(find_places(self.environment), folder.parent.name).control

    def records(self) -> list[Record]:
        runs = find_places(self.environment)
        for about in Path(self.environment["SWARM_HOME"]).rglob("journal"):
            return list(read_records(run_places(runs, about.parent.name)))
        return []

    def of(self, kind, agent=None):
        found = [one for one in self.records() if isinstance(one.body, kind)]
        return [one.body for one in found if agent is None or one.agent == agent]

    async def until(self, holds):
        while not (found := holds()):  # noqa: ASYNC110 — what a journal holds has no event
            await trio.sleep(0.05)
        return found

    def slots_at_the_end(self) -> int:
        """Live processes just before the last one ended; `most` is then known too."""
        live: set[str] = set()
        last = self.most = 0
        for record in self.records():
            if isinstance(record.body, AgentSpawned):
                live.add(record.body.path)
                self.most = max(self.most, len(live))
            elif isinstance(record.body, ProcessEnded):
                last = len(live)
                live.discard(record.agent)
        assert not live
        return last

    def outputs(self, agent="/root"):
        items = [body.item for body in self.of(ItemRecorded, agent)]
        return [item.output for item in items if isinstance(item, FunctionCallOutput)]


async def tell(story, turns, *options):
    argv = story.argv(turns, *options)
    with (story.folder / "out").open("wb") as out:
        done = await trio.run_process(
            argv, env=story.environment, stdout=out, stderr=out, check=False
        )
    story.code = done.returncode
    assert b"Traceback" not in (story.folder / "out").read_bytes()


@asynccontextmanager
async def told(folder, turns, *options) -> AsyncIterator[Story]:
    """The run goes on beside the block, and has ended after it."""
    story = Story(folder)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(tell, story, turns, *options))
            yield story


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


def says(agent, text, **more):
    return {"agent": agent, "text": text, **more}


def calls(agent, *wanted):
    return {"agent": agent, "calls": list(wanted)}


def spawns(*names, **more):
    return [call("spawn_agent", task_name=n, message=f"be {n}", fork_turns="none", **more) for n in names]


def waits(*names, mode="all", seconds=60):
    wanted = {"targets": list(names)} if names else {}
    return call("wait_agent", **wanted, **{"for": mode}, timeout_ms=seconds * 1000)


async def test_32_explorers_under_9_slots_survive_a_kill_and_a_stop(tmp_path):
    names = [f"e{number}" for number in range(32)]
    turns = [
        calls("/root", *spawns(*names, agent_type="explorer")),
        calls("/root", waits(*names)),
        says("/root", "all is told"),
        calls("/root/*", call("exec_command", cmd="sleep 0.5; echo seen")),
        says("/root/*", "{agent} has looked"),
    ]
    async with told(tmp_path, turns, "--max-agents", "9") as story:
        for name, number in (("e2", signal.SIGKILL), ("e4", signal.SIGSTOP)):
            path = f"/root/{name}"
            await story.until(lambda path=path: story.of(CallBegan, path))
            os.kill(story.of(AgentSpawned, path)[0].pid, number)
    assert story.code == 0, (tmp_path / "out").read_text()[-2000:]
    completed = story.of(RunCompleted)[0]
    assert (completed.status, completed.result) == ("completed", "all is told")
    ends = {one.agent: one.body for one in story.records() if isinstance(one.body, AgentEnded)}
    assert {ends[f"/root/{name}"].state for name in names} == {"completed"}
    answers = [one.mail for one in story.of(MailPosted) if one.mail.kind == "final_answer"]
    assert sorted(mail.author for mail in answers) == sorted(f"/root/{name}" for name in names)
    assert story.slots_at_the_end() == 1
    assert story.most <= 9
    assert len(story.of(AgentSpawned, "/root/e2")) == len(story.of(AgentSpawned, "/root/e4")) == 2
    finished = msgspec.json.decode(story.outputs()[32])["finished"]
    assert len(finished) == 32


async def test_a_wait_on_an_agent_that_is_killed_ends_and_says_so(tmp_path):
    turns = [
        calls("/root", *spawns("a")),
        calls("/root", waits("a")),
        says("/root", "told"),
        calls("/root/a", call("exec_command", cmd="sleep 50")),
    ]
    async with told(tmp_path, turns) as story:
        await story.until(lambda: story.of(CallBegan, "/root/a"))
        reply = await ask_control(
            story.control(), encode_control(KillAgent(agent="/root/a")), timeout_s=10
        )
        assert decode_control_reply(reply) == Done(message="ended 1 agents")
    assert story.code == 0
    waited = msgspec.json.decode(story.outputs()[1])
    assert waited["finished"][0]["end_state"] == "killed"
    assert story.slots_at_the_end() == 1


async def test_with_one_slot_nothing_is_spawned_and_the_model_is_told(tmp_path):
    turns = [calls("/root", *spawns("a")), says("/root", "alone")]
    async with told(tmp_path, turns, "--max-agents", "1") as story:
        pass
    assert story.code == 0
    assert len(story.of(AgentSpawned)) == 1
    assert "max_agents is 1" in story.outputs()[0] or "unsupported call" in story.outputs()[0]


async def test_two_agents_that_wake_each_other_for_ever_end_at_the_deadline(tmp_path):
    turns = [
        calls("/root", *spawns("a", "b")),
        calls("/root", waits("a", "b", seconds=600)),
        {**calls("/root/a", call("followup_task", target="/root/b", message="you")), "repeat": "forever"},
        {**calls("/root/b", call("followup_task", target="/root/a", message="you")), "repeat": "forever"},
    ]  # fmt: skip
    async with told(tmp_path, turns, "--deadline", "4s") as story:
        pass
    assert story.code == 4
    assert story.of(RunCompleted)[0].status == "deadline"
    assert len([one for one in story.of(MailPosted) if one.mail.kind == "followup"]) > 4


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
    async with told(tmp_path, turns) as story:
        pass
    assert story.code == 0
    assert [one.epoch for one in story.of(AgentSpawned, "/root/a")] == [1, 2]
    assert [one.message for one in story.of(AgentEnded, "/root/a")] == ["first", "second"]
    assert "second" in story.of(RunCompleted)[0].result
    assert all(one.orderly for one in story.of(ProcessEnded, "/root/a"))


async def test_an_idle_parent_is_woken_by_its_childs_answer(tmp_path):
    turns = [
        calls("/root", *spawns("a")),
        says("/root", "it works on"),
        says("/root", "it has answered"),
        says("/root/a", "here", delay_s=0.5),
    ]
    async with told(tmp_path, turns) as story:
        pass
    assert story.of(RunCompleted)[0].result == "it has answered"
    assert [one.started_by for one in story.of(TurnStarted, "/root")] == ["user", "mail"]


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
    async with told(tmp_path, turns, "--max-agents", "2") as story:
        pass
    assert story.code == 0, (tmp_path / "out").read_text()[-3000:]
    result = msgspec.json.decode(story.of(RunCompleted)[0].result)
    assert result["finished"][0]["result"] == "b told me"
    assert len(story.of(AgentSpawned, "/root")) >= 2
    story.slots_at_the_end()
    assert story.most <= 2


async def test_a_closed_agents_letters_come_back_and_its_children_end_with_it(tmp_path):
    turns = [
        calls("/root", *spawns("a")),
        calls("/root", waits(seconds=10, mode="any")),
        calls("/root", call("send_message", target="a", message="unread")),
        calls("/root", call("close_agent", target="a")),
        calls("/root", call("send_message", target="a", message="too late")),
        says("/root", "closed"),
        calls("/root/a", *spawns("b")),
        calls("/root/a", call("send_message", target="/root", message="it is there"),
              call("exec_command", cmd="sleep 50")),
        calls("/root/a/b", call("exec_command", cmd="sleep 50")),
    ]  # fmt: skip
    async with told(tmp_path, turns) as story:
        pass
    assert story.code == 0, (tmp_path / "out").read_text()[-3000:]
    assert {one.agent for one in story.records() if isinstance(one.body, ProcessEnded)} >= {
        "/root/a", "/root/a/b",
    }  # fmt: skip
    dead = [one for one in story.of(MailHandled) if one.dead]
    assert len(dead) == 2
    assert "ended for good" in story.outputs()[-1]
    assert story.slots_at_the_end() == 1
