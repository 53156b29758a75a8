"""Whole runs whose MCP server asks the person something during a call."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import trio

from support.mcp_testbed import LIMIT_S, call, ends
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.events import CallEnded, Warned
from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
PROGRAM = str(Path(__file__).parents[1] / "support" / "mcp_asking_program.py")
PAGE = {
    "mode": "url",
    "message": "Sign in \x1b[31mnow",
    "elicitationId": "e1",
    "url": "https://example.org/a?b=c",
}


def configure(rig, more=""):
    marks = rig.folder / "marks"
    marks.mkdir(exist_ok=True)
    (rig.home / "config.toml").write_text(
        f'[mcp_servers.asks]\ncommand = "{sys.executable}"\nargs = ["{PROGRAM}"]\n'
        f'env = {{ MARKS = "{marks}/asks" }}\nwritable_roots = ["{marks}"]\n{more}\n'
    )


async def start(rig, *calls, words=("--reviewer", "person"), more=""):
    configure(rig, more)
    return await rig.run(rig.script(*ends(*calls)), *words, sandbox="workspace-write")


def ask(tool="ask", **arguments):
    return call(tool, server="asks", **arguments)


def told(output):
    """What the server was answered: the JSON in the text of the result."""
    parts = json.loads(output.split("Output:\n", 1)[1])
    return json.loads(parts[0]["text"])


async def answer(rig, number, verb, *words):
    asked = await rig.wait(lambda: rig.bodies(ApprovalRequested)[number - 1 : number])
    return await (await rig.start(verb, rig.run_id, asked[0].approval_id, *words)).wait_end()


async def test_a_form_is_asked_checked_and_answered_with_its_defaults(rig):
    with trio.fail_after(LIMIT_S):
        run = await start(rig, ask(), more="tool_timeout_sec = 1.0")
        await rig.wait(lambda: rig.bodies(ApprovalRequested))
        listed = await (await rig.start("approvals", rig.run_id)).wait_end()
        wrong = await answer(rig, 1, "approve", "--answer", "name=A", "--answer", "colour=red")
        none = await answer(rig, 1, "approve", "--answer", "name=Ada")
        await trio.sleep(1.2)  # longer than the call's own limit, which rests meanwhile
        right = await answer(rig, 1, "approve", "--answer", "name=Ada", "--answer", "colour=red")
        ended = await run.wait_end()
        await rig.wait_gone()
    assert ended.code == 0, ended.err
    assert "Who are you?" in listed.out
    assert "age: (a whole number; at least 18; default: 30)" in listed.out
    assert (wrong.code, none.code, right.code) == (2, 2, 0)
    assert "shorter than 2 characters" in wrong.err
    assert "colour has no answer" in none.err
    (output,) = rig.outputs()
    content = {"name": "Ada", "age": 30, "colour": "red"}
    assert told(output) == {"action": "accept", "content": content}
    assert "Ada" not in str(rig.bodies(ApprovalResolved))


async def test_a_person_may_decline_or_dismiss(rig):
    with trio.fail_after(LIMIT_S):
        run = await start(rig, ask(), ask(), ask(params=PAGE))
        await answer(rig, 1, "deny")
        await answer(rig, 2, "deny", "--abort")
        await answer(rig, 3, "approve")
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert [told(one)["action"] for one in rig.outputs()] == ["decline", "cancel", "accept"]
    page = rig.bodies(ApprovalRequested)[2].request.action
    assert isinstance(page, ElicitationAction)
    assert (page.url, page.host, page.message) == (PAGE["url"], "example.org", "Sign in [31mnow")
    assert "\x1b" not in ended.err


@pytest.mark.parametrize(
    ("words", "more", "why"),
    [
        (("--reviewer", "nobody"), "", "nobody can be asked"),
        (("--approval", "never"), "", "Never"),
        (("--reviewer", "guardian"), "", "only a person"),
        (
            ("--reviewer", "person"),
            "[approval_policy.granular]\nmcp_elicitations = false\nsandbox_approval = true\n"
            "rules = true",
            "mcp_elicitations",
        ),
    ],
)
async def test_where_nobody_can_answer_it_is_declined_at_once_with_a_reason(rig, words, more, why):
    with trio.fail_after(LIMIT_S):
        ended = await (await start(rig, ask(), words=words, more=more)).wait_end()
    assert ended.code == 0, ended.err
    assert told(rig.outputs()[0])["action"] == "decline"
    assert any("declined" in one.message and why in one.message for one in rig.bodies(Warned))
    assert rig.bodies(ApprovalRequested) == []


async def test_a_server_that_asks_in_a_loop_or_too_much_is_refused(rig):
    pages = [{**PAGE, "url": one} for one in (
        "javascript:alert(1)", "file:///etc/passwd", "https://bank.org@evil.org/", "http://x.org",
        "https://b\u0430nk.org/", "https:///x",
    )]  # fmt: skip
    calls = [ask("ask_often", times=40), ask(fields=10_000), *(ask(params=one) for one in pages)]
    with trio.fail_after(LIMIT_S):
        run = await start(rig, *calls, words=("--reviewer", "nobody"))
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    often, huge, *wrong = map(told, rig.outputs())
    assert often == {"decline": 12, "refused": 28}
    assert "at most 30" in huge["message"]
    assert len(wrong) == 6
    assert all("URL" in one["message"] for one in wrong), wrong


async def test_an_open_question_ends_with_its_server_and_with_its_turn(rig):
    with trio.fail_after(LIMIT_S):
        run = await start(rig, ask(), ask())
        await rig.wait(lambda: rig.bodies(ApprovalRequested))
        (server,) = [pid for pid, title in rig.alive().items() if "python" in title.split()[0]
                     and PROGRAM in title and "bwrap" not in title.split()[0]]  # fmt: skip
        os.kill(server, signal.SIGKILL)
        await rig.wait(lambda: rig.bodies(ApprovalResolved))
        late = await answer(rig, 1, "approve", "--answer", "name=Ada", "--answer", "colour=red")
        await rig.wait(lambda: len(rig.bodies(ApprovalRequested)) == 2)
        os.kill(run.pid, signal.SIGINT)
        await rig.wait(lambda: len(rig.bodies(ApprovalResolved)) == 2)
        os.kill(run.pid, signal.SIGINT)
        await run.wait_end()
        await rig.wait_gone()
    assert late.code != 0
    assert "is over: aborted" in late.err
    assert "may or may not have had its effect" in rig.outputs()[0]
    assert [one.outcome for one in rig.bodies(ApprovalResolved)] == ["aborted", "aborted"]
    assert [one.status for one in rig.bodies(CallEnded)] == ["failed", "interrupted"]


async def test_a_call_that_needs_a_page_first_asks_for_it_and_is_not_repeated(rig):
    with trio.fail_after(LIMIT_S):
        run = await start(rig, ask("page_first"), ask("done", id="e1"))
        await answer(rig, 1, "approve")
        ended = await run.wait_end()
        logged = (rig.places.mcp_logs / "asks.log").read_text()
    assert ended.code == 0, ended.err
    assert "call the tool again when it is done" in rig.outputs()[0]
    assert "on a web page is done" in logged
    calls = (rig.folder / "marks" / "asks").read_text()
    assert '"elicitation": {"form": {}, "url": {}}' in calls
