"""`swarm init` as a person and a script use it: shown first, written after a yes, links refused."""

import pytest
import trio

pytestmark = pytest.mark.live
LIMIT_S = 30


def prepare(rig):
    (rig.work / "Makefile").write_text("test:\n\ttrue\n")
    (rig.work / "src").mkdir()
    (rig.work / "src" / "a.py").write_text("x = 1\n")
    return rig.work / "AGENTS.md"


async def init(rig, *words):
    with trio.fail_after(LIMIT_S):
        return await (await rig.start("init", *words)).wait_end()


async def test_the_change_is_shown_and_written_only_after_a_yes(rig):
    file = prepare(rig)
    asked = await init(rig, "--from-files")
    assert asked.code == 2
    assert "+- test: `make test` (Makefile)" in asked.out
    assert "--yes" in asked.err
    assert not file.exists()
    done = await init(rig, "--from-files", "--yes")
    assert done.code == 0
    assert "- test: `make test` (Makefile)" in file.read_text()
    again = await init(rig, "--from-files", "--yes")
    assert (again.code, again.out) == (0, "")
    assert "says all that already" in again.err


async def test_a_persons_text_stays_and_only_the_section_changes(rig):
    file = prepare(rig)
    file.write_text("# Mine\n\nNever push.\n")
    assert (await init(rig, "--from-files", "--yes")).code == 0
    (rig.work / "Makefile").write_text("lint:\n\ttrue\n")
    assert (await init(rig, "--from-files", "--yes")).code == 0
    text = file.read_text()
    assert text.startswith("# Mine\n\nNever push.\n")
    assert "make lint" in text
    assert "make test" not in text


async def test_a_link_in_its_place_is_refused_and_its_target_is_left_alone(rig, tmp_path):
    file = prepare(rig)
    target = tmp_path / "target.md"
    target.write_text("other\n")
    file.symlink_to(target)
    ended = await init(rig, "--from-files", "--yes")
    assert ended.code == 2
    assert "it is a link" in ended.err
    assert target.read_text() == "other\n"


async def test_an_explorer_writes_the_section_and_a_draft_can_be_kept(rig, tmp_path):
    file = prepare(rig)
    script = rig.script({"text": "## Layout\n\n- `src/`: the code."})
    draft = tmp_path / "draft.md"
    kept = await init(rig, "--provider", script, "--save-draft", str(draft))
    assert kept.code == 0, kept.err
    assert "swarm watch" in kept.err
    assert not file.exists()
    assert (await init(rig, "--draft", str(draft), "--yes")).code == 0
    assert "- `src/`: the code." in file.read_text()


async def test_an_answer_that_is_no_section_leaves_the_build_files(rig):
    file = prepare(rig)
    ended = await init(rig, "--provider", rig.script({"text": "I cannot."}), "--yes")
    assert ended.code == 0
    assert "the draft is from the build files" in ended.err
    assert "make test" in file.read_text()
