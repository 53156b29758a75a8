"""A run's processes begin before its command line is read: whatever that ends in, none is left."""

import os
import signal
import subprocess
import sys

import pytest
import trio

from swarm.mailbox.base.process_tree import children_of
from swarm.mailbox.protocol.records import GatewayEnded, RunCompleted

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("started_anew")]
LIMIT_S = 30


async def start_and_wait_for_words(rig):
    """A `swarm run -` whose task has yet to come through a pipe, with its fork-server."""
    reader, writer = os.pipe()
    process = rig.adopt(
        await trio.lowlevel.open_process(
            [sys.executable, "-P", "-m", "swarm.supervisor.clients.cli.entry", "run", "-"],
            stdin=reader, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=rig.environment, cwd=rig.work,
        )
    )  # fmt: skip
    os.close(reader)
    await rig.wait(lambda: children_of(process.pid))
    return process, writer


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15),
                                              (signal.SIGKILL, -9)])  # fmt: skip
async def test_a_command_that_ends_while_it_reads_its_task_leaves_nothing(rig, number, code):
    with trio.fail_after(LIMIT_S):
        process, writer = await start_and_wait_for_words(rig)
        process.send_signal(number)
        assert await process.wait() == code
        with trio.fail_after(20):
            await rig.wait(lambda: not rig.alive())
    os.close(writer)


# A hook of os.fork, as logging has one, into which Ctrl-C comes: Python drops what a hook raises.
INTERRUPTED_FORK = """
import os, signal, sys
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    return None
os.register_at_fork(after_in_parent=interrupt)
from swarm.supervisor.clients.cli.entry import main
main()
"""


@pytest.mark.parametrize("words", [("run", "-"), ("run", "-p", "x", "--detach")])
async def test_an_interrupt_in_the_moment_of_a_fork_is_not_lost(rig, words):
    reader, writer = os.pipe()
    provider = rig.script({"text": "done"})
    with trio.fail_after(LIMIT_S):
        process = rig.adopt(
            await trio.lowlevel.open_process(
                [sys.executable, "-P", "-c", INTERRUPTED_FORK, *words, "--provider", provider],
                stdin=reader, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=rig.environment, cwd=rig.work,
            )
        )  # fmt: skip
        assert await process.wait() == 130
        await rig.wait_gone()
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("words", [("--role", "nobody"), ("--no-such-option",), ("--help",)])
async def test_a_command_line_that_starts_no_run_leaves_nothing(rig, words):
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.start("run", "-p", "x", *words)).wait_end()
    assert ended.code == (0 if words == ("--help",) else 2), ended.err
    assert rig.alive() == {}


async def test_a_detached_run_has_processes_of_its_own(rig):
    provider = rig.script({"text": "done"})
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(provider, "--detach")).wait_end()
        assert ended.code == 0, ended.err
        await rig.wait(lambda: rig.bodies(RunCompleted) and not rig.alive())
    assert rig.completed.result == "done"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
async def test_a_run_whose_standard_files_are_closed_ends_as_any_other(rig, closed):
    provider = rig.script({"text": "done"})
    shell = ("/bin/sh", "-c", f'exec "$@" {closed}', "sh")
    with trio.fail_after(LIMIT_S):
        run = await rig.start("run", "-p", "x", "--provider", provider, "--plain", prefix=shell)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert ended.out == ("" if ">&-" in closed.split() else "done\n")
    assert rig.completed.result == "done"
    assert rig.bodies(GatewayEnded) == []


async def test_a_command_inherits_standard_files_where_ours_were_closed(rig):
    shell = ("/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")
    words = ("sandbox", "-s", "danger-full-access", "--", "sh", "-c", "cat && echo out && echo >&2")
    with trio.fail_after(LIMIT_S):
        assert (await (await rig.start(*words, prefix=shell)).wait_end()).code == 0
