"""Links in a project's folders of skills, commands, agents and hooks."""

import os
from pathlib import Path

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.roles.base.project_links import ProjectLinks
from swarm.roles.config.layers.project_config import project_layers, read_project_folders
from swarm.roles.config.layers.trust import read_trust, save_trust_decision
from swarm.roles.markdown.markdown_discovery import COMMAND_FOLDERS, project_markdown
from swarm.roles.parts.hooks.project_hooks import read_hook_files
from swarm.roles.parts.skills.discovery import parse_skills, project_skills
from swarm.roles.parts.skills.rescan import is_as_trusted
from swarm.roles.parts.skills.skill_cache import SkillCache

NO_CACHE = SkillCache(Path("/nonexistent/skills.json"))


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    return root


def skill(folder, description="x"):
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\ndescription: {description}\n---\nDo it.\n")
    return folder


def link(path, target):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def read(project, cwd="."):
    return read_project_folders(project / cwd, [".git"], config_folder=project.parent / "none")


def skills(one):
    return {found.name: found for found in parse_skills(project_skills(one.files, NO_CACHE)).skills}


def commands(one):
    return [found.name for found in project_markdown(one.folder, one.files, COMMAND_FOLDERS)]


@pytest.mark.parametrize(
    ("place", "target"),
    [
        (".claude/skills/notes", "../../skills/notes"),
        (".claude/skills/notes/SKILL.md", "../../../skills/notes/SKILL.md"),
        (".agents/skills", "../skills"),
        (".claude/skills/all", "../../skills"),
        (".claude", "kept"),
        (".codex/skills", "ABSOLUTE"),
    ],
)
def test_a_link_to_a_skill_inside_the_project_is_followed_and_its_content_is_what_is_trusted(
    project, place, target
):
    notes = skill(project / "skills" / "notes")
    if target == "kept":
        (project / "kept").mkdir()
        link(project / "kept" / "skills", "../skills")
    link(project / place, str(notes.parent) if target == "ABSOLUTE" else target)
    (one,) = read(project)
    assert (one.problem, one.left_out) == ("", ())
    found = skills(one)["notes"]
    assert found.path == str(notes / "SKILL.md")
    assert is_as_trusted(found)
    (notes / "SKILL.md").write_text("---\ndescription: y\n---\nDo another thing.\n")
    assert read(project)[0].digest != one.digest
    assert not is_as_trusted(found)


def test_a_skill_that_two_links_lead_to_is_there_once(project):
    skill(project / "skills" / "notes")
    link(project / ".claude" / "skills", "../skills")
    link(project / ".agents" / "skills", "../skills")
    link(project / "skills" / "again", "notes")
    (one,) = read(project)
    assert list(one.files) == [str(project / "skills" / "notes" / "SKILL.md")]


def test_links_count_in_every_folder_down_to_the_working_one_up_to_the_projects_root(project):
    skill(project / "shared" / "notes")
    link(project / "sub" / ".claude" / "skills" / "notes", "../../../shared/notes")
    (one,) = read(project, "sub")
    assert list(skills(one)) == ["notes"]
    assert one.folder == str(project / "sub")


@pytest.mark.parametrize(
    ("place", "target", "why"),
    [
        (".claude/skills/notes", "../../../outside", "leads out of"),
        (".claude/skills", "/etc", "leads out of"),
        (".agents", "../outside/.agents", "leads out of"),
        (".agents/skills/notes", "../../../project-2/notes", "leads out of"),
        (".agents/skills/notes", "../../skills/gone", "which is not there"),
        (".agents", "../gone", "not there"),
        (".claude/commands", "../gone", "not there"),
        (".agents/skills/self", "self", "leads to itself"),
        (".agents/skills/up", "../..", "a folder that it lies in"),
        (".agents/skills/x/SKILL.md", "../../../README.md", "link the folder of the skill"),
        (".agents/skills/x/SKILL.md", "/etc/hostname", "leads out of"),
        (".claude/commands/fix.md", "/etc/hostname", "leads out of"),
        (".claude/commands/gh", "../../../outside", "leads out of"),
        (".claude/agents", "../../outside", "leads out of"),
        (".codex/prompts", "../../outside", "leads out of"),
        (".swarm/agents/x.md", "../../../outside/x.md", "leads out of"),
        (".swarm/agents/team", "../../roles", "role files (.toml)"),
    ],
)
def test_a_link_that_is_not_followed_costs_itself_and_is_named(project, place, target, why):
    outside = project.parent / "outside"
    skill(outside / ".agents" / "skills" / "stolen")
    skill(project.parent / "project-2" / "notes")
    (outside / "x.md").write_text("secret")
    (project / "README.md").write_text("---\ndescription: x\n---\n")
    (project / "roles").mkdir()
    skill(project / ".codex" / "skills" / "good")
    link(project / place, target)
    (one,) = read(project)
    assert one.problem == ""
    assert list(skills(one)) == ["good"]
    assert len(one.files) == 1
    (said,) = one.left_out
    assert said.startswith(f"{project / place}")
    assert why in said
    (layer,) = project_layers(
        project, {}, config_folder=project.parent / "none", decide=lambda found: [""] * len(found)
    )
    assert said in layer.warnings


