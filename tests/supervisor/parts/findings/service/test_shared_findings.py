"""Findings and claims in whole trees, in virtual time, with the real supervisor and agents."""

import json
import signal

import trio

from support.team_in_memory import WORK, calls, open_team, says, spawn, wait
from swarm.mailbox.contents.context_markers import FINDINGS_START
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.records import AgentSpawned, ItemRecorded
from swarm.mailbox.protocol.values.findings import FindingPublished
from swarm.supervisor.clients.console.log_lines import LogFilter, log_line, matches_filter
from swarm.supervisor.journal.journal_reader import read_records

LIMIT_S = 3_600


def publish(fact: str, **more: str) -> tuple[str, dict]:
    return "publish_finding", {"fact": fact, **more}


def recall(query: str = "") -> tuple[str, dict]:
    return "recall_findings", {"query": query}


def digests(team, path: str) -> list[str]:
    """What the agent's model was shown, once for each digest in its history."""
    items = [one.item for one in team.bodies(ItemRecorded, path)]
    texts = [text_of(item.content) for item in items if isinstance(item, Message)]
    return [text for text in texts if text.startswith(FINDINGS_START)]


async def test_a_finding_is_journaled_and_then_read_by_all_others_with_their_next_request(
    tmp_path, autojump_clock
):
    scripts = {
        "/root": [calls(spawn("a"), spawn("b")), calls(WORK), calls(wait("a", "b")), says("root")],
        "/root/a": [calls(publish("It leaks.", file="src/x.py", lines="3-9")), says("a")],
        "/root/b": [calls(WORK), calls(recall("leaks")), says("b")],
    }
    async with open_team(tmp_path, scripts) as team:
        with trio.fail_after(LIMIT_S):
            await team.begin()
            await team.service.wait_done()
        line = "\n- #1 /root/a, src/x.py:3-9: It leaks.\n"
        assert [line in text for text in digests(team, "/root")] == [True]
        assert [line in text for text in digests(team, "/root/b")] == [True]
        assert digests(team, "/root/a") == []
        assert team.outputs("/root/a") == ["published as #1"]
        assert json.loads(team.outputs("/root/b")[1])["findings"] == [
            {"number": 1, "by": "/root/a", "place": "src/x.py:3-9", "fact": "It leaks."}
        ]
        records = list(read_records(team.running.paths))
        wanted = LogFilter(part="findings")
        (published,) = [record for record in records if matches_filter(record, wanted)]
        assert "/root/a finding_published #1 src/x.py:3-9: It leaks." in log_line(published)
        shown = [
            record.seq
            for record in records
            if isinstance(record.body, ItemRecorded) and FINDINGS_START in str(record.body.item)
        ]
        assert len(shown) == 2
        assert published.seq < min(shown)


async def test_the_history_before_a_digest_stays_as_it_was(tmp_path, autojump_clock):
    scripts = {
        "/root": [calls(spawn("a")), calls(WORK), calls(wait("a")), says("root")],
        "/root/a": [calls(publish("It leaks.")), says("a")],
    }
    async with open_team(tmp_path, scripts) as team:
        with trio.fail_after(LIMIT_S):
            await team.begin()
            await team.service.wait_done()
        (asked,) = team.asked["/root"]
        for before, after in zip(asked.inputs, asked.inputs[1:], strict=False):
            assert after[: len(before)] == before
        assert len(digests(team, "/root")) == 1


async def test_a_later_child_begins_with_the_findings_and_the_same_fact_is_not_published_twice(
    tmp_path, autojump_clock
):
    scripts = {
        "/root": [
            calls(spawn("a")), calls(wait("a")), calls(spawn("b")), calls(wait("b")), says("root"),
        ],
        "/root/a": [calls(publish("It leaks.", file="x.py")), says("a")],
        "/root/b": [calls(publish("It  leaks.", file="/x.py")), says("b")],
    }  # fmt: skip
    async with open_team(tmp_path, scripts) as team:
        with trio.fail_after(LIMIT_S):
            await team.begin()
            await team.service.wait_done()
        first = team.asked["/root/b"][0].inputs[0]
        assert sum(FINDINGS_START in str(item) for item in first) == 1
        assert team.outputs("/root/b") == ["known already: #1 of /root/a"]
        assert len(team.bodies(FindingPublished)) == 1


