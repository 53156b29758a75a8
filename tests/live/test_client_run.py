"""The Python client with real runs, under both event loops: its page's examples, and faults."""

import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest
import trio

from support.forked_programs import forked_python
from support.paths import ROOT
from swarm.mailbox.protocol.control import Recorded
from swarm.mailbox.protocol.events import CallBegan
from swarm.mailbox.protocol.ops import ImageInput
from swarm.mailbox.protocol.records import ApprovalRequested, InputPosted, RunCompleted, RunStarted
from swarm.supervisor.clients.client import (
    ControlRequestRefused,
    LiveRun,
    RunFailedToStart,
    RunNotAlive,
    RunVanished,
    attach_run,
    open_run,
)

pytestmark = pytest.mark.live
LIMIT_S = 60
LOOPS = ("asyncio", "trio")
PAGE = (ROOT / "docs" / "client.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360"
    "f8cf500f0003860180b4bb6b400000000049454e44ae426082"
)


def command(script: str) -> dict:
    return {"calls": [{"name": "exec_command", "arguments": {"cmd": script}}]}


@pytest.fixture(autouse=True)
def forked_runs(monkeypatch):
    """What a client in this process starts is forked, as what the other commands start."""
    monkeypatch.setattr(sys, "executable", forked_python())


async def under(loop: str, body: Callable[[], Awaitable[None]]) -> None:
    """Run a client under one event loop, in a thread of its own, and wait for it."""

    async def bounded() -> None:
        with anyio.fail_after(LIMIT_S):
            await body()

    await trio.to_thread.run_sync(lambda: anyio.run(bounded, backend=loop))


async def run_example(rig, number: int, *words: str) -> str:
    program = rig.folder / f"example{number}.py"
    program.write_text(EXAMPLES[number])
    with trio.fail_after(LIMIT_S):
        done = await trio.run_process(
            [forked_python(), str(program), *words],
            env=rig.environment,
            cwd=rig.work,
            capture_stdout=True,
        )
    return done.stdout.decode()


def use(rig, provider: str) -> None:
    """Make the provider the one of the configuration, as an example knows of none."""
    (rig.home / "config.toml").write_text(f'model_provider = "{provider}"\n')


async def test_example_1_prints_the_answer_of_a_run(rig):
    use(rig, rig.script({"text": "It counts sheep."}))
    assert await run_example(rig, 0) == "completed It counts sheep.\n"
    assert rig.bodies(InputPosted)[0].parts[0].text == "What does this project do?"


async def test_example_2_answers_the_approval_that_its_run_asks_for(rig):
    use(rig, rig.script(command("rm -rf build"), {"text": "Done."}))
    (rig.work / "build").mkdir()
    told = await run_example(rig, 1)
    assert "allowed:" in told
    assert "/root exec_command completed" in told
    assert not (rig.work / "build").exists()


async def test_example_3_attaches_asks_and_looks(rig):
    wait = command("until [ -e go ]; do sleep 0.05; done")
    provider = rig.script(wait, {"text": "first"}, {"text": "It was x.py."})
    await rig.run(provider, "--reviewer", "nobody")
    await rig.wait_call()

    async def go_on_when_asked() -> None:
        await rig.wait(lambda: "Name the file" in str(rig.records()))
        (rig.work / "go").touch()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(go_on_when_asked)
        told = await run_example(rig, 2, rig.run_id)
    assert told.splitlines()[0] in {"completed first", "completed It was x.py."}
    assert told.splitlines()[1].startswith("/root ")


@pytest.mark.parametrize("loop", LOOPS)
async def test_every_record_comes_once_and_the_same_to_who_comes_late(rig, loop):
    provider = rig.script(command("echo one"), command("echo two"), {"text": "done"})
    seen: list[list[int]] = []

    async def read(run: LiveRun) -> None:
        events = [event async for event in run.events()]
        seen.append([event.record.seq for event in events if isinstance(event, Recorded)])
        assert isinstance(events[-1].record.body, RunCompleted)

    async def client() -> None:
        async with open_run("do it", provider=provider, cwd=rig.work, sandbox="read-only",
                            environment=rig.environment) as run:  # fmt: skip
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read, run)
                tasks.start_soon(read, run)
            assert (await run.result()).result == "done"
        async with attach_run(run.run_id[-8:], environment=rig.environment) as late:
            await read(late)
            with pytest.raises(RunNotAlive, match="swarm resume"):
                await late.send("too late")

    await under(loop, client)
    assert seen[0] == list(range(1, len(rig.records()) + 1))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("loop", LOOPS)
