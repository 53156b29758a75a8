"""Whole runs whose agents call tools of MCP servers: who may, who is asked, what it may touch."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import trio

from support.mcp_testbed import BESIDE, LIMIT_S, PROGRAM, call, configure, ends, marks, run
from support.proxy_testbed import serving
from swarm.mailbox.protocol.events import CallBegan, CallEnded, McpCall, Warned
from swarm.mailbox.protocol.records import ApprovalRequested

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]


async def test_a_tool_of_a_real_server_is_called_journaled_and_shown(rig):
    (rig.home / "config.toml").write_text(
        f'[mcp_servers.time]\ncommand = "{BESIDE / "mcp-server-time"}"\n'
    )
    turns = ends(call("get_current_time", server="time", timezone="Asia/Tokyo"))
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *turns)
        assert rig.alive() == {}
    assert ended.code == 0, ended.err
    assert '"timezone":"Asia/Tokyo"' in ended.out
    (began,) = rig.bodies(CallBegan)
    assert began.detail == McpCall(
        server="time", tool="get_current_time", arguments='{"timezone":"Asia/Tokyo"}'
    )
    (done,) = rig.bodies(CallEnded)
    assert done.status == "completed"
    assert "time.get_current_time" in ended.err


async def test_a_git_server_reads_the_repository_from_its_sandbox(rig):
    async def git(*words):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        await trio.run_process(["git", *identity, "-C", str(rig.work), *words], capture_stdout=True)

    (rig.home / "config.toml").write_text(
        f'[mcp_servers.git]\ncommand = "{BESIDE / "mcp-server-git"}"\n'
        'default_tools_approval_mode = "approve"\n'
    )
    with trio.fail_after(LIMIT_S):
        await git("init", "-q")
        await git("commit", "-q", "--allow-empty", "-m", "the first one")
        where = str(rig.work)
        ended = await run(
            rig,
            *ends(
                call("git_log", server="git", repo_path=where),
                call("git_create_branch", server="git", repo_path=where, branch_name="other"),
            ),
        )
    assert ended.code == 0, ended.err
    log, branch = rig.outputs()
    assert "the first one" in log
    assert "could not be obtained" in branch
    assert not (rig.work / ".git" / "refs" / "heads" / "other").exists()


async def test_eight_explorers_share_one_process_of_a_server_which_ends_with_the_run(rig):
    configure(rig)
    children = [f"child{number}" for number in range(8)]
    spawn = {"message": "go", "agent_type": "explorer"}
    spawns = [
        {"name": "spawn_agent", "arguments": {"task_name": name, **spawn}} for name in children
    ]
    wait = {"name": "wait_agent", "arguments": {"targets": children, "for": "all"}}
    turns = [
        {"agent": "/root", "calls": spawns},
        {"agent": "/root", "calls": [wait]},
        {"agent": "/root", "text": "done"},
        *ends(*(call("echo", text=f"{number}") for number in range(5)), agent="/root/*"),
    ]
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *turns, words=("--max-agents", "9"))
        assert rig.alive() == {}
    assert ended.code == 0, ended.err
    lines = marks(rig)
    assert len([line for line in lines if line.startswith("start")]) == 1
    assert len([line for line in lines if line.startswith("call echo")]) == 40
    for name in children:
        answers = rig.outputs(f"/root/{name}")
        assert [f"echo: {number}" in text for number, text in enumerate(answers)] == [True] * 5


async def test_a_server_of_its_own_is_started_for_each_agent(rig):
    configure(rig, more="per_agent = true")
    spawn = {"name": "spawn_agent", "arguments": {"task_name": "child", "message": "go"}}
    wait = {"name": "wait_agent", "arguments": {"targets": ["child"]}}
    turns = [
        {"agent": "/root", "calls": [call("echo", text="a")]},
        {"agent": "/root", "calls": [spawn]},
        {"agent": "/root", "calls": [wait]},
        {"agent": "/root", "text": "done"},
        *ends(call("echo", text="b"), agent="/root/child"),
    ]
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *turns)
    assert ended.code == 0, ended.err
    assert len([line for line in marks(rig) if line.startswith("start")]) == 2


async def test_a_server_has_only_what_its_table_grants(rig):
    secret = "sentinel-5d1e8a90-token"
    rig.environment |= {"PASSED": "given", "UNNAMED": "hidden", "TOKEN": secret}
    configure(rig, more='env_vars = ["PASSED", "TOKEN"]')
    outside = Path(__file__).parent / "made-by-a-server"
    inside = rig.folder / "marks" / "made"
    with trio.fail_after(LIMIT_S), serving() as server:
        port = server.server_address[1]
        ended = await run(
            rig,
            *ends(
                call("environment"),
                call("write", path=str(outside)),
                call("write", path=str(inside)),
                call("write", path=str(rig.work / "x")),
                call("connect", port=port),
            ),
        )
    seen, *acts = rig.outputs()
    assert ended.code == 0, ended.err
    assert "PASSED" in seen
    assert "UNNAMED" not in seen
    assert secret not in seen  # it is redacted
    assert ["done" in act for act in acts] == [False, True, False, False]
    assert not outside.exists()
    assert inside.exists()
    assert secret not in json.dumps([str(record) for record in rig.records()])


async def test_a_server_reaches_the_network_if_its_table_says_so(rig):
    configure(rig, more="network = true")
    with trio.fail_after(LIMIT_S), serving() as server:
        port = server.server_address[1]
        ended = await run(rig, *ends(call("connect", port=port)))
    assert ended.code == 0, ended.err
    assert "done" in rig.outputs()[0]


async def test_a_tool_that_may_change_something_is_refused_where_nobody_can_be_asked(rig):
    configure(rig)
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *ends(call("changes", text="a")))
    assert ended.code == 0, ended.err
    assert "needs approval" in rig.outputs()[0]
    assert [line for line in marks(rig) if line.startswith("call")] == []


async def test_a_child_asks_the_same_queue_and_an_approval_for_the_session_lasts(rig):
    configure(rig)
    spawn = {"name": "spawn_agent", "arguments": {"task_name": "child", "message": "go"}}
    wait = {"name": "wait_agent", "arguments": {"targets": ["child"]}}
    turns = [
        {"agent": "/root", "calls": [spawn]},
        {"agent": "/root", "calls": [wait]},
        {"agent": "/root", "text": "done"},
        *ends(call("changes", text="a"), call("changes", text="b"), agent="/root/child"),
    ]
    with trio.fail_after(LIMIT_S):
        started = await rig.run(
            rig.script(*turns), "--reviewer", "person", sandbox="workspace-write"
        )
        (asked,) = await rig.wait(lambda: rig.bodies(ApprovalRequested))
        approving = await rig.start("approve", rig.run_id, asked.approval_id, "--session")
        approved = await approving.wait_end()
        assert approved.code == 0, approved.err
        ended = await started.wait_end()
    assert ended.code == 0, ended.err
    assert len(rig.bodies(ApprovalRequested)) == 1
    assert len([line for line in marks(rig) if line.startswith("call changes")]) == 2
    action = asked.request.action
    assert (action.server, action.tool, action.arguments) == ("odd", "changes", '{"text":"a"}')


async def test_a_role_uses_only_the_servers_and_tools_that_it_names(rig):
    configure(rig)
    configure(rig, name="other")
    roles = rig.home / "agents"
    roles.mkdir()
    (roles / "narrow.toml").write_text(
        "name = 'narrow'\ndescription = 'd'\ndeveloper_instructions = 'Do it.'\n"
        "mcp_servers = ['odd']\nenabled_tools = { odd = ['echo'] }\n"
    )
    calls = (call("echo", text="a"), call("image"), call("echo", server="other", text="b"))
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *ends(*calls), words=("--role", "narrow"))
    assert ended.code == 0, ended.err
    allowed, *refused = rig.outputs()
    assert "echo: a" in allowed
    assert ["unsupported call" in text for text in refused] == [True, True]
    assert marks(rig, "other") == []


async def test_a_projects_servers_start_only_after_exactly_their_file_was_trusted(rig):
    marks_folder = rig.folder / "marks"
    marks_folder.mkdir()
    (rig.work / ".git").mkdir()
    file = {"mcpServers": {"odd": {"command": "${PYTHON}", "args": [PROGRAM, "${NONE:-calm}"]}}}
    (rig.work / ".mcp.json").write_text(json.dumps(file))
    rig.environment["PYTHON"] = sys.executable
    turns = ends(call("echo", text="a"))
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *turns)
        assert "not trusted" in ended.err
        assert "unsupported call" in rig.outputs()[0]
        trusting = await rig.start("trust", "--yes", str(rig.work))
        trusted = await trusting.wait_end()
        assert trusted.code == 0, trusted.err
        rig.forget_run()
        ended = await run(rig, *turns)
        assert "echo: a" in rig.outputs()[0], ended.err
        (rig.work / ".mcp.json").write_text(json.dumps(file) + " ")
        rig.forget_run()
        ended = await run(rig, *turns)
    assert "not trusted" in ended.err
    assert "unsupported call" in rig.outputs()[0]


async def test_tools_that_are_too_many_are_searched_and_called_by_name(rig):
    configure(rig, "many")
    name = "mcp__odd__tool_117"
    calls = (
        {"name": "tool_search", "arguments": {"query": "117", "limit": 2}},
        {"name": "call_mcp_tool", "arguments": {"name": name, "arguments": {"a": 1}}},
        {"name": name, "arguments": {"a": 2}},
        {"name": "call_mcp_tool", "arguments": {"name": "mcp__odd__absent"}},
    )
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *ends(*calls))
    assert ended.code == 0, ended.err
    found, called, direct, absent = rig.outputs()
    (line,) = (json.loads(line) for line in found.splitlines())
    assert line["name"] == name
    assert line["description"].startswith("word")
    assert "called tool_117" in called
    assert "called tool_117" in direct
    assert "use tool_search first" in absent
    detail = McpCall(server="odd", tool="tool_117", arguments='{"a":1}')
    assert [one.detail for one in rig.bodies(CallBegan)][1] == detail
    assert [line for line in marks(rig) if line.startswith("call")] == [
        'call tool_117 {"a": 1}', 'call tool_117 {"a": 2}'
    ]  # fmt: skip


async def test_a_deferred_tool_is_asked_about_as_any_other(rig):
    configure(rig, "many", "unhinted")
    arguments = {"name": "mcp__odd__tool_003", "arguments": {}}
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *ends({"name": "call_mcp_tool", "arguments": arguments}))
    assert ended.code == 0, ended.err
    assert "the MCP tool tool_003 of odd needs approval" in rig.outputs()[0]
    assert not [line for line in marks(rig) if line.startswith("call")]


async def test_a_server_is_told_the_folder_of_the_run(rig):
    configure(rig)
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *ends(call("roots")))
    assert ended.code == 0, ended.err
    assert rig.work.as_uri() in rig.outputs()[0]


async def test_a_changed_list_of_tools_counts_for_agents_that_start_later(rig):
    configure(rig)
    spawn = {"name": "spawn_agent", "arguments": {"task_name": "child", "message": "go"}}
    wait = {"name": "wait_agent", "arguments": {"targets": ["child"]}}
    turns = [
        {"agent": "/root", "calls": [call("grow")]},
        {"agent": "/root", "calls": [call("grown")]},
        {"agent": "/root", "calls": [spawn]},
        {"agent": "/root", "calls": [wait]},
        {"agent": "/root", "text": "done"},
        *ends(call("grown"), agent="/root/child"),
    ]
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *turns)
    assert ended.code == 0, ended.err
    assert "unsupported call" in rig.outputs()[1]  # its list stays as it was, in this turn
    assert "called grown" in rig.outputs("/root/child")[0]


async def test_a_changed_list_of_tools_is_offered_from_the_next_turn_on_and_said(rig):
    configure(rig, more='enabled_tools = ["echo", "grow", "grown"]')
    spawn = {"name": "spawn_agent", "arguments": {"task_name": "child", "message": "go"}}
    wait = {"name": "wait_agent", "arguments": {"targets": ["child"]}}
    again = {"name": "followup_task", "arguments": {"target": "child", "message": "again"}}
    turns = [
        *({"agent": "/root", "calls": [one]} for one in (spawn, wait, again, wait)),
        {"agent": "/root", "text": "done"},
        {"agent": "/root/child", "calls": [call("grow")]},
        {"agent": "/root/child", "text": "grown"},
        *ends(call("grown"), agent="/root/child"),
    ]
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *turns)
    assert ended.code == 0, ended.err
    assert "called grown" in rig.outputs("/root/child")[1]
    (told,) = [one.message for one in rig.bodies(Warned) if "mcp__odd__grown" in one.message]
    assert told.startswith("tools of MCP server `odd`: mcp__odd__grown (new). What the provider")