async def test_an_agent_that_dies_is_shown_nothing_twice_and_misses_nothing(
    tmp_path, autojump_clock
):
    scripts = {
        "/root": [calls(spawn("a"), spawn("b")), calls(wait("a", "b")), says("root")],
        "/root/a": [
            calls(publish("One.")), calls(WORK), calls(publish("Two.")), calls(WORK, WORK),
            says("a"),
        ],
        "/root/b": [calls(WORK), calls(WORK), calls(WORK), calls(WORK), says("b")],
    }  # fmt: skip
    async with open_team(tmp_path, scripts) as team:
        with trio.fail_after(LIMIT_S):
            await team.begin()
            await team.until(lambda: len(digests(team, "/root/b")) == 1)
            team.children["/root/b"][0].signal_group(signal.SIGKILL)
            await team.service.wait_done()
        assert len(team.children["/root/b"]) == 2
        read = "".join(digests(team, "/root/b"))
        assert [read.count(fact) for fact in ("One.", "Two.")] == [1, 1]


async def test_a_resume_has_the_findings_and_the_claims_of_before(tmp_path, autojump_clock):
    scripts = {
        "/root": [calls(spawn("a", claims=["src"]), spawn("b")), calls(wait("a", "b"))],
        "/root/a": [calls(publish("It leaks.")), *[calls(WORK)] * 90],
        "/root/b": [calls(WORK), *[calls(WORK)] * 90],
    }
    async with open_team(tmp_path, scripts, prompt="do it") as team:
        with trio.move_on_after(25):
            await team.work()
        past = team.past()
    assert [one.finding.fact for one in team.bodies(FindingPublished)] == ["It leaks."]
    mend = spawn("c", claims=["src/x.py"])
    scripts = {
        "/root": [calls(mend), calls(wait("a", "b")), says("root")],
        "/root/a": [calls(WORK), says("a")],
        "/root/b": [calls(recall()), calls(publish("It leaks.")), says("b")],
    }
    async with open_team(tmp_path, scripts, prompt="do it", resumes=True) as team:
        with trio.fail_after(LIMIT_S):
            assert (await team.work(past)).status == "completed"
        said = " ".join(team.outputs("/root"))
        assert "it would write src/x.py, and /root/a" in said
        assert json.loads(team.outputs("/root/b")[-2])["findings"][0]["fact"] == "It leaks."
        assert team.outputs("/root/b")[-1] == "known already: #1 of /root/a"
        assert len(digests(team, "/root/b")) == 1


async def test_the_same_task_is_said_back_and_the_same_call_again_starts_it(
    tmp_path, autojump_clock
):
    task = "find where the memory leaks"
    first, second = spawn("a", message=task), spawn("b", message=f"  {task.title()}!")
    scripts = {
        "/root": [calls(first, second), calls(second), calls(wait("a", "b")), says("root")],
        "/root/a": [calls(WORK), says("a")],
        "/root/b": [says("b")],
    }
    async with open_team(tmp_path, scripts) as team:
        with trio.fail_after(LIMIT_S):
            await team.begin()
            await team.service.wait_done()
        outputs = team.outputs("/root")
        assert "not started: /root/a" in outputs[1]
        assert "same call again" in outputs[1]
        assert json.loads(outputs[2])["task_name"] == "/root/b"
        assert len(team.children["/root/b"]) == 1


async def test_claims_that_meet_are_said_back_and_those_of_who_has_finished_are_free(
    tmp_path, autojump_clock
):
    scripts = {
        "/root": [
            calls(spawn("a", claims=["src/lex"]), spawn("b", claims=["src/lex/x.py"])),
            calls(("list_agents", {})),
            calls(wait("a")),
            calls(spawn("c", claims=["src/lex/x.py"])),
            calls(wait("c")),
            says("root"),
        ],
        "/root/a": [calls(WORK), says("a")],
        "/root/c": [says("c")],
    }
    async with open_team(tmp_path, scripts) as team:
        with trio.fail_after(LIMIT_S):
            await team.begin()
            await team.service.wait_done()
        outputs = team.outputs("/root")
        assert "it would write src/lex/x.py, and /root/a" in outputs[1]
        listed = {one["agent_name"]: one for one in json.loads(outputs[2])["agents"]}
        assert listed["/root/a"]["claims"] == ["/src/lex"]
        assert "claims" not in listed["/root"]
        assert "/root/b" not in team.children
        claims = {one.path: one.claims for one in team.bodies(AgentSpawned)}
        assert claims == {"/root": (), "/root/a": ("/src/lex",), "/root/c": ("/src/lex/x.py",)}
        told = [text_of(item.content) for item in team.asked["/root/a"][0].inputs[0]]
        assert "Yours to write: `/src/lex`." in "\n".join(told)
