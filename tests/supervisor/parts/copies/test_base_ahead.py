"""A run whose agents will work in copies makes the base before the first of them is wanted."""

import os
import threading
from functools import partial
from pathlib import Path

import pytest
import trio

from support.nested_fields import with_fields
from support.project_copy import CopiedProject
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.parts.copies import base_tree, project_copies
from swarm.supervisor.parts.copies.project_copies import ProjectCopies, make_base
from swarm.supervisor.parts.undo.watched_tree import now_ns
from swarm.supervisor.request.run_request import RunRequest


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(project_copies, "_AHEAD_DELAY_S", 0.0)
    made = CopiedProject(tmp_path)
    made.write({"a.txt": "a\n", "folder/b.txt": "b\n"})
    return made


def bases(project: CopiedProject) -> list[str]:
    folder = project.paths.copies / "bases"
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def request(project: CopiedProject, **more) -> RunRequest:
    given = {"isolation": "copy", "sandbox": WorkspaceWrite(), "cwd": str(project.root)}
    return with_fields(RunRequest(task="t", prompt="p", cwd=""), **(given | more))


async def test_the_first_agent_gets_the_base_that_was_made_ahead(project, monkeypatch):
    later = partial(make_base, clock_ns=lambda: now_ns() + 10**9)  # its files are old by then
    monkeypatch.setattr(project_copies, "make_base", later)
    copies = ProjectCopies(project.paths, "overlay")
    await copies.make_ahead(request(project))
    assert bases(project) == ["1"]
    plan = AgentPlan(
        path="/root/a", agent_id="a", role=RoleBrief(), cwd=str(project.root),
        limits=Limits(sandbox=WorkspaceWrite(), isolation="copy"),
    )  # fmt: skip
    (mount,) = (await copies.prepare(plan, is_first=True)).mounts
    assert bases(project) == ["1"]
    assert (Path(mount.base) / "folder" / "b.txt").exists()


@pytest.mark.parametrize(
    "more",
    [
        {"isolation": "shared"},
        {"isolation": "auto"},
        {"resumes": True},
        {"cwd": "missing"},
    ],
)
async def test_nothing_is_made_where_no_copy_is_certain(project, more):
    await ProjectCopies(project.paths).make_ahead(request(project, **more))
    assert bases(project) == []


async def test_a_large_project_waits_for_the_first_agent(project, monkeypatch):
    monkeypatch.setattr(project_copies, "_AHEAD_MOST_BYTES", 3)
    await ProjectCopies(project.paths).make_ahead(request(project))
    assert bases(project) == []


async def test_a_project_that_holds_the_run_itself_is_not_copied(project):
    inside = request(project, cwd=str(project.root.parent))
    await ProjectCopies(project.paths).make_ahead(inside)
    assert bases(project) == []


async def test_the_end_of_the_run_does_not_wait_for_the_rest_of_the_copy(project, monkeypatch):
    project.write({f"folder/{number}.txt": "x\n" for number in range(50)})
    begun, ended, copied = trio.Event(), threading.Event(), []
    real = base_tree.copy_file

    def copy(path, target, *facts):
        copied.append(path)
        trio.from_thread.run_sync(begun.set)
        ended.wait()
        return real(path, target, *facts)

    monkeypatch.setattr(base_tree, "copy_file", copy)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ProjectCopies(project.paths).make_ahead, request(project))
        await begun.wait()
        nursery.cancel_scope.cancel()
        ended.set()
    assert len(copied) == 1
    assert bases(project) == []