async def test_words_and_images_reach_the_turn_that_runs(rig, loop):
    provider = rig.script(command("sleep 1"), {"text": "seen: {last_user}"})
    picture = rig.folder / "pixel.png"
    picture.write_bytes(PIXEL)

    async def client() -> None:
        stays = {"environment": rig.environment, "options": ["--keep-open"]}
        async with open_run(
            "do it", provider=provider, cwd=rig.work, sandbox="read-only", **stays
        ) as run:
            async with aclosing(run.events()) as events:
                async for event in events:
                    if isinstance(event, Recorded) and isinstance(event.record.body, CallBegan):
                        break
            turn = await run.ask("what is this?", images=[picture])
            assert (turn.status, "what is this?" in turn.text) == ("completed", True)
            with pytest.raises(ControlRequestRefused, match="no live agent"):
                await run.send("hello", agent="nobody")
            with pytest.raises(ControlRequestRefused, match="not a PNG"):
                await run.send("hello", images=[Path(__file__)])

    await under(loop, client)
    parts = rig.bodies(InputPosted)[1].parts
    assert isinstance(parts[0], ImageInput)


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_denial_is_read_by_the_model_and_the_first_answer_counts(rig, loop):
    provider = rig.script(command("touch made"), command("touch two"), {"text": "{last_output}"})
    asked: list[str] = []

    async def client() -> None:
        async with open_run("do it", provider=provider, cwd=rig.work, approval="untrusted",
                            reviewer="person", environment=rig.environment) as run:  # fmt: skip
            async for event in run.events():
                match event:
                    case Recorded(record=record) if isinstance(record.body, ApprovalRequested):
                        (pending,) = await run.approvals()
                        assert pending.approval_id == record.body.approval_id
                        for answered in asked:
                            with pytest.raises(ControlRequestRefused):
                                await run.approve(answered)
                        asked.append(pending.approval_id)
                        await run.deny(pending.approval_id, reason="not on a Monday")
                    case _:
                        pass

    await under(loop, client)
    assert "not on a Monday" in (rig.completed.result or "")
    assert len(asked) == 2
    assert not (rig.work / "made").exists()


@pytest.mark.parametrize("loop", LOOPS)
async def test_leaving_the_block_ends_the_run_unless_it_was_to_stay(rig, loop):
    provider = rig.script(command("sleep 30"), {"text": "done"})

    async def client() -> None:
        async with open_run("do it", provider=provider, cwd=rig.work, sandbox="read-only",
                            leave_running=True, environment=rig.environment) as run:  # fmt: skip
            pass
        assert run.is_alive
        await run.cancel()
        assert not run.is_alive
        rig.forget_run()
        async with open_run("do it", provider=provider, cwd=rig.work, sandbox="read-only",
                            environment=rig.environment) as run:  # fmt: skip
            pass
        assert (await run.result()).status == "terminated"

    await under(loop, client)
    with trio.fail_after(LIMIT_S):
        await rig.wait_gone()


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_killed_supervisor_ends_the_events_and_is_named(rig, loop):
    provider = rig.script(command("sleep 30"), {"text": "done"})

    async def client() -> None:
        async with open_run("do it", provider=provider, cwd=rig.work, sandbox="read-only",
                            leave_running=True, environment=rig.environment) as run:  # fmt: skip
            os.kill(int(run.paths.lock.read_text()), signal.SIGKILL)
            with pytest.raises(RunVanished, match="swarm resume"):
                await run.result()

    await under(loop, client)


@pytest.mark.parametrize(
    ("task", "more", "words"),
    [
        ("", {}, "empty"),
        ("x" * (1 << 20) + "x", {}, "1 MiB"),
        ("do it", {"sandbox": "none"}, "sandbox"),
        ("do it", {"cwd": "/nowhere"}, "/nowhere"),
    ],
)
async def test_a_run_that_cannot_start_says_why_with_the_code_of_a_usage_error(
    rig, task, more, words
):
    with pytest.raises(RunFailedToStart, match=words) as caught:
        async with open_run(task, environment=rig.environment, **more):
            pass
    assert caught.value.exit_code == 2


async def test_front_matter_in_the_task_sets_nothing(rig):
    provider = rig.script({"text": "done"})
    task = "---\nsandbox: danger-full-access\n---\ndo it"
    async with open_run(task, provider=provider, cwd=rig.work, sandbox="read-only",
                        environment=rig.environment) as run:  # fmt: skip
        assert (await run.result()).status == "completed"
    assert rig.bodies(RunStarted)[0].widened == ()
    assert rig.bodies(InputPosted)[0].parts[0].text == task
