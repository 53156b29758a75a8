"""Whole runs whose agents call tools of real MCP servers, some of which misbehave."""

import json
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from support.proxy_testbed import serving
from swarm.mailbox.protocol.events import CallBegan, CallEnded, McpCall, Warned
from swarm.mailbox.protocol.records import ApprovalRequested

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
LIMIT_S = 60
PROGRAM = str(Path(__file__).parents[1] / "support" / "mcp_server_program.py")
BESIDE = Path(sys.executable).parent


def configure(rig, *words, name="odd", more=""):
    """Configure the program as a server; it may write its marks."""
    marks = rig.folder / "marks"
    marks.mkdir(exist_ok=True)
    arguments = json.dumps([PROGRAM, *words])
    with (rig.home / "config.toml").open("a") as file:
        file.write(
            f'[mcp_servers.{name}]\ncommand = "{sys.executable}"\nargs = {arguments}\n'
            f'env = {{ MARKS = "{marks}/{name}" }}\nwritable_roots = ["{marks}"]\n{more}\n'
        )


def marks(rig, name="odd"):
    path = rig.folder / "marks" / name
    return path.read_text().splitlines() if path.exists() else []


def call(tool, server="odd", **arguments):
    return {"name": f"mcp__{server}__{tool}", "arguments": arguments}


def ends(*calls, agent="/root"):
    return [{"agent": agent, "calls": [one]} for one in calls] + [
        {"agent": agent, "text": "{last_output}"}
    ]


async def run(rig, *turns, words=()):
    given = ("--reviewer", "nobody", *words)
    started = await rig.run(rig.script(*turns), *given, sandbox="workspace-write")
    return await started.wait_end()


def servers_alive(rig):
    return [title for title in rig.alive().values() if "mcp_server_program" in title]


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


async def test_all_agents_share_one_process_of_a_server_which_ends_with_the_run(rig):
    configure(rig)
    children = [f"child{number}" for number in range(4)]
    spawns = [
        {"name": "spawn_agent", "arguments": {"task_name": name, "message": "go"}}
        for name in children
    ]
    wait = {"name": "wait_agent", "arguments": {"targets": children, "for": "all"}}
    turns = [
        {"agent": "/root", "calls": spawns},
        {"agent": "/root", "calls": [wait]},
        {"agent": "/root", "text": "done"},
        *ends(*(call("echo", text=f"{number}") for number in range(5)), agent="/root/*"),
    ]
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *turns)
        assert rig.alive() == {}
    assert ended.code == 0, ended.err
    lines = marks(rig)
    assert len([line for line in lines if line.startswith("start")]) == 1
    assert len([line for line in lines if line.startswith("call echo")]) == 20
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


async def test_a_call_whose_server_dies_is_interrupted_and_never_repeated_unless_it_may_be(rig):
    configure(rig)
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *ends(call("die"), call("echo", text="on"), call("die_idempotent")))
    died, after, repeated = rig.outputs()
    assert ended.code == 0, ended.err
    assert "may or may not have had its effect" in died
    assert "the server's own log" in died
    assert "echo: on" in after  # a new process serves it
    assert "may or may not" in repeated
    lines = [line.split(" {")[0] for line in marks(rig)]
    assert lines.count("call die") == 1
    assert lines.count("call die_idempotent") == 2


async def test_results_are_bounded_and_wrong_answers_are_left_out(rig):
    configure(rig, "garbage")
    calls = (call("big"), call("twice"), call("fails"), call("image"), call("echo", text="still"))
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *ends(*calls))
    assert ended.code == 0, ended.err
    big, twice, fails, image, still = rig.outputs()
    assert "begin" in big
    assert "finish" in big
    assert len(big) < 200_000
    assert '"text":"first"' in twice
    assert "it did not work" in fails
    assert image.startswith("Wall time")
    assert "echo: still" in still
    assert [end.status for end in rig.bodies(CallEnded)] == [
        "completed", "completed", "failed", "completed", "completed"
    ]  # fmt: skip


async def test_a_server_that_floods_is_ended_and_others_are_not_hurt(rig):
    configure(rig)
    configure(rig, name="calm")
    calls = (call("flood"), call("echo", server="calm", text="here"))
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *ends(*calls))
    flooded, calm = rig.outputs()
    assert ended.code == 0, ended.err
    assert "notifications within" in flooded
    assert "echo: here" in calm
    assert len([line for line in marks(rig, "calm") if line.startswith("start")]) == 1


