"""A real server that was added by the command line serves eight explorers as one process."""

import shutil

import pytest
import trio

from support.mcp_testbed import BESIDE, LIMIT_S, call, ends
from swarm.mailbox.protocol.events import CallEnded

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
AGENTS = [f"child{number}" for number in range(8)]
SERVER = "mcp-server-time"


async def test_a_server_that_was_added_is_one_process_for_eight_explorers(rig):
    spawns = [
        {"name": "spawn_agent",
         "arguments": {"task_name": name, "message": "go", "agent_type": "explorer"}}
        for name in AGENTS
    ]  # fmt: skip
    wait = {"name": "wait_agent", "arguments": {"targets": AGENTS, "for": "all"}}
    script = rig.script(
        {"agent": "/root", "calls": spawns},
        {"agent": "/root", "calls": [wait]},
        {"agent": "/root", "text": "done"},
        *ends(call("get_current_time", server="time", timezone="Asia/Tokyo"), agent="/root/*"),
    )
    servers: set[int] = set()

    async def look(task_status=trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        while True:
            for pid, title in rig.alive().items():
                if "python" in title.partition(" ")[0] and SERVER in title:
                    servers.add(pid)
            await trio.sleep(0.05)

    with trio.fail_after(2 * LIMIT_S):
        added = await rig.start("mcp", "add", "time", "--", str(BESIDE / SERVER))
        assert (await added.wait_end()).code == 0
        async with trio.open_nursery() as nursery:
            await nursery.start(look)
            words = ("--max-agents", "9", "--reviewer", "nobody")
            ended = await (await rig.run(script, *words, sandbox="workspace-write")).wait_end()
            nursery.cancel_scope.cancel()
        log = await (await rig.start("log", rig.run_id)).wait_end()
        await rig.wait_gone()
    assert ended.code == 0, ended.err
    assert len(servers) == 1
    for name in AGENTS:
        (done,) = rig.bodies(CallEnded, agent=f"/root/{name}")
        assert (done.tool, done.status) == ("mcp__time__get_current_time", "completed")
        assert "Asia/Tokyo" in rig.outputs(f"/root/{name}")[0]
        shown = [line for line in ended.err.splitlines() if f"/root/{name} " in line]
        assert any("time.get_current_time" in line for line in shown)
    assert log.out.count("time.get_current_time") >= len(AGENTS)
