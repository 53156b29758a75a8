"""Whole runs against a bound: no request over it, nothing spent is lost, a raised bound goes on."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path

import msgspec
import pytest
import trio
import yaml

from support.forked_programs import Files, ForkedCommand, Setting
from swarm.mailbox.base.process_tree import children_of
from swarm.mailbox.protocol.events import TurnStarted, Warned
from swarm.mailbox.protocol.gateway import ReservationReleased, ResponseBilled
from swarm.mailbox.protocol.items import text_of
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    FanOutItemEnded,
    GatewayEnded,
    ItemRecorded,
    Reserved,
    RunCompleted,
)
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.runs.paths import find_user_paths, paths_of_run

pytestmark = pytest.mark.live
SWARM = str(Path(sys.executable).with_name("swarm"))
USAGE = {"input_tokens": 900, "output_tokens": 100}
MODEL = {"input_usd_per_million": 1000.0, "output_usd_per_million": 1000.0}
RESUME = """
import json, os, sys
import msgspec
from swarm.mailbox.protocol.values.limits import Budget
from swarm.supervisor.request.saved_request import load_request
from swarm.supervisor.clients.cli.run_setup.options import ShowOptions
from swarm.supervisor.clients.cli.commands.run_execution import start_run
from swarm.supervisor.runs.paths import find_user_paths, paths_of_run
run, said = sys.argv[1], json.loads(sys.argv[2])
places = find_user_paths(dict(os.environ))
request = load_request(paths_of_run(places, run))
budget = msgspec.structs.replace(request.budget, **said)
again = msgspec.structs.replace(
    request, budget=budget, run_id=run, resumes=True, environment=dict(os.environ))
