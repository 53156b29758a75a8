"""A hook starts in a sandbox that was made ahead, and can tell it only by what its input is."""

# ruff: noqa: ASYNC110 - nothing outside has to know when one waits
import json
import os
import shutil

import msgspec
import pytest
import trio

from support.command_sessions import open_command_testbed
from swarm.mailbox.protocol.hooks import CommandHook, Hook
from swarm.roles.parts.hooks.hook_output import HookEnd
from swarm.worker.exec.hook_process import run_hook

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
PAYLOAD = b'{"a": "b\'c"}\n'
INPUT = "readlink /proc/self/fd/0"  # a pipe in a sandbox that waited, else a file in memory


def hook(command, **more):
    return Hook(hook_id="h", event="PreToolUse", command=command, **more)


async def wait_ready(testbed):
    while testbed.sessions._hooks._prewarmed._waiting is None:
        await trio.sleep(0.001)


async def run_in_waiting(testbed, wanted, payload=PAYLOAD):
    """Run a hook in a sandbox that waits for it."""
    await run_hook(testbed.sessions, hook("true"), PAYLOAD)
    await wait_ready(testbed)
    return await run_hook(testbed.sessions, wanted, payload)


async def test_its_output_errors_and_exit_code_are_those_of_a_fresh_sandbox(tmp_path):
    seen = (
        'cat; echo "it\'s\ntwo lines" >&2; env -0 | sort -z | grep -zv ^SWARM_COMMAND='
        " | tr '\\0' ' '; pwd; umask; cat /proc/self/mountinfo | cut -d' ' -f 4- | sort;"
        " ls -A /tmp; exit 7"
    )
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        fresh = await run_hook(testbed.sessions, hook(seen), PAYLOAD)
        ready = await run_in_waiting(testbed, hook(seen))
        assert ready == fresh
        assert (ready.exit_code, ready.stderr) == (7, "it's\ntwo lines\n")
        assert ready.stdout.startswith(PAYLOAD.decode())


async def test_hooks_of_a_series_start_in_one_that_waits(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        assert "memfd" in (await run_hook(testbed.sessions, hook(INPUT), PAYLOAD)).stdout
        for _ in range(5):
            await wait_ready(testbed)
            assert "pipe" in (await run_hook(testbed.sessions, hook(INPUT), PAYLOAD)).stdout


async def test_hooks_of_different_plugins_share_it_and_keep_their_variables(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        show = f"{INPUT}; echo $CLAUDE_PLUGIN_ROOT $CLAUDE_PROJECT_DIR"
        ours = hook(show, plugin="/opt/plug in", plugin_data="/opt/data")
        said = (await run_in_waiting(testbed, ours)).stdout.splitlines()
        assert said[0].startswith("pipe")
        assert said[1:] == [f"/opt/plug in {testbed.cwd}"]
        said = (await run_in_waiting(testbed, hook(show))).stdout.splitlines()
        assert said[1:] == [testbed.cwd]


@pytest.mark.parametrize("size", [100_000, 200_000, 600_000])
async def test_a_long_input_is_read_whole(tmp_path, size):
    payload = json.dumps({"text": "x" * size}).encode()
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        ended = await run_in_waiting(testbed, hook("wc -c"), payload)
        assert ended == HookEnd(exit_code=0, stdout=f"{len(payload)}\n")


async def test_one_that_reads_no_input_ends_as_it_says(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        ended = await run_in_waiting(testbed, hook("exit 2"), b"x" * 50_000)
        assert ended == HookEnd(exit_code=2)


async def test_hooks_at_the_same_time_do_not_share_one(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        await run_hook(testbed.sessions, hook("true"), PAYLOAD)
        await wait_ready(testbed)
        said = []

        async def run(number):
            ended = await run_hook(testbed.sessions, hook(f"cat; echo {number}"), b"in ")
            said.append(ended.stdout)

        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(run, number)
        assert sorted(said) == [f"in {number}\n" for number in range(4)]


async def test_words_of_its_own_program_and_other_events_start_afresh(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        words = hook("readlink", action=CommandHook(args=("/proc/self/fd/0",)))
        assert "memfd" in (await run_in_waiting(testbed, words)).stdout
        stop = msgspec.structs.replace(hook("true"), event="Stop")
        await testbed.sessions._hooks.discard()
        await run_hook(testbed.sessions, stop, PAYLOAD)
        assert not testbed.sessions._hooks._prewarmed._lifetimes


async def test_with_the_feature_off_none_is_made(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap", prewarmed=False) as testbed:
        await run_hook(testbed.sessions, hook("true"), PAYLOAD)
        assert not testbed.sessions._hooks._prewarmed._lifetimes


async def test_nothing_is_left_of_one_that_waits_when_its_agent_ends(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        await run_hook(testbed.sessions, hook("true"), PAYLOAD)
        await wait_ready(testbed)
    assert os.listdir(tmp_path / "work") == []
    assert len(os.listdir("/proc/self/fd")) == before