def test_a_project_with_nothing_but_a_link_that_is_left_out_is_named_and_not_asked_about(project):
    link(project / ".claude" / "skills", "/etc")

    def decide(_):
        raise AssertionError

    (layer,) = project_layers(project, {}, config_folder=project / "none", decide=decide)
    assert "leads out of" in layer.warnings[0]


def test_a_command_behind_a_link_is_called_by_the_links_name(project):
    (project / "prompts" / "gh").mkdir(parents=True)
    (project / "prompts" / "gh" / "pr.md").write_text("Look.")
    (project / "prompts" / "one.md").write_text("Do.")
    link(project / ".claude" / "commands" / "fix.md", "../../prompts/one.md")
    link(project / ".claude" / "commands" / "hub", "../../prompts/gh")
    link(project / ".codex" / "prompts", "../prompts")
    (one,) = read(project)
    assert commands(one) == ["fix", "hub:pr", "gh:pr", "one"]
    assert one.left_out == ()


def test_links_in_a_circle_and_thousands_of_them_end(project):
    skill(project / ".agents" / "skills" / "a")
    link(project / ".agents" / "skills" / "b" / "to-c", "../c")
    link(project / ".agents" / "skills" / "c" / "to-b", "../b")
    for number in range(1_500):
        link(project / ".agents" / "skills" / f"l{number}", "a")
    link(project / ".claude" / "commands" / "x" / "y", "../../commands")
    (one,) = read(project)
    assert list(skills(one)) == ["a"]
    assert len(one.left_out) <= 21
    assert any("more than 1,000 links" in said for said in one.left_out)


def test_a_link_to_too_many_folders_costs_itself(project):
    for number in range(2_001):
        (project / "big" / f"d{number}").mkdir(parents=True)
    skill(project / ".agents" / "skills" / "good")
    link(project / ".agents" / "skills" / "big", "../../big")
    (one,) = read(project)
    assert (one.problem, list(skills(one))) == ("", ["good"])
    assert "more than 2000 folders" in one.left_out[0]


@pytest.mark.parametrize("kind", ["skill", "command", "hook"])
def test_a_link_that_comes_after_the_decision_is_not_followed(project, kind, monkeypatch):
    secret = project.parent / "secret"
    skill(secret)
    (secret / "one.md").write_text("secret")
    (secret / "settings.json").write_text('{"hooks": {}}')
    place = {"skill": ".claude/skills", "command": ".claude/commands", "hook": ".claude"}[kind]
    skill(project / "kept")
    (project / "kept" / "one.md").write_text("mine")
    (project / "kept" / "settings.json").write_text('{"hooks": {"Stop": []}}')
    link(project / place, "../kept" if kind != "hook" else "kept")
    decide = ProjectLinks.follow

    def swap(links, path):
        real = decide(links, path)
        if real is not None and not os.path.islink(project / "kept"):
            (project / "kept").rename(project / "moved")
            (project / "kept").symlink_to(secret)
        return real

    monkeypatch.setattr(ProjectLinks, "follow", swap)
    for one in read(project):
        assert one.files == {} or not any(b"secret" in data for data in one.files.values())
        assert one.problem or not one.files


def test_a_hook_file_behind_a_link_inside_is_read_and_one_outside_is_an_error(project):
    (project / "kept.json").write_text('{"hooks": {"Stop": []}}')
    link(project / ".claude" / "settings.json", "../kept.json")
    assert [path for path, _ in read_hook_files(project)] == [
        str(project / ".claude" / "settings.json")
    ]
    (project.parent / "theirs.json").write_text('{"hooks": {"Stop": []}}')
    link(project / ".codex" / "hooks.json", "../../theirs.json")
    with pytest.raises(UsageError, match="leads out of"):
        list(read_hook_files(project))
    (one,) = read(project)
    assert "leads out of" in one.problem


def test_trust_in_content_behind_a_link_ends_when_the_content_changes(project):
    notes = skill(project / "skills" / "notes")
    link(project / ".claude" / "skills", "../skills")
    own = project.parent / "own"
    own.mkdir(mode=0o700)
    save_trust_decision(own, read(project), trusted=True)
    assert read_trust(own).trust_state(read(project)[0]) == "trusted"
    (notes / "SKILL.md").write_text("---\ndescription: evil\n---\n")
    assert read_trust(own).trust_state(read(project)[0]) == "unknown"
