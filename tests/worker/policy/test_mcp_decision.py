"""When a call of an MCP tool runs, is asked about, or is refused."""

import pytest

from swarm.mailbox.protocol.mcp import McpAnnotations, McpTool
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Granular, Limits
from swarm.worker.policy.command_decision import Ask, Refuse, Run
from swarm.worker.policy.mcp_decision import decide_mcp_call, needs_approval, session_keys


def said(read=None, destructive=None, open_world=None):
    return McpAnnotations(read_only=read, destructive=destructive, open_world=open_world)


def tool(approval="auto", annotations=None, digest="d"):
    return McpTool(
        server="s", tool="t", name="mcp__s__t", approval=approval, digest=digest,
        annotations=annotations or McpAnnotations(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("annotations", "asks"),
    [
        (said(), True),
        (said(read=True), False),
        (said(read=True, open_world=True), False),
        (said(read=True, destructive=True), True),
        (said(read=False), True),
        (said(destructive=False), True),  # it may reach out
        (said(destructive=False, open_world=True), True),
        (said(destructive=False, open_world=False), False),
        (said(open_world=False), True),  # it may destroy
    ],
)
def test_what_a_server_does_not_say_counts_as_the_worse(annotations, asks):
    assert needs_approval(annotations) is asks


READS = said(read=True)
ASKS = Limits(approval="on-request", reviewer="person")


@pytest.mark.parametrize(
    ("one", "limits", "kind"),
    [
        (tool(), ASKS, Ask),
        (tool(annotations=READS), ASKS, Run),
        (tool("approve"), ASKS, Run),
        (tool("prompt", READS), ASKS, Ask),
        (tool(), Limits(approval="never"), Refuse),
        (tool("prompt", READS), Limits(approval="never"), Refuse),
        (tool("approve"), Limits(approval="never"), Run),
        (tool(), Limits(approval="never", sandbox=DangerFullAccess()), Run),
        (tool(), Limits(granular=Granular(mcp_elicitations=False)), Refuse),
        (tool(annotations=READS), Limits(granular=Granular(mcp_elicitations=False)), Run),
        (tool("approve"), Limits(planning=True), Refuse),
        (tool(annotations=READS), Limits(planning=True), Run),
    ],
)
def test_the_mode_then_the_annotations_then_the_policy_decide(one, limits, kind):
    assert isinstance(decide_mcp_call(one, limits), kind)


def test_an_approval_for_longer_than_once_covers_one_tool_as_it_is_described_now():
    assert session_keys(tool()) == session_keys(tool())
    assert session_keys(tool()) != session_keys(tool(digest="changed"))
    assert session_keys(tool("prompt")) == ()
