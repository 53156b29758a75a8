"""Whole runs in which a person allows an MCP tool for always, and the server changes afterwards."""

import shutil
import tomllib

import pytest
import trio

from support.mcp_testbed import LIMIT_S, OFFERS, call, configure, ends, marks, run
from swarm.mailbox.protocol.approvals import McpToolAction
from swarm.mailbox.protocol.records import ApprovalRequested

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]


async def ask_and_answer(rig, *words):
    """A run that asks once about `act`; how the answer ended, what was asked, how the run ended."""
    started = await rig.run(
        rig.script(*ends(call("act"), call("act"))), "--reviewer", "person",
        sandbox="workspace-write",
    )  # fmt: skip
    (asked,) = await rig.wait(lambda: rig.bodies(ApprovalRequested))
    answering = await rig.start("approve", rig.run_id, asked.approval_id, *words)
    answered = await answering.wait_end()
    if answered.code:
        other = await rig.start("approve", rig.run_id, asked.approval_id, "--session")
        await other.wait_end()
    assert isinstance(asked.request.action, McpToolAction)
    return answered, asked.request.action, await started.wait_end()


async def test_always_saves_the_tool_as_it_is_described_and_asks_again_when_that_changes(rig):
    configure(rig, program=OFFERS)
    path = rig.home / "config.toml"
    path.write_text(f"# mine\n{path.read_text()}")
    with trio.fail_after(LIMIT_S):
        answered, action, ended = await ask_and_answer(rig, "--always")
        assert answered.code == 0, answered.err
        assert 'mcp_servers.odd.tools.act.approval_mode = "approve"' in answered.out + answered.err
        assert ended.code == 0, ended.err
        assert len(rig.bodies(ApprovalRequested)) == 1  # the second call was covered
        text = path.read_text()
        assert text.startswith("# mine\n")
        saved = tomllib.loads(text)["mcp_servers"]["odd"]["tools"]["act"]
        assert saved == {"approval_mode": "approve", "approved_as": action.digest}
        rig.forget_run()
        ended = await run(rig, *ends(call("act")))  # nobody can be asked
        assert "called act" in rig.outputs()[0], ended.err
        rig.forget_run()
        path.write_text(path.read_text().replace("mcp_offers_program.py", "OFFERS", 1))
        path.write_text(path.read_text().replace('OFFERS"', 'mcp_offers_program.py", "changed"', 1))
        _, action, ended = await ask_and_answer(rig, "--session")
    assert ended.code == 0, ended.err
    assert action.changed == (
        "you allowed this tool for always, and its server describes it differently now",
    )
    assert action.description == "Does it, and tells others of it."


async def test_always_is_refused_for_a_projects_server_and_the_question_stays_open(rig):
    (rig.work / ".git").mkdir()
    configure(rig, program=OFFERS)
    project = rig.work / ".swarm" / "config.toml"
    project.parent.mkdir()
    (rig.home / "config.toml").rename(project)
    before = project.read_bytes()
    with trio.fail_after(LIMIT_S):
        trusting = await rig.start("trust", "--yes", str(rig.work))
        await trusting.wait_end()
        answered, action, ended = await ask_and_answer(rig, "--always")
    assert answered.code != 0
    assert "not configured in your own file" in answered.err
    assert action.always == ""
    assert ended.code == 0, ended.err
    assert project.read_bytes() == before
    assert not (rig.home / "config.toml").exists()
    assert [line for line in marks(rig) if line.startswith("call")] == ["call act", "call act"]
