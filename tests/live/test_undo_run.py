"""`swarm undo` and `swarm diff` over real runs: shell edits and patches, outside of git."""

import json
import os
import shutil
from pathlib import Path

import pytest
import trio

from swarm.mailbox.protocol.events import CallBegan, CallEnded
from swarm.mailbox.protocol.records import FilesChanged, TurnDiff, WatchBegan

pytestmark = pytest.mark.live
LIMIT_S = 60
needs_bwrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bubblewrap is not installed"
)
UNTIL_GO = "until test -e go; do sleep 0.02; done"
PATCH = "*** Begin Patch\n*** Update File: src/a.txt\n@@\n-one\n+ONE\n*** Add File: added\n+x\n*** End Patch"  # noqa: E501


def call(cmd, **more):
    return {"name": "exec_command", "arguments": {"cmd": cmd, **more}}


def calls(*wanted, agent="/root"):
    return {"agent": agent, "calls": list(wanted)}


def says(text, agent="/root"):
    return {"agent": agent, "text": text}


async def swarm(rig, *words, code=0):
    ended = await (await rig.start(*words)).wait_end()
    assert ended.code == code, ended.err
    return ended


def shape(top: Path) -> dict[str, object]:
    return {
        str(path.relative_to(top)): (
            os.readlink(path) if path.is_symlink()
            else (path.read_bytes(), path.stat().st_mode) if path.is_file() else "folder"
        )
        for path in sorted(top.rglob("*"))
    }  # fmt: skip


def furnish(work: Path) -> None:
    (work / "src").mkdir()
    (work / "src" / "a.txt").write_text("one\ntwo\n")
    for name in ("moved", "gone", "script"):
        (work / name).write_text(f"{name}\n")
    (work / "link").symlink_to("gone")
    (work / "bytes").write_bytes(bytes(range(256)))


EDITS = (
    "sed -i s/two/TWO/ src/a.txt; mkdir -p new/deep; echo hi > new/deep/f; chmod +x script; "
    "mv moved src/moved; rm gone; ln -sfn src link; printf 'b\\0' > bytes"
)


@pytest.mark.parametrize(
    "sandbox", ["danger-full-access", pytest.param("workspace-write", marks=needs_bwrap)]
)
async def test_all_that_an_agent_changed_comes_back_and_goes_again(rig, sandbox):
    furnish(rig.work)
    before = shape(rig.work)
    patch = {"name": "apply_patch", "custom": True, "arguments": PATCH}
    provider = rig.script(calls(call(EDITS)), calls(patch), says("done"))
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(provider, "-a", "never", sandbox=sandbox)).wait_end()
        assert ended.code == 0, ended.err
        after = shape(rig.work)
        assert (rig.work / "src" / "a.txt").read_text() == "ONE\nTWO\n"
        shown = (await swarm(rig, "diff")).out
        stat = (await swarm(rig, "diff", rig.run_id, "--stat")).out
        undone = await swarm(rig, "undo", rig.run_id, "/root", "--turn", "last")
        assert shape(rig.work) == before
        assert (await swarm(rig, "diff")).out == ""
        (again,) = [line for line in undone.err.splitlines() if "to take this back" in line]
        await swarm(rig, *again.partition("swarm ")[2].split())
    assert shape(rig.work) == after
    assert "-one\n-two\n+ONE\n+TWO\n" in shown
    assert "diff --git a/gone b/gone\ndeleted file mode 100644\n" in shown
    assert "old mode 100644\nnew mode 100755\n" in shown
    assert "Binary files a/bytes and b/bytes differ\n" in shown
    assert "-gone\n" in shown
    assert " 9 files changed, +6 -5" in stat


async def test_undo_while_the_run_lives_leaves_what_a_person_changed_since(rig):
    for name in ("mine", "theirs"):
        (rig.work / name).write_text("old\n")
    os.mkfifo(rig.work / "pipe")
    provider = rig.script(
        calls(call("echo new > mine; echo new > theirs; echo x > made")),
        calls(call("cat pipe")),  # it only reads, so what changes meanwhile is not its work
        says("done"),
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider, "-a", "never")
        await rig.wait(lambda: rig.bodies(FilesChanged) and len(rig.bodies(CallBegan)) == 2)
        (rig.work / "theirs").write_text("a person's\n")
        undone = await swarm(rig, "undo", rig.run_id, "root")
        assert (rig.work / "mine").read_text() == "old\n"
        assert (rig.work / "theirs").read_text() == "a person's\n"
        assert not (rig.work / "made").exists()
        forced = await swarm(rig, "undo", rig.run_id, "root", "--force")
        (rig.work / "pipe").write_text("go")
        assert (await run.wait_end()).code == 0
        left = (await swarm(rig, "diff", rig.run_id)).out
    assert "put back 2 files" in undone.err
    assert f"{rig.work}/theirs" in undone.err
    assert "put back 1 file" in forced.err
    assert (rig.work / "theirs").read_text() == "old\n"
    assert "theirs" not in left
    assert "mine" not in left


