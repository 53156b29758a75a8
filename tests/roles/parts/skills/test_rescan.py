"""A second look for skills: a person's own count as they are now, trusted ones as they were."""

from pathlib import Path

import pytest

from swarm.roles.parts.skills.discovery import parse_skills, project_skills, read_project_skills
from swarm.roles.parts.skills.rescan import SkillSources, look_again, watched_folders
from swarm.roles.parts.skills.skill_cache import SkillCache
from swarm.roles.parts.skills.skill_file import Skill
from swarm.roles.parts.skills.skill_list import SkillRule


def write(folder: Path, name: str, text: str = "Do it.") -> Path:
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\nname: {name}\ndescription: x\n---\n{text}\n")
    return file


def trusted(project: Path, memory: Path) -> tuple[Skill, ...]:
    """The skills of a project's folder as a run finds them at its start."""
    files = dict(read_project_skills(project))
    return parse_skills(project_skills(files, SkillCache(memory))).skills


def names(sources: SkillSources, at_start: tuple[Skill, ...], memory: Path) -> list[str]:
    return [one.name for one in look_again(sources, at_start, SkillCache(memory)).skills]


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    return tmp_path / "memory.json"


def test_a_persons_new_skill_counts_a_removed_one_does_not(tmp_path: Path, memory: Path):
    sources = SkillSources(roots=((str(tmp_path / "own"), "user"),))
    assert names(sources, (), memory) == []
    file = write(tmp_path / "own", "notes")
    assert names(sources, (), memory) == ["notes"]
    file.unlink()
    assert names(sources, (), memory) == []


def test_one_that_is_switched_off_stays_off(tmp_path: Path, memory: Path):
    write(tmp_path / "own", "notes")
    rules = (SkillRule(name="notes", enabled=False),)
    sources = SkillSources(roots=((str(tmp_path / "own"), "user"),), rules=rules)
    assert names(sources, (), memory) == []


def test_a_trusted_skill_counts_while_it_is_as_it_was(tmp_path: Path, memory: Path):
    file = write(tmp_path / ".agents" / "skills", "notes")
    at_start = trusted(tmp_path, memory)
    assert names(SkillSources(), at_start, memory) == ["notes"]
    old = file.read_bytes()
    write(tmp_path / ".agents" / "skills", "notes", "Do evil.")
    changed = look_again(SkillSources(), at_start, SkillCache(memory))
    assert (changed.skills, changed.untrusted) == ((), at_start)
    file.write_bytes(old)
    assert names(SkillSources(), at_start, memory) == ["notes"]


def test_a_trusted_skill_that_became_a_link_is_left_out(tmp_path: Path, memory: Path):
    file = write(tmp_path / ".agents" / "skills", "notes")
    at_start = trusted(tmp_path, memory)
    file.rename(tmp_path / "kept")
    file.symlink_to(tmp_path / "kept")
    assert look_again(SkillSources(), at_start, SkillCache(memory)).untrusted == at_start


def test_a_new_skill_of_a_project_does_not_count_in_a_run_that_has_begun(
    tmp_path: Path, memory: Path
):
    write(tmp_path / ".agents" / "skills", "notes")
    at_start = trusted(tmp_path, memory)
    write(tmp_path / ".agents" / "skills", "other")
    assert names(SkillSources(), at_start, memory) == ["notes"]


def test_folders_without_a_skill_are_watched_too(tmp_path: Path):
    write(tmp_path / "own", "notes")
    (tmp_path / "own" / "empty").mkdir()
    sources = SkillSources(roots=((str(tmp_path / "own"), "user"),))
    own = tmp_path / "own"
    assert set(watched_folders(sources, ())) == {str(own), str(own / "empty"), str(own / "notes")}


def test_a_persons_skill_that_a_command_may_write_counts_as_it_was_at_the_start(
    tmp_path: Path, memory: Path
):
    project, own = tmp_path / "project", tmp_path / "own"
    file = write(project / "skills", "notes")
    own.mkdir()
    (own / "notes").symlink_to(file.parent)
    sources = SkillSources(roots=((str(own), "user"),))
    cache, writable = SkillCache(memory), (str(project),)
    at_start = look_again(sources, (), cache).skills
    assert look_again(sources, at_start, cache, writable=writable).skills == at_start
    write(project / "skills", "notes", "Do evil.")
    changed = look_again(sources, at_start, cache, writable=writable)
    assert changed.skills == ()
    assert [one.name for one in changed.untrusted] == ["notes"]


def test_a_persons_skills_below_a_protected_name_of_the_folder_are_followed(
    tmp_path: Path, memory: Path
):
    write(tmp_path / ".agents" / "skills", "notes")
    sources = SkillSources(roots=((str(tmp_path / ".agents" / "skills"), "user"),))
    seen = look_again(sources, (), SkillCache(memory), writable=(str(tmp_path),))
    assert [one.name for one in seen.skills] == ["notes"]
