"""AGENTS.md of folders where an agent works are told once each; changes are told again."""

from itertools import pairwise

import pytest
import trio

from support.nested_fields import with_fields
from swarm.mailbox.protocol.changes import FileChange
from swarm.mailbox.protocol.events import CommandCall, OtherCall, PatchCall, Warned
from swarm.mailbox.protocol.items import FunctionCall, Message, text_message, text_of
from swarm.mailbox.protocol.spec import ContextRules
from swarm.worker.agent.context.context_blocks import guidance_text
from swarm.worker.agent.turn.guidance_watch import FolderGuidance, GuidanceWatch
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.testing.agent_harness import END, done, open_agent_harness
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC, FakeTool


@pytest.fixture
def tree(tmp_path):
    project = tmp_path / "project"
    for folder in (".git", "src/deep", "other", "node_modules/x", "clone/.git", "clone/in"):
        (project / folder).mkdir(parents=True)
    for folder in ("src", "src/deep", "node_modules/x", "clone", "clone/in", ".git"):
        (project / folder / "AGENTS.md").write_text(f"of {folder}")
    return project


def spec_for(tree, **rules):
    context = ContextRules(**{"guidance_bytes": 32_768, "guidance_home": str(tree / "no"), **rules})
    return with_fields(FAKE_AGENT_SPEC, cwd=str(tree), context=context)


def current_spec(tree, **rules):
    return CurrentSpec(spec_for(tree, **rules))


def command(tree, script, where="."):
    return CommandCall(script=script, argv=("bash",), cwd=str(tree / where))


def told(watch, *details):
    return [one.text for one in watch.find_new_guidance(details)]


def test_a_folder_below_is_told_when_a_call_works_in_it_outer_ones_first_and_once(tree):
    watch = GuidanceWatch(current_spec(tree), ())
    assert told(watch, command(tree, "ls")) == []
    assert told(watch, command(tree, "sed -n 1,9p src/deep/a.py | head")) == [
        "of src", "of src/deep",
    ]  # fmt: skip
    assert told(watch, command(tree, "ls", "src/deep")) == []


def test_a_patch_a_listing_and_a_working_folder_count_alike(tree):
    change = FileChange(path=str(tree / "src" / "new.py"), kind="add")
    for detail in (
        PatchCall(changes=(change,)),
        OtherCall(argument="src"),
        command(tree, "ls", "src"),
    ):
        assert GuidanceWatch(current_spec(tree), ()).find_new_guidance([detail]) == [
            FolderGuidance(str(tree / "src"), "of src")
        ]


@pytest.mark.parametrize(
    "script", ["ls node_modules/x", "cat clone/in/a", "ls .git", "ls /etc ..", "ls 'a\0b'"]
)
def test_packages_foreign_repositories_and_places_outside_give_no_instructions(tree, script):
    assert told(GuidanceWatch(current_spec(tree), ()), command(tree, script)) == []


def test_what_a_former_life_was_told_is_not_told_again(tree):
    items = (text_message("user", guidance_text("of src", cwd=str(tree / "src"))),)
    assert told(GuidanceWatch(current_spec(tree), items), command(tree, "ls", "src")) == []


def test_all_files_keep_to_one_budget_and_a_cut_is_visible(tree):
    (tree / "AGENTS.md").write_text("r" * 90)
    (tree / "src" / "AGENTS.md").write_text("s" * 10_000_000)
    watch = GuidanceWatch(current_spec(tree, guidance_bytes=100), ())
    (tree / "src" / "deep" / "AGENTS.md").write_text("short")
    text, fits = told(watch, command(tree, "ls", "src/deep"))
    assert text.startswith("[Left out here: 10,000,000 bytes of ")
    assert f"{tree / 'src' / 'AGENTS.md'}, for the files of this project use up" in text
    assert "cut after 0 of 10,000,000 bytes" in watch.warnings[0]
    assert fits == "short"


def test_a_file_of_a_folder_below_that_has_no_place_any_more_is_named(tree):
    (tree / "AGENTS.md").write_text("r" * 200)
    watch = GuidanceWatch(current_spec(tree, guidance_bytes=100), ())
    (outer, _) = told(watch, command(tree, "ls", "src/deep"))
    assert outer.startswith("[Left out here: 6 bytes of ")
    assert "AGENTS.md is cut after 0 of 6 bytes" in watch.warnings[0]


