"""What is run to get copies ready, when it is run again, and how it is bounded."""

import msgspec
import pytest
import trio

from support.project_copy import CopiedProject
from swarm.supervisor.parts.copies import prepared_layers
from swarm.supervisor.parts.copies.base_tree import make_tree
from swarm.supervisor.parts.copies.prepare_commands import find_tool_folders
from swarm.supervisor.parts.copies.prepared_layers import Preparation, PreparedLayers
from swarm.supervisor.parts.copies.tree_survey import CopyRefused, survey_tree
from swarm.supervisor.parts.undo.watched_tree import now_ns

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


class Play:
    """A project whose copies are folders; no sandbox is needed to see what is run."""

    def __init__(self, project: CopiedProject, monkeypatch) -> None:
        self.project, self.ran, self.turns = project, [], []
        monkeypatch.setattr(prepared_layers, "run_prepare_command", self._run)
        self.act = None

    async def _run(self, program, command, environment):
        self.ran.append(command)
        self.program = program
        if self.act is not None:
            await self.act()

    def layers(self, *commands: str, inputs: tuple[str, ...] = ()) -> PreparedLayers:
        wanted = Preparation(commands, inputs, ENVIRONMENT, self._hold)
        return PreparedLayers(self.project.folder, wanted)

    def _hold(self, work):
        self.turns.append((work.machine, work.head, work.command))
        return prepared_layers.hold_no_turn(work)

    def copy(self, **files: str):
        self.project.write({name.replace("__", "."): text for name, text in files.items()})
        if not self.project.folder.newest_base():
            self.project.freeze()
        else:  # a later base
            number = self.project.folder.newest_base() + 1
            survey = survey_tree(str(self.project.root), (), now_ns=now_ns())
            self.project.folder.make_base_folder(number)
            make_tree(str(self.project.root), survey, self.project.folder.tree(number, 0), None)
            self.project.folder.write_survey(number, 0, survey)
        self.project.add_agent("mason")
        found = self.project.folder.find("mason")
        assert found is not None
        newest = self.project.folder.newest_base()
        return msgspec.structs.replace(found, base=newest, tree=str(self.project.root))


@pytest.fixture
def play(tmp_path, monkeypatch):
    return Play(CopiedProject(tmp_path), monkeypatch)


async def test_without_commands_nothing_is_made(play):
    assert await play.layers().make_ready(play.copy(text="x"), ()) == ""
    assert play.ran == [] and not play.project.folder.prepared("").exists()


async def test_they_run_once_for_each_state_of_the_files_in_the_machines_turn(play):
    layers = play.layers("one", "two")
    first = await layers.make_ready(play.copy(package__json="a", other="x"), ("/hidden",))
    assert await layers.make_ready(play.copy(other="y"), ()) == first
    assert await layers.make_ready(play.copy(package__json="b"), ()) != first
    assert await layers.make_ready(play.copy(package__json="a"), ()) == first
    assert play.ran == ["one", "two"] * 2
    assert play.turns == [("", "prepare", "one; two")] * 2
    words = " ".join(play.program)
    assert "-s workspace-write --network" in words
    assert await play.layers("one").make_ready(play.copy(), ()) != first, "other commands"


async def test_the_files_can_be_named(play):
    layers = play.layers("one", inputs=("oth*",))
    first = await layers.make_ready(play.copy(package__json="a", other="x"), ())
    assert await layers.make_ready(play.copy(package__json="b"), ()) == first
    assert await layers.make_ready(play.copy(other="y"), ()) != first


async def test_a_failure_is_told_to_all_and_tried_once_and_leaves_nothing(play):
    async def fail():
        raise prepared_layers.PrepareFailed("`one` ended with exit code 7: no")

    play.act = fail
    layers = play.layers("one", "two")
    for _ in range(2):
        with pytest.raises(CopyRefused, match="prepare failed: `one` ended with exit code 7: no"):
            await layers.make_ready(play.copy(text="x"), ())
    assert play.ran == ["one"]
    assert list(play.project.folder.prepared("").iterdir()) == []


async def test_commands_that_take_too_long_or_fill_the_disk_are_ended(
    play, monkeypatch, autojump_clock
):
    play.act = trio.sleep_forever
    with pytest.raises(CopyRefused, match="took over 1800 s"):
        await play.layers("one").make_ready(play.copy(text="x"), ())
    monkeypatch.setattr(prepared_layers, "SPARE_BYTES", 1 << 62)
    with pytest.raises(CopyRefused, match="MiB left"):
        await play.layers("two").make_ready(play.copy(text="x"), ())


async def test_what_they_leave_is_bounded(play, monkeypatch):
    monkeypatch.setattr(prepared_layers, "MAX_ENTRIES", 3)

    async def fill_folder():
        (tree,) = play.project.folder.prepared_tree("x").parent.glob("prepared-*")
        for name in range(9):
            (tree / "node_modules" / str(name)).mkdir(parents=True)

    play.act = fill_folder
    with pytest.raises(CopyRefused, match="left more than 3 files"):
        await play.layers("one").make_ready(play.copy(text="x"), ())


async def test_half_of_what_was_made_before_a_kill_is_made_anew(play):
    layers = play.layers("one")
    key = await layers.make_ready(play.copy(text="x"), ())
    (play.project.folder.prepared(key) / "done").unlink()
    (play.project.folder.prepared_tree(key) / "node_modules").mkdir()
    assert await play.layers("one").make_ready(play.copy(text="x"), ()) == key
    assert play.ran == ["one", "one"]
    assert not (play.project.folder.prepared_tree(key) / "node_modules").exists()


def test_filled_folders_are_shown_and_links_and_empty_ones_are_not(tmp_path):
    (tmp_path / "node_modules/x/node_modules/y").mkdir(parents=True)
    (tmp_path / "sub/.venv").mkdir(parents=True)
    (tmp_path / "venv").symlink_to("/etc")
    assert find_tool_folders(tmp_path) == {"node_modules": str(tmp_path / "node_modules")}
