"""Whole runs whose MCP server asks the model of the agent that calls it."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import trio

from support.mcp_testbed import LIMIT_S, call, ends
from swarm.mailbox.protocol.events import CallEnded
from swarm.mailbox.protocol.gateway import ResponseBilled
from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved, Reserved
from swarm.mailbox.protocol.server_sampling import SamplingAction

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
PROGRAM = str(Path(__file__).parents[1] / "support" / "mcp_asking_program.py")
USAGE = {"input_tokens": 70, "output_tokens": 5}


def question(text="What is it?", **more):
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"messages": [message], "maxTokens": 100, "systemPrompt": "Be short.", **more}


def configure(rig, sampling):
    marks = rig.folder / "marks"
    marks.mkdir(exist_ok=True)
    (rig.home / "config.toml").write_text(
        f'[mcp_servers.asks]\ncommand = "{sys.executable}"\nargs = ["{PROGRAM}"]\n{sampling}\n'
        f'env = {{ MARKS = "{marks}/asks" }}\nwritable_roots = ["{marks}"]\n'
    )


def sample(**arguments):
    return call("sample", server="asks", **arguments)


def answers(output):
    """What the server was answered: the JSON in the text of the result."""
    return json.loads(json.loads(output.split("Output:\n", 1)[1])[0]["text"])


async def start(rig, *turns, sampling='sampling = "prompt"', words=("--reviewer", "person")):
    configure(rig, sampling)
    return await rig.run(rig.script(*turns), *words, sandbox="workspace-write")


async def test_a_server_asks_the_agents_model_after_an_approval_and_the_agent_pays(rig):
    first, last = ends(sample(params=question(), times=2))
    turns = [
        first,
        {"text": "You said: {last_user}", "usage": USAGE, "repeat": 2},
        last,
    ]
    with trio.fail_after(LIMIT_S):
        run = await start(rig, *turns)
        (asked,) = await rig.wait(lambda: rig.bodies(ApprovalRequested))
        listed = await (await rig.start("approvals", rig.run_id)).wait_end()
        words = ("approve", rig.run_id, asked.approval_id, "--session")
        assert (await (await rig.start(*words)).wait_end()).code == 0
        ended = await run.wait_end()
        logged = (rig.places.mcp_logs / "asks.log").read_text()
        await rig.wait_gone()
    assert ended.code == 0, ended.err
    action = asked.request.action
    assert isinstance(action, SamplingAction)
    assert (action.system, action.max_tokens, action.tool) == ("Be short.", 100, "sample")
    assert "asks the model: What is it?" in listed.out
    assert "| Be short." in listed.out
    answer = {"role": "assistant", "content": {"type": "text", "text": "You said: What is it?"}}
    (output,) = rig.outputs()
    for one in answers(output):
        assert {key: one[key] for key in answer} == answer
        assert one["stopReason"] == "endTurn"
    assert len(rig.bodies(ApprovalRequested)) == 1  # the session's approval covers the second
    billed = [one.usage for one in rig.bodies(ResponseBilled)]
    assert [one.input_tokens for one in billed if one.input_tokens] == [70, 70]
    assert logged.count("[sampling] 11 characters asked during sample") == 2


@pytest.mark.parametrize(
    ("sampling", "words", "says"),
    [
        ("", ("--reviewer", "person"), "not supported"),
        ('sampling = "prompt"', ("--reviewer", "nobody"), "nobody can be asked"),
        ('sampling = "prompt"', ("--approval", "never"), "Never"),
    ],
)
async def test_a_server_that_may_not_or_that_nobody_approves_gets_no_answer(
    rig, sampling, words, says
):
    turns = ends(sample(params=question()))
    with trio.fail_after(LIMIT_S):
        ended = await (await start(rig, *turns, sampling=sampling, words=words)).wait_end()
    assert ended.code == 0, ended.err
    (refused,) = answers(rig.outputs()[0])
    assert says.lower() in refused["message"].lower()
    assert rig.bodies(ApprovalRequested) == []


async def test_a_server_that_asks_in_a_loop_or_too_much_is_bounded(rig):
    wild = question("\x1b[31m" + "x" * 70_000)
    image = question()
    image["messages"][0]["content"] = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    first, second, third, last = ends(
        sample(params=question("Again?"), times=30), sample(params=wild), sample(params=image)
    )
    turns = [first, {"text": "no", "repeat": 12}, second, third, last]
    with trio.fail_after(LIMIT_S):
        run = await start(rig, *turns, sampling='sampling = "approve"', words=("-a", "never"))
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    often, huge, picture = map(answers, rig.outputs())
    assert [one["content"]["text"] for one in often[:12]] == ["no"] * 12
    assert all("too often" in one["message"] for one in often[12:])
    assert "characters together" in huge[0]["message"]
    assert "only texts" in picture[0]["message"]


async def test_a_long_answer_ends_where_the_server_wants_it(rig):
    first, _ = ends(sample(params=question()))
    long = {"text": "y" * 2_400, "chunk_chars": 200, "repeat": "forever"}
    with trio.fail_after(LIMIT_S):
        run = await start(rig, first, long, sampling='sampling = "approve"')
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    (answer,) = answers(rig.outputs()[0])
    assert answer["content"]["text"] == "y" * 400  # four characters for each token
    assert answer["stopReason"] == "maxTokens"


async def test_an_interrupted_turn_ends_the_question_to_the_model(rig):
    first, last = ends(sample(params=question()))
    turns = [first, {"text": "late", "delay_s": 600}, last]
    with trio.fail_after(LIMIT_S):
        words = ("--reviewer", "person", "--budget-tokens", "900000")
        run = await start(rig, *turns, sampling='sampling = "approve"', words=words)
        await rig.wait(lambda: len(rig.bodies(Reserved)) == 2)
        os.kill(run.pid, signal.SIGINT)
        await rig.wait(lambda: rig.bodies(CallEnded))
        os.kill(run.pid, signal.SIGINT)
        await run.wait_end()
        await rig.wait_gone()
    assert [one.status for one in rig.bodies(CallEnded)] == ["interrupted"]
    assert rig.bodies(ApprovalResolved) == []
