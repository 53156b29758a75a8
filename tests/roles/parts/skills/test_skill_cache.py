"""What is unchanged since an earlier start is not read again; what changed in any way is."""

import os
from pathlib import Path

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.roles.parts.skills.discovery import (
    parse_skills,
    project_skills,
    read_root,
    skill_folders,
)
from swarm.roles.parts.skills.skill_cache import SkillCache


def write(folder: Path, name: str, description: str = "x") -> Path:
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    file = place / "SKILL.md"
    file.write_text(f"---\nname: {name}\ndescription: {description}\n---\n")
    return file


def scan(root: Path, memory: Path) -> list[str]:
    cache = SkillCache(memory)
    found = parse_skills(read_root(root, "user", cache), cache)
    cache.save()
    return [f"{one.name}: {one.description}" for one in found.skills]


def test_an_unchanged_skill_is_known_without_opening_it(tmp_path: Path):
    root, memory = tmp_path / "skills", tmp_path / "memory.json"
    file = write(root, "a")
    assert scan(root, memory) == ["a: x"]
    cache = SkillCache(memory)
    (known,) = read_root(root, "user", cache)
    assert known.known is not None
    assert known.data == b""
    file.chmod(0)
    file.chmod(0o600)
    (again,) = read_root(root, "user", SkillCache(memory))
    assert again.known is None  # its change time is another one


def test_a_change_of_the_file_its_sidecar_or_its_inode_is_seen(tmp_path: Path):
    root, memory = tmp_path / "skills", tmp_path / "memory.json"
    file = write(root, "a")
    scan(root, memory)
    times = os.stat(file).st_mtime_ns
    write(root, "a", "y")
    os.utime(file, ns=(times, times))  # set back, of the same size
    assert scan(root, memory) == ["a: y"]
    (file.parent / "agents").mkdir()
    (file.parent / "agents" / "openai.yaml").write_text(
        "policy: {allow_implicit_invocation: false}\n"
    )
    cache = SkillCache(memory)
    (skill,) = parse_skills(read_root(root, "user", cache), cache).skills
    assert not skill.is_listed


def test_a_repositorys_skill_is_known_by_its_content_alone(tmp_path: Path):
    memory = tmp_path / "memory.json"
    path = "/work/.agents/skills/a/SKILL.md"
    texts = (b"---\ndescription: x\n---\n", b"---\ndescription: y\n---\n")
    for text in (*texts, texts[0]):
        cache = SkillCache(memory)
        (skill,) = parse_skills(project_skills({path: text}, cache), cache).skills
        cache.save()
        assert skill.description == text.decode()[17]


@pytest.mark.parametrize("text", ["", "{", '{"version": 99}', "[]", '{"skills": [{"key": 1}]}'])
def test_a_damaged_memory_is_read_as_none(tmp_path: Path, text: str):
    memory = tmp_path / "memory.json"
    memory.write_text(text)
    write(tmp_path / "skills", "a")
    assert scan(tmp_path / "skills", memory) == ["a: x"]


def test_a_skill_of_10_mb_and_invalid_yaml_are_left_out_and_the_others_stay(tmp_path: Path):
    root = tmp_path / "skills"
    write(root, "good")
    write(root, "huge").write_bytes(b"---\ndescription: x\n---\n" + b"x" * (10 << 20))
    write(root, "broken").write_text("---\ndescription: x\n")
    cache = SkillCache(tmp_path / "memory.json")
    found = parse_skills(read_root(root, "user", cache), cache)
    assert [one.name for one in found.skills] == ["good"]
    assert len(found.warnings) == 2
    assert all("left out" in line for line in found.warnings)


def test_links_in_a_loop_and_to_nothing_end(tmp_path: Path):
    root = tmp_path / "skills"
    write(root, "a")
    (root / "loop").symlink_to(root)
    (root / "self").symlink_to(root / "self")
    (root / "gone").symlink_to(root / "nowhere")
    assert scan(root, tmp_path / "memory.json") == ["a: x"]


def test_a_folder_of_very_many_files_is_bounded(tmp_path: Path):
    place = write(tmp_path / "skills", "a").parent
    for number in range(10_000):
        (place / f"{number}.txt").touch()
    assert len(list(skill_folders(tmp_path / "skills", follow_links=True))) <= 1
    for number in range(2_001):
        (tmp_path / "skills" / f"f{number}").mkdir()
    with pytest.raises(UsageError, match="more than 2000 folders"):
        list(skill_folders(tmp_path / "skills", follow_links=True))


def test_names_that_differ_by_case_alone_are_two_skills(tmp_path: Path):
    root = tmp_path / "skills"
    write(root, "Notes")
    write(root, "notes")
    assert scan(root, tmp_path / "memory.json") == ["Notes: x", "notes: x"]


def test_a_skill_that_vanishes_in_the_middle_of_a_scan_is_left_out(tmp_path: Path):
    root = tmp_path / "skills"
    write(root, "a")
    gone = write(root, "b")
    cache = SkillCache(tmp_path / "memory.json")
    places = read_root(root, "user", cache)
    first = next(places)
    gone.unlink()
    rest = list(places)
    found = parse_skills([first, *rest], cache)
    assert [one.name for one in found.skills] == ["a"]
