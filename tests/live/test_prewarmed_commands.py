"""A sandbox made ready ahead holds its command as any other, and serves no changed world."""

# ruff: noqa: ASYNC110, ASYNC240 - nothing outside has to know when one waits; folders are local
import os
import shutil
import signal
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from support.command_sessions import open_command_testbed
from support.escape_testbed import UNTOUCHED, open_escape_testbed, open_test_launcher
from support.nested_fields import with_fields
from swarm.mailbox.base.path_rules import PROTECTED_NAMES
from swarm.mailbox.base.process_tree import children_of, descendants_of
from swarm.mailbox.protocol.values.limits import DangerFullAccess, ReadOnly
from swarm.worker.exec import prewarmed_sandbox as module
from swarm.worker.exec.exec_outcome import ExecFailed
from swarm.worker.exec.prewarmed_sandbox import PrewarmedSandbox
from swarm.worker.exec.running_command import start_command

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]
# Everything that a program can see of how it was started, but for its mark and the time.
SIGHT = r"""
env -0 | sort -z | grep -zv ^SWARM_COMMAND= | tr '\0' '\n'; pwd; umask; ulimit -a; echo "$$ $PPID"
cat /proc/self/cgroup; ls -l /proc/self/fd | sed 's/.* \([0-9]* -> \)/\1/; s/[0-9]*\]/N]/; /proc/d'
grep -E '^(Sig|Shd|Cap|Seccomp|NoNewPrivs|Uid|Gid|Groups|NS)' /proc/self/status
cut -d' ' -f 4- /proc/self/mountinfo | sort; tr '\0' '|' </proc/$$/cmdline; cat /proc/1/comm
readlink /proc/self/cwd; ps -A -o pid,comm | tail -n +2 | head -2; nice; ls -A /tmp /run /dev/shm
"""


@asynccontextmanager
async def prewarmed_sandbox():
    """One over a launcher of its own, the launcher's pid, and a world to use it in."""
    with open_escape_testbed("bwrap") as testbed:
        async with open_test_launcher() as (launcher, pid), trio.open_nursery() as nursery:
            yield testbed, launcher, pid, PrewarmedSandbox(launcher, nursery)
            nursery.cancel_scope.cancel()


def asked(testbed, script, **more):
    request = testbed.request(script, **more)
    limits = msgspec.structs.replace(request.resources, command_s=None)
    return with_fields(request, resources=limits)


async def waits(prepared):
    while prepared._waiting is None:
        await trio.sleep(0.001)


async def is_over(prepared):
    while prepared._lifetimes:
        await trio.sleep(0.001)


async def told_by(command):
    said = b""
    while chunk := await command.receive():
        said += chunk
    status = await command.wait()
    command.close()
    return said.decode(), status.exit_code


async def test_a_program_cannot_tell_whether_its_sandbox_waited_for_it():
    async with prewarmed_sandbox() as (testbed, launcher, _, prepared):
        request = asked(testbed, SIGHT, environment={"PWD": "/elsewhere", "SOME": "it's\na 'word'"})
        plain = await told_by(await start_command(launcher, request))
        prepared.prepare_next(request)
        await waits(prepared)
        command = prepared.take(request)
        assert command is not None
        assert await told_by(command) == plain


async def test_its_command_writes_where_it_may_and_nowhere_else():
    async with prewarmed_sandbox() as (testbed, _, _, prepared):
        script = "echo 1 >{work}/new; echo 2 >{out}/file; echo 3 >{work}/.git/x; cat {work}/new"
        request = asked(testbed, script)
        prepared.prepare_next(request)
        await waits(prepared)
        said, code = await told_by(prepared.take(request))
        assert (said.splitlines()[-1], code) == ("1", 0)
        assert testbed.outside() == UNTOUCHED
    assert not (testbed.work / ".git").exists()


async def test_it_serves_one_command():
    async with prewarmed_sandbox() as (testbed, _, _, prepared):
        request = asked(testbed, "true")
        prepared.prepare_next(request)
        await waits(prepared)
        first = prepared.take(request)
        assert prepared.take(request) is None
        assert await told_by(first) == ("", 0)


def git_folder_made_again(testbed):
    (testbed.work / ".git").rename(testbed.work / "old")
    (testbed.work / ".git").mkdir()


def placeholder_made_again(testbed):
    (testbed.work / ".codex").rmdir()
    (testbed.work / ".codex").mkdir()


def workspace_made_again(testbed):
    testbed.work.rename(testbed.home / "moved")
    shutil.copytree(testbed.home / "moved", testbed.work)


@pytest.mark.parametrize(
    "change", [git_folder_made_again, placeholder_made_again, workspace_made_again]
)
async def test_what_has_another_thing_under_its_mounts_is_not_used(change):
    async with prewarmed_sandbox() as (testbed, _, pid, prepared):
        (testbed.work / ".git").mkdir()
        request = asked(testbed, "true")
        prepared.prepare_next(request)
        await waits(prepared)
        change(testbed)
        assert prepared.take(request) is None
        await prepared.discard()
        assert not children_of(pid)


