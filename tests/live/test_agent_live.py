"""A real agent process, over real sockets, with a real launcher and a model made of a list."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from io import FileIO
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
import pytest
import trio

from swarm.mailbox.base.process_tree import descendants_of, is_zombie
from swarm.mailbox.delivery.router import open_router
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    CommandCall,
    Goodbye,
    Heartbeat,
    Hello,
    ItemCompleted,
    OutputArrived,
    PatchCall,
    RequestSent,
    TurnCompleted,
)
from swarm.mailbox.protocol.items import (
    CustomToolCall,
    FunctionCall,
    InputImage,
    decode_item,
    text_message,
)
from swarm.mailbox.protocol.ops import Answer, Interrupt, Shutdown
from swarm.mailbox.protocol.requests import BlobStored
from swarm.mailbox.protocol.spec import GatewayAccess, RoleBrief, encode_spec
from swarm.mailbox.protocol.values.limits import Limits, ReadOnly, WorkspaceWrite
from swarm.worker.testing.agent_harness import END, FAKE_MODEL, FakeGateway, FakeSupervisor, done
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC

pytestmark = pytest.mark.live
FINAL = (done(text_message("assistant", "done")), END)
NEVER = Path("/etc/never")
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


class Living(NamedTuple):
    process: subprocess.Popen
    stage: FakeSupervisor
    gateway: FakeGateway
    work: Path
    lifeline: FileIO


def was_made():
    return NEVER.exists()


def command(script, call_id="c", **more):
    arguments = json.dumps({"cmd": script, **more})
    return FunctionCall(call_id=call_id, name="exec_command", arguments=arguments)


@asynccontextmanager
async def living_agent(replies, *, locked=False):
    """A cold-started agent; killed with all below it if the test leaves it alive."""
    with TemporaryDirectory(prefix="al-") as folder, trio.fail_after(50):
        base = Path(folder)
        work = base / "work"
        (base / "tmp").mkdir()
        work.mkdir()
        spec = msgspec.structs.replace(
            FAKE_AGENT_SPEC,
            cwd=str(work),
            tmp_dir=str(base / "tmp"),
            limits=Limits(sandbox=ReadOnly() if locked else WorkspaceWrite()),
            role=RoleBrief(locked=locked),
            environment={"PATH": os.environ["PATH"], "HOME": folder},
            endpoint=f"ipc://{base}/s",
            gateway=GatewayAccess(endpoint=f"ipc://{base}/g", token=FAKE_AGENT_SPEC.gateway.token),
        )
        async with (
            open_router(spec.endpoint) as supervisors,
            open_router(spec.gateway.endpoint) as gateways,
            trio.open_nursery() as nursery,
        ):
            supervisors.admit(spec.identity, epoch=spec.epoch)
            gateways.admit(spec.identity, epoch=spec.epoch)
            stage, gateway = (
                FakeSupervisor(supervisors, spec),
                FakeGateway(gateways, replies, FAKE_MODEL),
            )
            nursery.start_soon(stage.run)
            nursery.start_soon(gateway.run)
            reading, writing = os.pipe()
            process, lifeline = start(spec, reading), FileIO(writing, "w")
            os.close(reading)
            try:
                yield Living(process, stage, gateway, work, lifeline)
            finally:
                lifeline.close()
                await trio.to_thread.run_sync(process.wait)
                process.stderr.close()
                nursery.cancel_scope.cancel()


def start(spec, lifeline):
    fd = os.memfd_create("spec")
    os.write(fd, encode_spec(spec))
    os.lseek(fd, 0, os.SEEK_SET)
    argv = [
        sys.executable,
        "-P",
        "-m",
        "swarm.worker.process.cold_entry",
        "test agent",
        str(fd),
        str(lifeline),
    ]
    process = subprocess.Popen(
        argv, pass_fds=(fd, lifeline), stderr=subprocess.PIPE, start_new_session=True
    )
    os.close(fd)
    return process


async def wait_until(holds):
    while not holds():  # noqa: ASYNC110 — what /proc shows has no event
        await trio.sleep(0.01)


async def gone(pids):
    await wait_until(lambda: all(is_zombie(pid) for pid in pids))


async def two_sleepers(agent):
    await wait_until(lambda: len(sleeping_below(agent.process.pid)) >= 2)
    return sleeping_below(agent.process.pid)


async def test_a_turn_runs_commands_in_the_sandbox_and_the_agent_leaves_in_order():
    script = "pwd; echo hi > made.txt; echo no > /etc/never 2>&1; echo $TERM"
    replies = [(done(command(script)), END), FINAL]
    async with living_agent(replies) as agent:
        await agent.stage.send_text("go")
        ending = await agent.stage.wait_turns()
        await agent.stage.send_op(Shutdown())
        code = await trio.to_thread.run_sync(agent.process.wait)
        await agent.stage.wait_for(Goodbye)
    assert isinstance(ending, TurnCompleted)
    assert code == 0
    assert isinstance(agent.stage.events[0], Hello)
    assert agent.stage.events_of(Hello)[0].pid == agent.process.pid
    began = agent.stage.events_of(CallBegan)[0].detail
    assert isinstance(began, CommandCall)
    assert (began.script, began.sandbox != "none") == (script, True)
    output = agent.stage.items("tool")[0].output
    assert re.fullmatch(
        r"Wall time: \d+\.\d{4} seconds\nProcess exited with code 0\n"
        r"Original token count: \d+\nOutput:\n.*",
        output,
        re.DOTALL,
    )
    assert f"{agent.work}\n" in output
    assert output.endswith("dumb\n")
    assert agent.stage.events_of(OutputArrived) or agent.stage.events_of(CallEnded)[0].output
    assert not was_made()


async def test_a_patch_a_listing_and_a_picture():
    patch = "*** Begin Patch\n*** Add File: a/b.txt\n+one\n*** End Patch"
    outside = "*** Begin Patch\n*** Add File: /etc/never\n+one\n*** End Patch"
    shell = f"apply_patch <<'EOF'\n{patch.replace('b.txt', 'c.txt')}\nEOF"
    async with living_agent([]) as agent:
        (agent.work / "p.png").write_bytes(PNG)
        calls = (
            CustomToolCall(call_id="1", name="apply_patch", input=patch),
            CustomToolCall(call_id="2", name="apply_patch", input=outside),
            command(shell, "3"),
            FunctionCall(
                call_id="4", name="list_dir", arguments=json.dumps({"dir_path": str(agent.work)})
            ),
            FunctionCall(call_id="5", name="view_image", arguments='{"path": "p.png"}'),
            FunctionCall(call_id="6", name="update_plan", arguments='{"plan": []}'),
            FunctionCall(call_id="7", name="update_plan", arguments='{"plan": 3}'),
        )
        agent.gateway.add_replies((*map(done, calls), END), FINAL)
        await agent.stage.send_text("go")
        asked = await agent.stage.wait_for(RequestSent)
        stored = BlobStored(path="/x")
        await agent.stage.send_op(Answer(request_id=asked.request_id, reply=stored))
        await agent.stage.wait_turns()
        assert (agent.work / "a/b.txt").read_text() == "one\n"
        assert (agent.work / "a/c.txt").read_text() == "one\n"
    outputs = [item.output for item in agent.stage.items("tool")]
    success = "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\n"
    assert outputs[0] == f"{success}A a/b.txt\n"
    assert "patch" in outputs[1]
    assert outputs[2].startswith(f"Wall time: 0.0000 seconds\nOutput:\n{success}A a/c.txt\n")
    assert outputs[3].startswith(f"Absolute path: {agent.work}\n")
    assert isinstance(outputs[4][0], InputImage)
    assert outputs[4][0].image_url == f"blob:{asked.request.sha256};image/png"
    assert outputs[5] == "Plan updated"
    assert outputs[6].startswith("failed to parse function arguments: ")
    statuses = {one.call_id: one.status for one in agent.stage.events_of(CallEnded)}
    assert statuses["2"] == "declined"
    assert not was_made()
    details = [one.detail for one in agent.stage.events_of(CallBegan)]
    assert sum(isinstance(detail, PatchCall) for detail in details) == 3


def two_commands():
    return [
        (done(command("sleep 1000 # behind", yield_time_ms=250)), END),
        (done(command("sleep 2000 # waited for", "d", yield_time_ms=30000)), END),
    ]


async def test_an_interrupt_that_keeps_commands_kills_only_the_one_that_was_waited_for():
    async with living_agent(two_commands()) as agent:
        await agent.stage.send_text("go")
        await agent.stage.wait_for(CallBegan, 2)
        sleepers = await two_sleepers(agent)
        await agent.stage.send_op(Interrupt(keep_commands=True))
        ending = await agent.stage.wait_turns()
        assert ending.duration_s < 10
        await gone([pid for pid, line in sleepers.items() if "2000" in line])
        kept = [pid for pid, line in sleepers.items() if "1000" in line]
        assert not any(is_zombie(pid) for pid in kept)
        while not any(beat.live_commands == 1 for beat in agent.stage.events_of(Heartbeat)):
            await agent.stage.wait_for(Heartbeat, len(agent.stage.events_of(Heartbeat)) + 1)
        await agent.stage.send_op(Shutdown())
        await trio.to_thread.run_sync(agent.process.wait)
        await gone(kept)


async def test_an_interrupt_ends_the_commands_in_the_background_too_and_the_agent_stays():
    more = [(done(command("echo up", "e")), END), FINAL]
    async with living_agent([*two_commands(), *more]) as agent:
        await agent.stage.send_text("go")
        await agent.stage.wait_for(CallBegan, 2)
        sleepers = await two_sleepers(agent)
        await agent.stage.send_op(Interrupt())
        await agent.stage.wait_turns()
        await gone(sleepers)
        await agent.stage.send_text("and now?", input_id="turn-2")
        await agent.stage.wait_turns(2)
    assert "were ended" in agent.stage.items("note")[0].content[0].text
    assert agent.stage.items("tool")[-1].output.endswith("up\n")


def sleeping_below(pid):
    found = {}
    for one in descendants_of(pid):
        try:
            line = Path(f"/proc/{one}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if line.startswith("sleep "):
            found[one] = line
    return found


async def test_the_end_of_the_life_line_ends_the_agent_and_its_commands():
    replies = [(done(command("setsid nohup sleep 1000 & sleep 999")), END)]
    async with living_agent(replies) as agent:
        await agent.stage.send_text("go")
        sleepers = await two_sleepers(agent)
        agent.lifeline.close()
        with trio.fail_after(20):
            code = await trio.to_thread.run_sync(agent.process.wait)
            await gone(sleepers)
    assert code == -signal.SIGKILL


async def test_a_locked_agent_works_and_its_own_process_can_write_nothing():
    call = command("echo read; echo no > made.txt")
    listing = FunctionCall(call_id="d", name="list_dir", arguments='{"dir_path": "/"}')
    async with living_agent([(done(call), done(listing), END), FINAL], locked=True) as agent:
        await agent.stage.send_text("go")
        assert isinstance(await agent.stage.wait_turns(), TurnCompleted)
        status = (Path("/proc") / str(agent.process.pid) / "status").read_text()
        agent.lifeline.close()
        await trio.to_thread.run_sync(agent.process.wait)
    assert "NoNewPrivs:\t1" in status
    output, listed = (item.output for item in agent.stage.items("tool"))
    assert "read\n" in output
    assert "made.txt" in output  # bash says why it could not write
    assert "\n  bin" in listed or "\nbin" in listed


async def test_a_crash_says_why_on_stderr_and_exits_1():
    spec = msgspec.structs.replace(FAKE_AGENT_SPEC, endpoint="nonsense")
    reading, writing = os.pipe()
    process = start(spec, reading)
    with trio.fail_after(20):
        _, stderr = await trio.to_thread.run_sync(process.communicate)
    for fd in (reading, writing):
        os.close(fd)
    assert process.returncode == 1
    assert b"Traceback" in stderr
    assert b"nonsense" in stderr


def test_an_agent_imports_nothing_heavy():
    program = "import sys; import swarm.worker.agent.agent_process; print(*sorted(sys.modules))"
    argv = [sys.executable, "-P", "-c", program]
    loaded = set(subprocess.run(argv, capture_output=True, check=True, text=True).stdout.split())
    heavy = {
        "httpx",
        "httpcore",
        "rich",
        "click",
        "yaml",
        "sqlite3",
        "tree_sitter",
        "pydantic",
        "asyncio",
    }
    assert loaded & heavy == set()
    assert not any(name.startswith("swarm.supervisor") for name in loaded)
    assert not {name for name in loaded if name.startswith("swarm.worker.gateway.")}


async def test_every_item_in_the_journal_is_what_the_model_was_sent():
    replies = [(done(command("true")), END), FINAL, FINAL]
    async with living_agent(replies) as agent:
        await agent.stage.send_text("go")
        await agent.stage.wait_turns()
        await agent.stage.send_text("more", input_id="turn-2")
        await agent.stage.wait_turns(2)
    journaled = [decode_item(bytes(one.item)) for one in agent.stage.events_of(ItemCompleted)]
    last = agent.gateway.inputs[-1]
    assert list(last) == journaled[: len(last)]
    for before, after in pairwise(agent.gateway.inputs):
        assert after[: len(before)] == before