async def test_what_two_agents_may_have_changed_is_shared_and_taken_back_for_both(rig):
    (rig.work / "f").write_text("old\n")
    together = "{} until test -e a && test -e b; do sleep 0.02; done; {}; until test -e f2; do sleep 0.02; done"  # noqa: E501
    spawn = [
        {"name": "spawn_agent", "arguments": {"task_name": n, "message": n, "fork_turns": "none"}}
        for n in ("a", "b")
    ]
    provider = rig.script(
        calls(*spawn),
        calls({"name": "wait_agent", "arguments": {"targets": ["a", "b"], "for": "all"}}),
        says("done"),
        calls(call(together.format("touch a;", "echo new > f; touch f2")), agent="/root/a"),
        says("a", agent="/root/a"),
        calls(call(together.format("touch b;", "true")), agent="/root/b"),
        says("b", agent="/root/b"),
    )
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(provider, "-a", "never")).wait_end()
        assert ended.code == 0, ended.err
        alone = await swarm(rig, "undo", rig.run_id, "/root/a")
        assert (rig.work / "f").read_text() == "new\n"
        both = await swarm(rig, "undo", rig.run_id)
    assert "another agent worked at the same time" in alone.err
    assert f"{rig.work}/f" in alone.err
    assert "put back" in both.err
    assert (rig.work / "f").read_text() == "old\n"
    assert not (rig.work / "a").exists()


async def test_each_turn_has_changes_of_its_own(rig):
    (rig.work / "f").write_text("0\n")
    provider = rig.script(
        calls(call("echo 1 > f; echo 1 > first")), says("one"),
        calls(call("echo 2 > f")), says("two"),
    )  # fmt: skip
    with trio.fail_after(LIMIT_S):
        assert (await (await rig.run(provider, "-a", "never")).wait_end()).code == 0
        (rig.work / "beside").write_text("a person's, between the turns")
        assert (await (await rig.resume("-p", "more")).wait_end()).code == 0
        first = (await swarm(rig, "diff", rig.run_id, "--turn", "1", "--stat")).out
        last = (await swarm(rig, "diff", rig.run_id, "root", "--turn", "-1", "--stat")).out
        await swarm(rig, "undo", rig.run_id, "root", "--turn", "last")
        assert (rig.work / "f").read_text() == "1\n"
        await swarm(rig, "undo", rig.run_id)
        nothing = await swarm(rig, "undo", rig.run_id, code=2)
        unknown = await swarm(rig, "undo", rig.run_id, "--turn", "7", code=2)
    assert first.splitlines()[-1] == " 2 files changed, +2 -1"
    assert last.splitlines() == [" f | +1 -1", " 1 file changed, +1 -1"]
    assert (rig.work / "f").read_text() == "0\n"
    assert not (rig.work / "first").exists()
    assert (rig.work / "beside").exists()
    assert "nothing to undo" in nothing.err
    assert "there is no turn 7; this agent has had 2" in unknown.err


async def test_a_session_that_goes_on_after_its_call_keeps_its_changes(rig):
    provider = rig.script(
        calls(call(f"{UNTIL_GO}; echo late > late", yield_time_ms=250)),
        calls(call("touch go; until test -e late; do sleep 0.02; done")),
        says("done"),
    )
    with trio.fail_after(LIMIT_S):
        assert (await (await rig.run(provider, "-a", "never")).wait_end()).code == 0
        stat = (await swarm(rig, "diff", rig.run_id, "--stat")).out
    assert "late" in stat
    assert "go" in stat


async def test_what_a_long_command_changed_is_known_before_it_ends_and_after_a_crash(rig):
    (rig.work / "f").write_text("old\n")
    provider = rig.script(calls(call(f"echo new > f; {UNTIL_GO}", yield_time_ms=30_000)))
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider, "-a", "never")
        await rig.wait(lambda: rig.bodies(FilesChanged))
        assert not rig.bodies(CallEnded)
        run.process.kill()
        await run.process.wait()
        await swarm(rig, "undo", rig.run_id, "--yes")
    assert (rig.work / "f").read_text() == "old\n"