@pytest.mark.parametrize(
    "other",
    [
        {"environment": {"MORE": "1"}},
        {"policy": ReadOnly()},
        {"tty": True},
        {"python": True},
    ],
)
async def test_it_serves_no_command_of_another_kind(other):
    async with prewarmed_sandbox() as (testbed, _, _, prepared):
        prepared.prepare_next(asked(testbed, "true"))
        await waits(prepared)
        assert prepared.take(asked(testbed, "true", **other)) is None


async def test_unused_it_ends_and_the_folder_is_as_before(monkeypatch):
    monkeypatch.setattr(module, "LIFETIME_S", 0.05)
    async with prewarmed_sandbox() as (testbed, _, pid, prepared):
        before = len(os.listdir("/proc/self/fd"))
        prepared.prepare_next(asked(testbed, "true"))
        await waits(prepared)
        assert {*PROTECTED_NAMES} <= {*os.listdir(testbed.work)}
        await is_over(prepared)
        assert os.listdir(testbed.work) == ["src"]
        assert not children_of(pid)
        assert len(os.listdir("/proc/self/fd")) == before


async def test_one_that_was_killed_is_not_used_and_no_other_is_made():
    async with prewarmed_sandbox() as (testbed, _, pid, prepared):
        request = asked(testbed, "true")
        prepared.prepare_next(request)
        await waits(prepared)
        for one in descendants_of(pid):
            os.kill(one, signal.SIGKILL)
        await is_over(prepared)
        prepared.prepare_next(request)
        assert (prepared.take(request), prepared._lifetimes) == (None, {})
        assert os.listdir(testbed.work) == ["src"]


async def test_a_stopped_one_cannot_hold_up_the_end(monkeypatch):
    monkeypatch.setattr(module, "_END_LIMIT_S", 0.1)
    async with prewarmed_sandbox() as (testbed, _, pid, prepared):
        prepared.prepare_next(asked(testbed, "true"))
        await waits(prepared)
        for one in descendants_of(pid):
            os.kill(one, signal.SIGSTOP)
        await prepared.discard()
        assert not children_of(pid)
        assert os.listdir(testbed.work) == ["src"]


async def test_the_agents_commands_run_one_after_the_other_in_sandboxes_that_waited(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        for number in range(12):
            done = await testbed.run(f"echo {number} >>log; wc -l <log; exit {number}")
            assert (done.output, done.exit_code) == (f"{number + 1}\n", number)
        assert (await testbed.run("cat; echo end")).output == "end\n"


async def test_commands_at_the_same_time_do_not_share_one(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        await testbed.run("true")
        said = []

        async def run(number):
            said.append((await testbed.run(f"echo {number} $$; sleep 0.05")).output)

        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(run, number)
        assert sorted(said) == [f"{number} 2\n" for number in range(6)]


async def test_a_change_of_policy_holds_for_the_next_command(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        await testbed.run("true")
        await waits(testbed.sessions._prewarmed)
        testbed.policy = ReadOnly()
        done = await testbed.run("touch made")
        assert (done.exit_code, os.path.exists(f"{testbed.cwd}/made")) == (1, False)


async def test_a_command_without_a_sandbox_finds_the_folder_as_it_is(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        await testbed.run("true")
        await waits(testbed.sessions._prewarmed)
        testbed.policy = DangerFullAccess()
        assert (await testbed.run("ls -A")).output == ""


async def test_with_the_feature_off_none_is_made(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap", prewarmed=False) as testbed:
        assert (await testbed.run("echo ok")).output == "ok\n"
        assert not testbed.sessions._prewarmed._lifetimes
        assert not descendants_of(testbed.launcher_pid)


async def test_nothing_is_left_of_one_that_waits_when_its_agent_ends(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        await testbed.run("true")
        await waits(testbed.sessions._prewarmed)
    assert os.listdir(tmp_path / "work") == []


async def test_nothing_is_left_of_one_that_waits_when_its_launcher_is_killed(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        await testbed.run("true")
        prepared = testbed.sessions._prewarmed
        await waits(prepared)
        os.kill(testbed.launcher_pid, signal.SIGKILL)
        await is_over(prepared)
        assert os.listdir(testbed.cwd) == []
        with pytest.raises(ExecFailed, match="the launcher"):
            await testbed.run("true")


async def test_a_long_script_and_an_impossible_one_go_the_usual_way(tmp_path):
    async with open_command_testbed(tmp_path, stack="bwrap") as testbed:
        await testbed.run("true")
        await waits(testbed.sessions._prewarmed)
        assert (await testbed.run(f"echo ok # {'x' * 60_000}")).output == "ok\n"
        with pytest.raises(ExecFailed, match="cannot start"):
            await testbed.run("echo \0")
        assert (await testbed.run("echo ok")).output == "ok\n"
