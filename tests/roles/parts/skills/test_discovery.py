"""Skills are found within bounds, whatever lies in the folders."""

from pathlib import Path

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.roles.parts.skills.discovery import (
    SkillFile,
    has_skill_folder,
    parse_skills,
    personal_roots,
    project_skills,
    read_project_skills,
    read_root,
    skill_folders,
)
from swarm.roles.parts.skills.skill_cache import SkillCache

NO_CACHE = SkillCache(Path("/nowhere/skills.json"))


def write(folder, name, description="x"):
    place = folder / name
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(f"---\ndescription: {description}\n---\n")
    return place


def test_skills_lie_at_any_level_and_hidden_folders_are_left_out(tmp_path):
    for name in ("a", "group/b", ".hidden", "1/2/3/4/5/6", "2/2/3/4/5/6/7"):
        write(tmp_path, name)
    names = [place.name for place in skill_folders(tmp_path, follow_links=True)]
    assert names == ["a", "b", "6"]


def test_links_in_a_loop_end_and_a_folder_that_is_not_there_has_none(tmp_path):
    write(tmp_path, "a")
    (tmp_path / "a" / "back").symlink_to(tmp_path)
    assert len(list(skill_folders(tmp_path, follow_links=True))) == 1
    assert list(skill_folders(tmp_path / "none", follow_links=True)) == []


def test_too_many_folders_are_an_error(tmp_path):
    for number in range(2_001):
        (tmp_path / f"d{number}").mkdir()
    with pytest.raises(UsageError, match="more than 2000 folders"):
        list(skill_folders(tmp_path, follow_links=True))


def test_a_project_gives_no_file_that_a_link_leads_to(tmp_path):
    outside = write(tmp_path / "outside", "secret")
    root = tmp_path / "repo"
    skills = root / ".agents" / "skills"
    good = write(skills, "good")
    (skills / "linked").symlink_to(outside)
    (skills / "faked").mkdir()
    (skills / "faked" / "SKILL.md").symlink_to(outside / "SKILL.md")
    (good / "agents").mkdir()
    (good / "agents" / "openai.yaml").symlink_to("/etc/hostname")
    (root / ".claude").symlink_to(tmp_path / "outside")
    assert [path for path, _ in read_project_skills(root)] == [str(good / "SKILL.md")]


def test_the_skills_of_a_home_are_the_persons_own(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / ".agents" / "skills", "mine")
    assert not has_skill_folder(tmp_path)
    roots = list(personal_roots(tmp_path / "config", tmp_path, tmp_path / "etc"))
    found = parse_skills(file for root, scope in roots for file in read_root(root, scope, NO_CACHE))
    assert [(skill.name, skill.scope) for skill in found.skills] == [("mine", "user")]


def file(path, scope, data=b"---\ndescription: x\n---\n", problem=""):
    return SkillFile(path=path, scope=scope, data=data, problem=problem)


def test_a_repositorys_skills_stand_first_and_a_faulty_one_costs_only_itself():
    found = parse_skills(
        [
            file("/etc/s/z/SKILL.md", "admin"),
            file("/home/s/b/SKILL.md", "user"),
            *project_skills(
                {"/p/b/SKILL.md": b"---\ndescription: x\n---\n", "/p/b/x": b""}, NO_CACHE
            ),
            file("/home/s/a/SKILL.md", "user"),
            file("/home/s/bad/SKILL.md", "user", b"no"),
            file("/home/s/big/SKILL.md", "user", problem="too large"),
            file("/home/s/a/SKILL.md", "user", b"---\ndescription: again\n---\n"),
        ]
    )
    assert [skill.path for skill in found.skills] == [
        "/p/b/SKILL.md",
        "/home/s/a/SKILL.md",
        "/home/s/b/SKILL.md",
        "/etc/s/z/SKILL.md",
    ]
    assert found.skills[1].description == "x"
    assert found.warnings == (
        "/home/s/bad/SKILL.md: missing YAML front matter delimited by ---; this skill is left out",
        "/home/s/big/SKILL.md: too large; this skill is left out",
    )
