"""Whole runs whose MCP servers misbehave, die, or are killed."""

import json
import os
import shutil
import signal
from contextlib import suppress

import pytest
import trio

from support.mcp_testbed import LIMIT_S, call, configure, ends, marks, run
from swarm.mailbox.protocol.events import CallBegan, CallEnded, Warned

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]


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


async def test_a_server_that_cannot_be_used_costs_its_tools_and_not_the_run(rig):
    configure(rig, "mute", name="mute", more="startup_timeout_sec = 1.0")
    configure(rig, name="good")
    configure(rig, "bomb", name="bomb")
    configure(rig, "ancient", name="ancient")
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
    assert [text for text in told if "`ancient`" in text and "1999-01-01" in text]


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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_the_loss_of_the_hubs_launcher_is_told_and_servers_work_again(rig, number):
    configure(rig)
    after = [call("echo", text=text) for text in ("cut off", "too", "behind")]  # two may fail
    calls = (call("echo", text="before"), call("never"), *after)
    with trio.fail_after(LIMIT_S):
        started = await rig.run(
            rig.script(*ends(*calls)), "--reviewer", "nobody", sandbox="workspace-write"
        )
        await rig.wait(lambda: "call never {}" in marks(rig))
        (launcher,) = [
            pid for pid, title in rig.alive().items() if title.startswith("swarm: launcher of mcp")
        ]
        os.kill(launcher, number)
        for pid, title in rig.alive().items():
            if "mcp_server_program" in title:
                with suppress(ProcessLookupError):  # it has died with another one
                    os.kill(pid, signal.SIGKILL)
        ended = await started.wait_end()
        await rig.wait_gone()
    assert ended.code == 0, ended.err
    assert "echo: behind" in rig.outputs()[-1]
    assert any("hub's launcher" in one.message for one in rig.bodies(Warned))


async def test_at_a_runs_end_servers_close_in_order_and_have_time_to_save(rig):
    configure(rig, "saves")
    configure(rig, "saves", name="second")
    with trio.fail_after(LIMIT_S):
        ended = await run(rig, *ends(call("echo"), call("echo", server="second")))
        await rig.wait_gone()
    assert ended.code == 0, ended.err
    assert marks(rig)[-1] == "saved"
    assert marks(rig, "second")[-1] == "saved"
