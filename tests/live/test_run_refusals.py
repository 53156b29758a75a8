"""What a run refuses before it starts anything, and how it stops when it cannot write."""

import os
import subprocess

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.events import CallBegan
from swarm.mailbox.protocol.records import ItemRecorded, RunCompleted

pytestmark = pytest.mark.live
LIMIT_S = 30
HAS_NAMESPACES = subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0
needs_namespaces = pytest.mark.skipif(not HAS_NAMESPACES, reason="no user namespaces here")
STAY = {"name": "exec_command", "arguments": {"cmd": "sleep 307"}}


async def test_of_two_resumes_one_is_refused(rig):
    with trio.fail_after(LIMIT_S):
        await (await rig.run(rig.script({"text": "one"}, {"calls": [STAY]}))).wait_end()
        first = await rig.resume("-p", "more")
        await rig.wait_call()
        second = await (await rig.resume("-p", "more")).wait_end()
        assert second.code == 2
        assert "alive" in second.err
        assert "swarm watch" in second.err
        first.process.terminate()
        await first.wait_end()
    assert rig.alive() == {}


async def test_resumes_that_race_for_the_lock_do_not_both_win(rig):
    with trio.fail_after(LIMIT_S):
        await (await rig.run(rig.script({"text": "one"}, {"text": "two"}))).wait_end()
        both = [await rig.resume("-p", "more") for _ in range(2)]
        codes = sorted([(await one.wait_end()).code for one in both])
    assert codes in ([0, 0], [0, 2])  # one after the other, or one refused
    answers = codes.count(0)
    assert len(rig.bodies(RunCompleted)) == 1 + answers
    names = [record.seq for record in rig.records()]
    assert names == sorted(set(names))


async def test_a_run_of_another_version_is_refused(rig):
    with trio.fail_after(LIMIT_S):
        await (await rig.run(rig.script({"text": "one"}))).wait_end()
        about = msgspec.json.decode(rig.places.metadata.read_bytes())
        rig.places.metadata.write_bytes(msgspec.json.encode({**about, "schema_version": 99}))
        ended = await (await rig.resume("-p", "more")).wait_end()
    assert ended.code == 2
    assert "version" in ended.err
    assert rig.alive() == {}


async def test_a_state_folder_that_cannot_be_made_is_a_clear_error(rig):
    (rig.home / "state").write_text("a file, not a folder")
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(rig.script({"text": "one"}))).wait_end()
    assert ended.code not in (0, 130)
    assert "SWARM_HOME" in ended.err
    assert "Traceback" not in ended.err
    assert rig.alive() == {}


@needs_namespaces
async def test_a_read_only_home_is_a_clear_error(rig):
    within = (
        f'mount --bind {rig.home} {rig.home} && mount -o remount,bind,ro {rig.home} && exec "$@"'
    )
    prefix = ("unshare", "-rm", "sh", "-c", within, "sh")
    with trio.fail_after(LIMIT_S):
        words = ("-p", "x", "--provider", rig.script({"text": "one"}), "--plain")
        ended = await (await rig.start("run", *words, prefix=prefix)).wait_end()
    assert ended.code not in (0, 130)
    assert "cannot" in ended.err
    assert "SWARM_HOME" in ended.err
    assert "Traceback" not in ended.err
    assert rig.alive() == {}


@needs_namespaces
@pytest.mark.parametrize("pages", [0, 1, 3])
@pytest.mark.parametrize("full", ["home", "runtime"])
async def test_a_disk_that_is_full_at_the_start_is_a_clear_error_and_leaves_nothing(
    rig, full, pages
):
    folder = {"home": rig.home, "runtime": rig.runtime}[full]
    within = (
        f"mount -t tmpfs -o size=256k tmpfs {folder} && "
        f"dd if=/dev/zero of={folder}/fill bs=4k count={64 - pages} 2>/dev/null; "
        f'"$@"; code=$?; ls {folder}/state/runs {folder}/swarm > {rig.folder}/left 2>/dev/null; '
        "exit $code"
    )
    prefix = ("unshare", "-rm", "sh", "-c", within, "sh")
    words = ("-p", "x", "--provider", rig.script({"text": "one"}), "--plain")
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.start("run", *words, prefix=prefix)).wait_end()
    assert "Traceback" not in ended.err
    left = (rig.folder / "left").read_text().split()
    assert [one for one in left if not one.endswith(":")] == []
    if full == "home" or not pages:
        assert ended.code == 1, ended.err
        assert "No space left" in ended.err
        assert str(folder) in ended.err
    assert rig.alive() == {}


@needs_namespaces
async def test_a_full_disk_stops_the_run_and_what_was_acknowledged_is_readable(rig):
    flood = {
        "name": "exec_command",
        "arguments": {"cmd": "echo once >> runs; head -c 9000 /dev/zero | tr '\\0' x"},
    }
    provider = rig.script({"calls": [flood], "repeat": "forever"})
    within = (
        f'mount -t tmpfs -o size=300k tmpfs {rig.home} && "$@"; code=$?; '
        f"cp -a {rig.home}/state {rig.folder}/kept; exit $code"
    )
    prefix = ("unshare", "-rm", "sh", "-c", within, "sh")
    words = ("-p", "x", "--provider", provider, "-s", "danger-full-access", "--plain")
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.start("run", *words, prefix=prefix)).wait_end()
    assert ended.code == 1, ended.err
    assert "No space left" in ended.err
    assert "swarm resume" in ended.err
    assert "Traceback" not in ended.err
    assert rig.alive() == {}
    os.rename(rig.folder / "kept", rig.home / "state")
    assert len(rig.bodies(ItemRecorded)) > 5
    runs = (rig.work / "runs").read_text().splitlines()
    assert 1 <= len(runs) <= len(rig.bodies(CallBegan))  # none ran before its begin was written