async def test_a_tool_that_never_answers_ends_at_its_limit_and_its_server_is_told(rig):
    configure(rig, more="tool_timeout_sec = 1.0")
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *ends(call("never"), call("echo", text="on")))
    never, after = rig.outputs()
    assert ended.code == 0, ended.err
    assert "no answer within 1 s" in never
    assert "echo: on" in after
    assert "cancelled" in marks(rig)


async def test_an_interrupt_of_the_turn_reaches_the_server(rig):
    configure(rig)
    with trio.fail_after(LIMIT_S):
        started = await rig.run(
            rig.script(*ends(call("never"))), "--reviewer", "nobody", sandbox="workspace-write"
        )
        await rig.wait(lambda: "call never {}" in marks(rig))
        os.kill(started.pid, signal.SIGINT)
        await rig.wait(lambda: "cancelled" in marks(rig))
        os.kill(started.pid, signal.SIGINT)
        await started.wait_end()
        await rig.wait_gone()
    (done,) = rig.bodies(CallEnded)
    assert done.status == "interrupted"


async def test_strange_names_and_texts_reach_neither_the_model_nor_another_tool(rig):
    configure(rig)
    calls = (
        {"name": "mcp__odd________etc_passwd", "arguments": {}},
        call("exec_command", text="mine"),
        {"name": "exec_command", "arguments": {"cmd": "echo own"}},
    )
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *ends(*calls))
    odd, theirs, ours = rig.outputs()
    assert ended.code == 0, ended.err
    assert "called ../../etc/passwd" in odd
    assert "echo: mine" in theirs
    assert "own" in ours
    assert "\x1b" not in ended.out
    assert "[31m" not in json.dumps([str(one) for one in rig.bodies(CallBegan)])


@pytest.mark.parametrize("victim", ["mcp hub", "mcp_server_program", "supervisor"])
async def test_after_kill_9_of_anything_no_process_of_a_server_is_left(rig, victim):
    configure(rig)
    with trio.fail_after(LIMIT_S):
        started = await rig.run(
            rig.script(*ends(call("fork"), call("never"))),
            "--reviewer",
            "nobody",
            sandbox="workspace-write",
        )
        await rig.wait(lambda: "call never {}" in marks(rig))
        alive = rig.alive()
        pids = [pid for pid, title in alive.items() if victim in title]
        for pid in [started.pid] if victim == "supervisor" else pids:
            with suppress(ProcessLookupError):  # it has died with another one
                os.kill(pid, signal.SIGKILL)
        if victim == "supervisor":
            await started.wait_end()
        else:
            ended = await started.wait_end()
            assert ended.code == 0, ended.err
            assert "may or may not have had its effect" in rig.outputs()[-1]
        await rig.wait_gone()
    calls = [line for line in marks(rig) if line.startswith("call never")]
    assert len(calls) == 1


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


async def test_a_server_that_cannot_be_used_costs_its_tools_and_not_the_run(rig):
    configure(rig, "mute", name="mute", more="startup_timeout_sec = 1.0")
    configure(rig, name="good")
    configure(rig, "bomb", name="bomb")
    with (rig.home / "config.toml").open("a") as file:
        file.write('[mcp_servers.lost]\ncommand = "no-such-program"\n')
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *ends(call("echo", server="good", text="fine")))
    assert ended.code == 0, ended.err
    assert "echo: fine" in rig.outputs()[0]
    told = [one.message for one in rig.bodies(Warned)]
    assert [text for text in told if "`lost`" in text and "there is no program" in text]
    assert [text for text in told if "`bomb`" in text and "can be read" in text]
    assert [text for text in told if "`mute`" in text and "startup_timeout_sec" in text]


async def test_a_required_server_that_cannot_be_used_ends_the_run_before_its_first_agent(rig):
    (rig.home / "config.toml").write_text(
        '[mcp_servers.lost]\ncommand = "no-such-program"\nrequired = true\n'
    )
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, {"text": "never said"})
    assert ended.code == 1
    assert "required MCP server `lost`" in ended.err
    assert f"{rig.home / 'config.toml'}, line 1" in ended.err
    assert rig.lives() == []


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