sys.exit(start_run(again, ShowOptions(as_json=True), places))
"""


class Story:
    """The runs of one home, and what the journal says of them."""

    def __init__(self, folder):
        self.folder = folder
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "SWARM_HOME": str(folder / "s"),
            "XDG_RUNTIME_DIR": str(folder),
        }
        self.code, self.lines, self.pid = None, [], 0

    @property
    def run_id(self):
        (folder,) = (self.folder / "s").glob("state/runs/*/journal")
        return folder.parent.name

    def records(self):
        if not list((self.folder / "s").glob("state/runs/*/journal")):
            return []
        return list(read_records(paths_of_run(find_user_paths(self.environment), self.run_id)))

    def of(self, kind, agent=None):
        found = [one for one in self.records() if isinstance(one.body, kind)]
        return [one.body for one in found if agent is None or one.agent == agent]

    def notes(self, agent="/root"):
        """What the supervisor said to the model."""
        items = [body for body in self.of(ItemRecorded, agent) if body.source == "note"]
        return [text_of(body.item.content) for body in items]

    def spent(self):
        """Tokens after each record that counts."""
        bills = self.of(ResponseBilled | ReservationReleased)
        costs = [
            one.usage.total_tokens if isinstance(one, ResponseBilled) else one.tokens
            for one in bills
        ]
        return [0, *accumulate(costs)]

    async def until(self, holds):
        while not (found := holds()):  # noqa: ASYNC110 — what a journal holds has no event
            await trio.sleep(0.02)
        return found

    async def start(self, argv):
        (self.folder / "work").mkdir(exist_ok=True)
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            files = Files(out.fileno(), err.fileno())
            process = ForkedCommand(argv, files, Setting(self.environment, self.folder / "work"))
        self.pid = process.pid
        self.code = await process.wait()
        self.lines = [
            msgspec.json.decode(line) for line in (self.folder / "out").read_bytes().splitlines()
        ]
        assert "Traceback" not in (self.folder / "err").read_text()

    def argv(self, turns, *options):
        script = self.folder / "script.yaml"
        script.write_text(yaml.safe_dump({"turns": turns, "model": MODEL}))
        where = ("--provider", f"scripted:{script}", "-s", "danger-full-access")
        return [SWARM, "run", "-p", "go", "--json", *where, *options]

    async def resume(self, **budget):
        program = self.folder / "resume.py"
        program.write_text(RESUME)
        said = msgspec.json.encode(budget).decode()
        await self.start([str(program), self.run_id, said])


@asynccontextmanager
async def told(folder, turns, *options) -> AsyncIterator[Story]:
    """The run goes on beside the block, and has ended after it."""
    story = Story(folder)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(story.start, story.argv(turns, *options)))
            yield story


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


PLAN = call("update_plan", plan=[{"step": "a{turn}", "status": "pending"}])


def works(agent="/root", **more):
    return {"agent": agent, "text": "so far", "calls": [PLAN], "usage": USAGE} | more


FOREVER = [works(repeat="forever")]


@pytest.mark.parametrize(
    ("options", "unit", "most"),
    [
        (("--budget-tokens", "12500"), "tokens", 12_500),
        (("--budget-usd", "12.5"), "usd", 12.5),
        (("-c", "budget.requests=6"), "requests", 6),
    ],
)
async def test_a_used_up_budget_ends_the_run_with_the_best_answer(tmp_path, options, unit, most):
    async with told(tmp_path, FOREVER, *options) as story:
        pass
    assert story.code == 4
    last = story.lines[-1]
    assert (last["type"], last["status"], last["result"]) == ("run.completed", "budget", "so far")
    lasts = [one.last for one in story.of(Reserved)]
    assert lasts[-1]
    assert not any(lasts[:-1])
    used = last["budget"][f"used_{unit}"]
    one = {"tokens": 1000, "usd": 1.0, "requests": 1}[unit]
    assert last["budget"][unit] == most
    assert most - 2.6 * one <= used <= most + one, "the margin is for the output"
    assert [one.state for one in story.of(AgentEnded, "/root")] == ["budget"]
    tight, end = story.notes()
    assert "of the run's budget is used" in tight
    assert "last request" in end
    (warning,) = [one.message for one in story.of(Warned)]
    assert "of the run's budget is used" in warning


async def test_no_request_is_sent_over_the_bound_by_many_agents_at_once(tmp_path):
    names = [f"a{number}" for number in range(5)]
    spawns = [
        call("spawn_agent", task_name=name, message="be", fork_turns="none") for name in names
    ]
    wait = call("wait_agent", targets=names, timeout_ms=60_000, **{"for": "all"})
    turns = [
        {"agent": "/root", "calls": spawns, "usage": USAGE},
        {"agent": "/root", "calls": [wait], "usage": USAGE},
        {"agent": "/root", "text": "all of it"},
        works("/root/*", repeat="forever", delay_s=0.02),
    ]
    async with told(tmp_path, turns, "--budget-tokens", "40000", "--max-agents", "8") as story:
        pass
    assert story.code == 4, (tmp_path / "err").read_text()
    held, spent, over = {}, 0, 0
    for record in story.records():
        match record.body:
            case Reserved() as body:
                held[body.reservation] = body.tokens
                over += body.tokens if body.last else 0
                assert spent + sum(held.values()) <= 40_000 + over
            case ResponseBilled() as body:
                del held[body.reservation]
                spent += body.usage.total_tokens
            case ReservationReleased() as body:
                held.pop(body.reservation, None)
                spent += body.tokens
    assert held == {}
    assert spent > 30_000
    by_agent = [one.agent_id for one in story.of(Reserved) if one.last]
    assert len(by_agent) == len(set(by_agent)), "one last grant an agent"
    ends = {
        one.agent: one.body.state for one in story.records() if isinstance(one.body, AgentEnded)
    }
    assert {ends[f"/root/{name}"] for name in names} <= {"budget", "interrupted"}


async def test_a_raised_bound_goes_on_and_what_was_spent_stays_spent(tmp_path):
    turns = [works(repeat=8), {"agent": "/root", "text": "done at last", "usage": USAGE}]
    async with told(tmp_path, turns, "--budget-tokens", "5000") as story:
        pass
    assert story.code == 4
    before = story.spent()[-1]
    with trio.fail_after(60):
        await story.resume()
        assert story.code == 4, "the bound stands where it stood"
        assert story.spent()[-1] == before, "and buys nothing more"
        await story.resume(tokens=50_000)
    assert story.code == 0, (tmp_path / "err").read_text()
    last = story.lines[-1]
    assert (last["status"], last["result"]) == ("completed", "done at last")
    assert last["budget"]["used_tokens"] == story.spent()[-1] > before
    assert any("has been raised" in note for note in story.notes())


async def test_what_a_killed_gateway_had_under_way_counts_as_spent(tmp_path):
    turns = [works(), works(delay_s=2), {"agent": "/root", "text": "done", "usage": USAGE}]
    async with told(tmp_path, turns, "--budget-tokens", "50000") as story:
        await story.until(lambda: len(story.of(Reserved)) == 2)
        os.kill(process_of(story.pid, "gateway"), signal.SIGKILL)
    assert len(story.of(GatewayEnded)) == 1
    lapsed, reserved = story.of(ReservationReleased), story.of(Reserved)
    assert lapsed[0].reservation == reserved[1].reservation
    assert (lapsed[0].tokens, lapsed[0].requests) == (reserved[1].tokens, 1)
    settled = [one.reservation for one in (*story.of(ResponseBilled), *lapsed)]
    assert sorted(settled) == sorted(one.reservation for one in reserved)


async def test_what_a_killed_supervisor_had_under_way_counts_as_spent(tmp_path):
    turns = [works(), works(delay_s=2), {"agent": "/root", "text": "done", "usage": USAGE}]
    async with told(tmp_path, turns, "--budget-tokens", "50000") as story:
        await story.until(lambda: len(story.of(Reserved)) == 2)
        os.kill(story.pid, signal.SIGKILL)
    reserved = story.of(Reserved)[1]
    assert story.of(ReservationReleased) == []
    with trio.fail_after(60):
        await story.resume(tokens=reserved.tokens + 1000)
    assert story.code == 4, "nothing is left of it for another request"
    assert story.of(ReservationReleased)[0].tokens == reserved.tokens
    assert len([one for one in story.of(Reserved) if not one.last]) == 2


async def test_what_an_agent_paid_stays_paid_over_its_lives_and_over_a_killed_supervisor(tmp_path):
    spawn = call("spawn_agent", task_name="a", message="be", fork_turns="none")
    wait = call("wait_agent", targets=["a"], timeout_ms=60_000)
    again = call("followup_task", target="a", message="once more")
    asked = [[spawn], [wait], [again], [wait], [again], [wait]]
    turns = [
        *({"agent": "/root", "calls": calls, "usage": USAGE} for calls in asked),
        {"agent": "/root", "text": "done", "usage": USAGE, "repeat": "forever"},
        *({"agent": "/root/a", "text": text, "usage": USAGE} for text in ("one", "two")),
        {"agent": "/root/a", "text": "three", "usage": USAGE, "delay_s": 1},
    ]
    async with told(tmp_path, turns, "--budget-tokens", "90000", "--deadline", "40s") as story:
        await story.until(lambda: len(story.of(Reserved, "/root/a")) == 3)
        os.kill(story.pid, signal.SIGKILL)
    with trio.fail_after(60):
        await story.resume()
    assert story.code == 0, (tmp_path / "err").read_text()
    lives = story.of(AgentSpawned, "/root/a")
    assert [(life.epoch, life.usd, life.usage.total_tokens) for life in lives] == [
        (1, None, 0), (2, 1.0, 1000), (3, 2.0, 2000), (4, 2.0, 2000),
    ]  # fmt: skip
    deadlines = [life.limits.deadline_unix_s for life in lives]
    assert deadlines[0] == deadlines[2] < deadlines[3], "the run's hours are those of today"
    ends = [line for line in story.lines if line["type"] == "agent.status"]
    assert [one["usd"] for one in ends if one.get("end_state") and one["agent"] == "/root/a"] == [3]
    bills, (lost,) = story.of(ResponseBilled), story.of(ReservationReleased)
    used = story.lines[-1]["budget"]
    assert used["used_tokens"] == sum(one.usage.total_tokens for one in bills) + lost.tokens
    assert used["used_requests"] == len(bills) + 1 == len(story.of(Reserved))
    assert used["used_usd"] == pytest.approx(sum(one.usd for one in bills) + lost.usd)


async def test_an_agent_is_told_before_its_deadline_and_cut_off_at_it(tmp_path):
    turns = [works(repeat="forever", delay_s=0.05)]
    async with told(tmp_path, turns, "--deadline", "3s") as story:
        pass
    assert story.code == 4
    assert story.of(RunCompleted)[0].status == "deadline"
    assert any("until your deadline" in note for note in story.notes())
    assert story.of(Reserved) == [], "time alone is no reason to ask for every request"


async def test_a_role_with_a_budget_bounds_its_agents_and_nobody_else(tmp_path):
    agents = tmp_path / "s" / "agents"
    agents.mkdir(parents=True)
    (agents / "frugal.toml").write_text(
        'name = "frugal"\ndescription = "d"\ndeveloper_instructions = "x"\n[budget]\nrequests = 2\n'
    )
    spawn = call("spawn_agent", task_name="a", message="be", agent_type="frugal", fork_turns="none")
    turns = [
        works(),
        {"agent": "/root", "calls": [spawn]},
        {"agent": "/root", "calls": [call("wait_agent", targets=["a"], timeout_ms=60_000)]},
        works(repeat=4),
        {"agent": "/root", "text": "told"},
        works("/root/a", repeat="forever"),
    ]
    async with told(tmp_path, turns) as story:
        pass
    assert story.code == 0, (tmp_path / "err").read_text()
    assert [one.state for one in story.of(AgentEnded, "/root/a")] == ["budget"]
    assert len(story.of(ResponseBilled, "/root/a")) == 3
    assert story.of(Reserved, "/root") == []


async def test_a_spent_budget_ends_a_fan_out_and_starts_no_item_more(tmp_path):
    task = tmp_path / "task.md"
    task.write_text(
        "---\nfan_out:\n  each: {lines: 'seq 50'}\n  prompt: 'say {item}'\n  role: default\n"
        "  concurrency: 3\nbudget: {requests: 7}\n---\njoin them\n"
    )
    turns = [{"agent": "**", "text": "told", "usage": USAGE, "repeat": "forever"}]
    story = Story(tmp_path)
    argv = [str(task) if word == "go" else word for word in story.argv(turns) if word != "-p"]
    with trio.fail_after(60):
        await story.start(argv)
    assert story.code == 4, (tmp_path / "err").read_text()
    assert len(story.of(ResponseBilled)) == 7
    ends = [one.state for one in story.of(FanOutItemEnded)]
    assert ends.count("completed") == 7
    assert 1 <= ends.count("budget") <= 3, "only those that ran side by side"


async def test_two_agents_that_wake_each_other_for_ever_end_by_the_budget(tmp_path):
    spawns = [call("spawn_agent", task_name=n, message="be", fork_turns="none") for n in "ab"]
    wait = call("wait_agent", targets=["a", "b"], timeout_ms=600_000, **{"for": "all"})
    turns = [
        {"agent": "/root", "calls": spawns, "usage": USAGE},
        {"agent": "/root", "calls": [wait], "usage": USAGE, "repeat": "forever"},
        *(
            works(f"/root/{one}", repeat="forever")
            | {"calls": [call("followup_task", target=f"/root/{other}", message="you")]}
            for one, other in ("ab", "ba")
        ),
    ]
    async with told(tmp_path, turns, "--budget-tokens", "60000") as story:
        pass
    assert story.code == 4, (tmp_path / "err").read_text()
    assert story.of(RunCompleted)[0].status == "budget"
    assert len(story.of(TurnStarted, "/root/a")) >= 1


def process_of(supervisor, title):
    """The pid of the supervisor's child so titled."""
    for pid in children_of(supervisor):
        if f"swarm: {title}" in Path(f"/proc/{pid}/cmdline").read_text():
            return pid
    raise LookupError(title)