def test_a_budget_of_nothing_reads_nothing(tree):
    assert (
        told(GuidanceWatch(current_spec(tree, guidance_bytes=0), ()), command(tree, "ls src")) == []
    )


def test_no_link_leads_out_of_the_project_nor_in_circles_and_any_bytes_can_be_told(tree):
    secret = tree.parent / "secret"
    secret.write_text("secret")
    (tree / "src" / "AGENTS.md").unlink()
    (tree / "src" / "AGENTS.md").symlink_to(secret)
    (tree / "src" / "deep" / "AGENTS.md").unlink()
    (tree / "src" / "deep" / "AGENTS.md").symlink_to("AGENTS.md")
    (tree / "other" / "AGENTS.md").write_bytes(b"caf\xe9 \xff")
    (tree / "loop").symlink_to("loop")
    watch = GuidanceWatch(current_spec(tree), ())
    assert told(watch, command(tree, "cat src/deep/x other/y loop/z")) == ["caf\ufffd \ufffd"]
    assert "leads out of" in watch.warnings[0]


class Look(FakeTool):
    def __init__(self, place):
        super().__init__("look")
        self._place = place

    @property
    def detail(self):
        return OtherCall(argument=self._place)


def texts(items):
    return [text_of(item.content) for item in items if isinstance(item, Message)]


CALL = FunctionCall(call_id="c", name="look", arguments="{}")


async def test_it_is_appended_behind_the_outputs_and_a_changed_chain_before_the_next_words(
    tree, autojump_clock
):
    (tree / "AGENTS.md").write_text("first")
    spec = with_fields(spec_for(tree), user_instructions="first")
    say = text_message("assistant", "ok")
    replies = [(done(CALL), END), *[(done(say), END)] * 3]
    async with open_agent_harness(spec, replies, tools=[Look("src")]) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
        await play.supervisor.send_text("unchanged", input_id="t2")
        await play.supervisor.wait_turns(2)
        await trio.Path(tree / "AGENTS.md").write_text("second")
        await play.supervisor.send_text("changed", input_id="t3")
        await play.supervisor.wait_turns(3)
        inputs = play.gateway.inputs
        assert play.supervisor.events_of(Warned) == []
    for before, after in pairwise(inputs):
        assert after[: len(before)] == before
    assert texts(inputs[1])[-1] == guidance_text("of src", cwd=str(tree / "src"))
    last = texts(inputs[-1])
    assert last[-1] == "changed"
    assert last[-2] == guidance_text("second", cwd=str(tree), replaces=True)
    assert sum("AGENTS.md instructions for" in text for text in last) == 3


async def test_what_was_picked_up_survives_a_compaction(tree, autojump_clock):
    spec = with_fields(spec_for(tree, compact_tokens=2_000), user_instructions="chain")
    say = text_message("assistant", "word " * 2_000)
    replies = [(done(say), done(CALL), END), (done(say), END), (done(say), END)]
    async with open_agent_harness(spec, replies, tools=[Look("src")]) as play:
        await play.supervisor.send_text("go")
        await play.supervisor.wait_turns()
        last = texts(play.gateway.inputs[-1])
    assert "chain" in last[1]
    assert last[2] == guidance_text("of src", cwd=str(tree / "src"))
    assert last[3] == "go"


def test_a_file_that_becomes_a_link_out_of_the_project_is_told_no_more_and_that_is_said_once(tree):
    watch = GuidanceWatch(current_spec(tree), ())
    (tree / "AGENTS.md").write_text("mine")
    assert watch.read_chain().text == "mine"
    (tree.parent / "secret").write_text("secret")
    (tree / "AGENTS.md").unlink()
    (tree / "AGENTS.md").symlink_to("../secret")
    assert (watch.read_chain().text, watch.read_chain().text) == ("", "")
    assert [("leads out of" in one) for one in watch.warnings] == [True]


def test_a_link_in_the_place_of_the_project_itself_changes_nothing_of_where_it_is(tree):
    watch = GuidanceWatch(current_spec(tree), ())
    (tree.parent / "elsewhere").mkdir()
    (tree.parent / "elsewhere" / "AGENTS.md").write_text("secret")
    tree.rename(tree.with_name("moved"))
    tree.symlink_to("elsewhere")
    assert watch.read_chain().text == ""
