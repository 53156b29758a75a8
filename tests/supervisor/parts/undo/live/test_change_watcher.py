"""Looks beside calls: what a call changes while a look is under way is its own all the same."""

from types import SimpleNamespace

import pytest
import trio
import trio.testing

from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.protocol.records import FilesChanged, TurnDiff
from swarm.mailbox.protocol.requests import WatchFiles
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits
from swarm.supervisor.agents.agent_record import Agent, AgentPlan
from swarm.supervisor.parts.copies.project_copies import ProjectCopies
from swarm.supervisor.parts.undo.content_store import ContentStore
from swarm.supervisor.parts.undo.live.change_watcher import ChangeWatcher
from swarm.supervisor.runs.paths import RunPaths


class Notes:
    """Of a run, what watching needs: places, and somebody who is told."""

    def __init__(self, folder) -> None:
        self.paths = RunPaths(folder=folder / "runs" / "r", sockets=folder / "s" / "r")
        self.paths.folder.mkdir(parents=True)
        self.told: list[tuple[str, FilesChanged]] = []
        self.journal = SimpleNamespace(flush=trio.lowlevel.checkpoint, redactor=Redactor(()))
        self.diffs: list[tuple[str, str, TurnDiff]] = []
        self.copies = ProjectCopies(self.paths)

    def note(self, body, *, agent="", file="run") -> None:
        if isinstance(body, FilesChanged):
            self.told.append((agent, body))
        if isinstance(body, TurnDiff):
            self.diffs.append((agent, file, body))


@pytest.fixture
def work(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "f").write_text("old")
    return tmp_path / "work"


def agent_in(work, path="/root") -> Agent:
    limits = Limits(sandbox=DangerFullAccess())
    plan = AgentPlan(path=path, agent_id=path, role=RoleBrief(), limits=limits, cwd=str(work))
    return Agent(plan)


def request(call, turn="t"):
    return WatchFiles(turn_id=turn, call_id=call)


def changed(notes, store) -> dict[str, list[str]]:
    """Call ids → the names that they changed."""
    found: dict[str, list[str]] = {}
    for _, body in notes.told:
        names = [one.path.rpartition("/")[2] for one in store.read_manifest(body.after)]
        found.setdefault(" ".join(body.call_ids), []).extend(names)
    return found


async def test_a_call_that_begins_during_a_look_owns_what_that_look_finds(work, monkeypatch):
    notes, agent = Notes(work.parent), agent_in(work)
    store = ContentStore(notes.paths.file_copies)
    watching = ChangeWatcher(notes, store, trio.Lock())
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watching.run)
            await watching.call_starting(agent, request("one"))
            scan, inside, go_on = watching.tree.scan, trio.Event(), trio.Event()

            def slow():
                trio.from_thread.run_sync(inside.set)
                trio.from_thread.run(go_on.wait)
                return scan()

            monkeypatch.setattr(watching.tree, "scan", slow)
            watching.call_ended("one", detached=False)
            await inside.wait()
            await watching.call_starting(agent, request("two"))
            (work / "f").write_text("new")
            watching.call_ended("two", detached=False)
            go_on.set()
            await watching.finish()
            nursery.cancel_scope.cancel()
    assert changed(notes, store) == {"two": ["f"]}


async def test_a_run_that_ends_during_its_first_look_keeps_the_copies_open_for_it(
    work, monkeypatch
):
    notes = Notes(work.parent)
    watching = ChangeWatcher(notes, ContentStore(notes.paths.file_copies), trio.Lock())
    order = []
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            watching.tree.add_roots([str(work)])
            scan, inside, go_on = watching.tree.scan, trio.Event(), trio.Event()

            def slow():
                trio.from_thread.run_sync(inside.set)
                trio.from_thread.run(go_on.wait)
                found = scan()
                order.append("looked")
                return found

            monkeypatch.setattr(watching.tree, "scan", slow)
            monkeypatch.setattr(watching.tree, "close", lambda: order.append("closed"))
            nursery.start_soon(watching.run)
            nursery.start_soon(watching.request_scan)
            await inside.wait()
            async with trio.open_nursery() as ending:
                ending.start_soon(watching.finish)
                await trio.testing.wait_all_tasks_blocked()
                go_on.set()
            nursery.cancel_scope.cancel()
    assert order == ["looked", "closed"]


async def test_what_changes_while_nobody_works_is_nobodys(work):
    notes, agent = Notes(work.parent), agent_in(work)
    store = ContentStore(notes.paths.file_copies)
    watching = ChangeWatcher(notes, store, trio.Lock())
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watching.run)
            await watching.call_starting(agent, request("one"))
            (work / "mine").write_text("x")
            watching.call_ended("one", detached=False)
            await watching.request_scan()
            (work / "theirs").write_text("y")
            await watching.call_starting(agent, request("two", turn="u"))
            (work / "f").write_text("new")
            watching.call_ended("two", detached=False)
            await watching.finish()
            nursery.cancel_scope.cancel()
    assert changed(notes, store) == {"one": ["mine"], "two": ["f"]}


async def test_a_turns_diff_is_told_once_when_it_is_over_and_not_before(work):
    notes, agent = Notes(work.parent), agent_in(work)
    watching = ChangeWatcher(notes, ContentStore(notes.paths.file_copies), trio.Lock())
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watching.run)
            await watching.call_starting(agent, request("one"))
            (work / "f").write_text("new")
            watching.call_ended("one", detached=False)
            await watching.request_scan()
            assert notes.diffs == []
            watching.turn_ended(agent, "t")
            watching.turn_ended(agent, "a turn without calls")
            await watching.finish()
            nursery.cancel_scope.cancel()
    ((who, file, told),) = notes.diffs
    assert (who, file, told.turn_id, told.files) == ("/root", "/root", "t", 1)
    assert told.diff.endswith(
        "-old\n\\ No newline at end of file\n+new\n\\ No newline at end of file\n"
    )