async def test_a_turn_tells_what_its_patches_and_commands_changed_once_and_after_its_end(rig):
    furnish(rig.work)
    patch = {"name": "apply_patch", "custom": True, "arguments": PATCH}
    provider = rig.script(
        calls(call("echo token ghp_abcdefghijklmnopqrstuvwxyz > s; rm gone; echo b > both")),
        calls(call("echo c > both"), patch), says("one"),
        calls(call("seq 9000 > many")), says("two"),
    )  # fmt: skip
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(provider, "-a", "never", "--json")).wait_end()
        assert ended.code == 0, ended.err
        assert (await (await rig.resume("-p", "more")).wait_end()).code == 0
        log = (await swarm(rig, "log", rig.run_id)).out
        shown = (await swarm(rig, "show", rig.run_id, "root")).out
    lines = [json.loads(line) for line in ended.out.splitlines()]
    kinds = [line["type"] for line in lines]
    (told,) = [line for line in lines if line["type"] == "turn.diff"]
    assert kinds.index("turn.completed") < kinds.index("turn.diff") < len(kinds) - 1
    assert (told["files"], told["added"], told["removed"], told["hidden"]) == (5, 4, 2, 0)
    for part in ("-one\n+ONE\n", "+++ /dev/null\n", "+c\n", "+token [redacted]\n", "b/added\n"):
        assert part in told["unified_diff"]
    assert "+b\n" not in told["unified_diff"]  # only what is left of it
    first, second = rig.bodies(TurnDiff)
    assert first.diff == told["unified_diff"]
    assert first.turn_id != second.turn_id
    assert not first.file
    assert (rig.places.folder / second.file).read_text().endswith("\n+9000\n")
    assert "turn_diff 5 files, +4 -2" in log
    assert "the turn changed 1 file, +9000 -0" in shown


async def test_a_turn_in_a_tree_too_large_to_watch_says_what_no_undo_covers(rig):
    big = rig.work / "big"
    big.mkdir()
    for n in range(10_001):
        (big / str(n)).touch()
    provider = rig.script(calls(call("echo x > big/1; echo x > small")), says("done"))
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(provider, "-a", "never")).wait_end()
        listed = await swarm(rig, "undo", "--list")
    (told,) = rig.bodies(TurnDiff)
    assert (told.files, told.uncovered) == (1, (str(big),))
    assert "b/small" in told.diff
    assert "what commands did in 1 folder is not known and no undo covers it" in ended.err
    assert str(big) in ended.err
    assert str(big) in listed.err


async def test_reading_commands_and_read_only_runs_have_nothing_looked_at_before(rig):
    (rig.work / "f").write_text("x\n")
    provider = rig.script(calls(call("cat f"), call("ls -la")), says("done"))
    with trio.fail_after(LIMIT_S):
        assert (await (await rig.run(provider, sandbox="read-only")).wait_end()).code == 0
    assert rig.bodies(CallEnded)
    assert rig.bodies(WatchBegan) == []
    assert rig.bodies(TurnDiff) == []


async def test_a_persons_edit_during_a_long_command_is_not_taken_back_without_a_yes(rig):
    """The command's own file is taken back with it, or neither."""
    mine = rig.work / "mine.txt"
    mine.write_text("before\n")
    long = f"echo made > theirs.txt; {UNTIL_GO}; sleep 5.2"
    with trio.fail_after(LIMIT_S):
        turns = (calls(call(long, yield_time_ms=30_000)), says("done"))
        started = await rig.run(rig.script(*turns), sandbox="workspace-write")
        await rig.wait(lambda: (rig.work / "theirs.txt").exists())
        mine.write_text("an hour of work\n")
        (rig.work / "go").touch()
        assert (await started.wait_end()).code == 0
        ended = await swarm(rig, "undo", rig.run_id)
        assert "perhaps by you" in ended.err
        assert (mine.read_text(), (rig.work / "theirs.txt").exists()) == ("an hour of work\n", True)
        refused = await swarm(rig, "undo", code=2)
        assert "--yes" in refused.err
        await swarm(rig, "undo", "--yes")
        assert (mine.read_text(), (rig.work / "theirs.txt").exists()) == ("before\n", False)
