"""A copy holds all that its agent's commands may write, from its start on and after any change."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from support.project_copy import CopiedProject
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.moved_path import moved_path
from swarm.mailbox.base.path_rules import make_rules
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Limits, ProfilePolicy, ReadOnly, WorkspaceWrite
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.agents.rights_widening import begin_planning
from swarm.supervisor.control_requests.settings_requests import SettingsRequests
from swarm.supervisor.parts.copies.copy_bounds import find_path_outside
from swarm.supervisor.parts.copies.copy_view import CopyView
from swarm.supervisor.parts.copies.merge_service import CopiedWork
from swarm.supervisor.parts.copies.project_copies import ProjectCopies
from swarm.supervisor.processes.process_types import SpawnError


@pytest.fixture
def project(tmp_path: Path) -> CopiedProject:
    made = CopiedProject(tmp_path)
    made.write({"a": "a\n"})
    (tmp_path / "more").mkdir()
    return made


def plan_of(project: CopiedProject, sandbox, isolation="copy") -> AgentPlan:
    limits = Limits(sandbox=sandbox, isolation=isolation)
    return AgentPlan(
        path="/root/a", agent_id="a", role=RoleBrief(), limits=limits, cwd=str(project.root),
        parent="/root", depth=1,
    )  # fmt: skip


def copies_of(project: CopiedProject, kind="overlay") -> ProjectCopies:
    return ProjectCopies(project.paths, kind)


def profile(*writable: str) -> ProfilePolicy:
    rules = make_rules((("/", "read"), *((path, "write") for path in writable)))
    return ProfilePolicy(name="p", rules=rules)


@pytest.mark.parametrize(
    ("sandbox", "found"),
    [
        (WorkspaceWrite(), ""),
        (WorkspaceWrite(writable_roots=("/tmp",)), ""),
        (WorkspaceWrite(writable_roots=("/later/made",)), "/later/made"),
        (profile("/held/file"), ""),
        (profile("/held", "/etc/hosts"), "/etc/hosts"),
        (profile("/"), "/"),
        (ReadOnly(), ""),
    ],
)
def test_what_may_be_written_outside_of_the_copy_is_found(sandbox, found):
    plan = AgentPlan(
        path="/root", agent_id="r", role=RoleBrief(), limits=Limits(sandbox=sandbox), cwd="/held"
    )
    assert find_path_outside(plan, ("/held",)) == found


def test_a_link_in_the_copy_that_leads_out_of_it_is_outside(project, tmp_path):
    (project.root / "way").symlink_to(tmp_path / "more")
    plan = plan_of(project, WorkspaceWrite(writable_roots=(f"{project.root}/way",)))
    assert find_path_outside(plan, (str(project.root),)) == f"{project.root}/way"


async def test_a_copy_that_is_made_in_plan_mode_holds_what_may_be_written_after_it(
    project, tmp_path
):
    plan = plan_of(project, WorkspaceWrite(writable_roots=(f"{tmp_path}/more",)))
    view = await copies_of(project).prepare(begin_planning(plan), is_first=True)
    assert {one.path for one in view.mounts} == {str(project.root), f"{tmp_path.resolve()}/more"}


async def test_no_copy_is_made_that_would_not_hold_all_writes(project, tmp_path):
    (tmp_path / "file").write_text("")
    for path in (f"{tmp_path}/file", "/var/missing-folder"):
        plan = plan_of(project, profile(str(project.root), path))
        with pytest.raises(SpawnError, match=f"may write {path}"):
            await copies_of(project).prepare(plan, is_first=True)


def check(project: CopiedProject, before: AgentPlan, after: AgentPlan, wanted="shared") -> None:
    request = SimpleNamespace(isolation_wanted=lambda role, is_root: wanted)
    running = SimpleNamespace(copies=ProjectCopies(project.paths), request=request)
    SettingsRequests._check_copy(SimpleNamespace(_run=running), before, after)


async def test_nobody_gives_an_agent_in_a_copy_what_its_copy_does_not_hold(project, tmp_path):
    plan = plan_of(project, WorkspaceWrite())
    await copies_of(project).prepare(plan, is_first=True)
    wider = WorkspaceWrite(writable_roots=(f"{tmp_path}/more",))
    for after in (replace(plan, limits=replace(plan.limits, sandbox=wider)),
                  replace(plan, cwd=f"{tmp_path}/more")):  # fmt: skip
        with pytest.raises(UsageError, match="is not in the copy in which /root/a works"):
            check(project, plan, after)
    check(project, plan, replace(plan, cwd=f"{project.root}/sub"))


def test_an_agent_that_got_no_copy_since_it_could_only_read_does_not_come_to_write(project):
    reader = plan_of(project, ReadOnly(), isolation="shared")
    writer = plan_of(project, WorkspaceWrite(), isolation="shared")
    with pytest.raises(UsageError, match="start another agent"):
        check(project, reader, writer, wanted="copy")
    check(project, reader, writer)
    check(
        project, writer, replace(writer, model_settings=ModelSettings(effort="low")), wanted="copy"
    )


async def test_a_copy_in_another_folder_is_never_led_back_to_the_project(project, tmp_path):
    plan = plan_of(project, WorkspaceWrite())
    (project.root / "sub").mkdir()
    view = await copies_of(project, "tree").prepare(plan, is_first=True)
    tree = str(project.paths.copy_trees / "a")
    origin = str(project.root)
    assert view == CopyView(origin=origin, tree=tree, shows=(origin,))
    assert moved_path(f"{project.root}/sub", view.origin, view.tree) == f"{tree}/sub"
    assert moved_path(f"{project.root}", view.origin, view.tree) == tree
    assert moved_path("/etc", view.origin, view.tree) == "/etc"
    (tmp_path / "way").symlink_to(project.root)
    assert moved_path(f"{tmp_path}/way/sub", view.origin, view.tree) == f"{tree}/sub"
    inside = WorkspaceWrite(writable_roots=(f"{project.root}/sub",))
    for sandbox in (inside, profile(str(project.root))):
        with pytest.raises(UsageError, match="a copy that is another folder"):
            check(project, plan, replace(plan, limits=replace(plan.limits, sandbox=sandbox)))


async def test_a_copy_in_another_folder_is_made_whole_after_one_that_was_cut_off(project):
    plan = plan_of(project, WorkspaceWrite())
    half = project.paths.copy_trees / "a"
    half.mkdir(parents=True)
    (half / "left").write_text("of a process that was killed")
    view = await copies_of(project, "tree").prepare(plan, is_first=True)
    assert sorted(os.listdir(view.tree)) == ["a"]
    again = await copies_of(project, "overlay").prepare(plan, is_first=False)
    assert again == view


@pytest.mark.parametrize("sandbox", [WorkspaceWrite(writable_roots=("/tmp/x",)), profile("/")])
async def test_a_sandbox_that_names_folders_gets_no_copy_in_another_folder(project, sandbox):
    plan = plan_of(project, sandbox)
    with pytest.raises(SpawnError, match="gets no copy of the project"):
        await copies_of(project, "tree").prepare(plan, is_first=True)
    assert not project.paths.copy_trees.exists()


class CopiedLayer:
    """One file of a layer."""

    def __init__(self, folder: str) -> None:
        self._file = Path(folder, "new")

    def write(self, text: str) -> None:
        self._file.write_text(text)

    def read(self) -> str:
        return self._file.read_text()


def reader_of(project: CopiedProject, name: str, parent: str = "/root/a") -> AgentPlan:
    plan = plan_of(project, ReadOnly())
    return replace(plan, path=f"{parent}/{name}", agent_id=name, parent=parent)


@pytest.mark.parametrize("kind", ["overlay", "tree"])
async def test_who_only_sees_a_copy_has_no_change_and_is_never_let_write(project, kind):
    project.write({"file": "x\n"})
    copies = copies_of(project, kind)
    above = await copies.prepare(plan_of(project, WorkspaceWrite()), is_first=True)
    eye = reader_of(project, "eye")
    iris = reader_of(project, "iris", eye.path)
    seen = [await copies.prepare(one, is_first=True) for one in (eye, iris)]
    assert {one.tree for one in seen} == {above.tree}
    assert [one.path for one in CopiedWork(project.paths).agents()] == ["/root/a"]
    assert CopiedWork(project.paths).change_of("eye") is None
    copies.check_change(eye)
    writes = replace(eye, limits=plan_of(project, WorkspaceWrite()).limits)
    with pytest.raises(UsageError, match="only sees the copy in which /root/a works"):
        copies.check_change(writes)


async def test_readers_see_the_layer_as_it_was_when_the_first_of_them_began(project):
    project.write({"file": "x\n"})
    copies = copies_of(project)
    (above,) = (await copies.prepare(plan_of(project, WorkspaceWrite()), is_first=True)).mounts
    (nothing,) = (await copies.prepare(reader_of(project, "early"), is_first=True)).mounts
    assert (nothing.made, nothing.base) == ((), above.base)
    layer = CopiedLayer(above.upper)
    layer.write("first\n")
    eye = reader_of(project, "eye")
    (first,) = (await copies.prepare(eye, is_first=True)).mounts
    layer.write("second\n")
    below = reader_of(project, "iris", eye.path)
    (second,) = (await copies.prepare(below, is_first=True)).mounts
    assert first.made == second.made
    assert CopiedLayer(first.made[0]).read() == "first\n"
    assert len({first.upper, second.upper, above.upper, nothing.upper}) == 4


async def test_a_reader_whose_parent_has_no_copy_any_more_is_refused(project):
    with pytest.raises(SpawnError, match="the one in which /root/a works is gone"):
        await copies_of(project).prepare(reader_of(project, "eye"), is_first=True)
