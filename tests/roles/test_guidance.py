"""AGENTS.md: from the project's root down to the working directory, within a budget."""

import os

import pytest

from swarm.mailbox.path_rules import make_rules
from swarm.mailbox.protocol.limits import ProfilePolicy
from swarm.roles import guidance as guidance_module
from swarm.roles.guidance import GuidanceRules, find_project_root, load_guidance


@pytest.fixture
def tree(tmp_path):
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / "src" / "deep").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "AGENTS.md").write_text("above the root: never read")
    return project


def load(tree, where="src/deep", **rules):
    return load_guidance(
        tree / where, config_folder=tree.parent / "home", rules=GuidanceRules(**rules)
    )


def test_files_join_from_the_root_down(tree):
    (tree / "AGENTS.md").write_text("root")
    (tree / "src" / "AGENTS.md").write_text("  \n")
    (tree / "src" / "deep" / "AGENTS.md").write_text("deep")
    (tree.parent / "home" / "AGENTS.md").write_text("\npersonal\n")
    assert load(tree).text == "personal\n\n--- project-doc ---\n\nroot\n\ndeep"


def test_an_override_stands_in_for_its_folders_file(tree):
    (tree / "AGENTS.md").write_text("plain")
    (tree / "AGENTS.override.md").write_text("override")
    assert load(tree).text == "override"


def test_a_fallback_name_is_only_tried_last(tree):
    (tree / "CLAUDE.md").write_text("fallback")
    assert load(tree).text == ""
    assert load(tree, fallback_names=("../AGENTS.md", "CLAUDE.md")).text == "fallback"


def test_a_cut_is_said_aloud(tree):
    (tree / "AGENTS.md").write_text("x" * 100)
    (tree / "src" / "AGENTS.md").write_text("later")
    guidance = load(tree, limit_bytes=60)
    assert guidance.text == "x" * 60
    assert "cut after 60 bytes" in guidance.warnings[0]
    assert "left out" in guidance.warnings[1]


def test_a_budget_of_nothing_reads_no_project_file(tree):
    (tree / "AGENTS.md").write_text("x")
    assert load(tree, limit_bytes=0).text == ""


def test_without_a_marker_only_the_working_directory_is_searched(tree):
    (tree / "AGENTS.md").write_text("root")
    (tree / "src" / "deep" / "AGENTS.md").write_text("deep")
    assert load(tree, root_markers=()).text == "deep"
    assert find_project_root(tree / "src", (".git",)) == tree


def test_a_huge_file_costs_no_more_than_its_budget(tree):
    (tree / "AGENTS.md").write_text("x" * 10_000_000)
    guidance = load(tree, limit_bytes=1_000)
    assert guidance.text == "x" * 1_000
    assert "cut after 1,000 bytes" in guidance.warnings[0]
    assert guidance.left_bytes == 0


def test_bytes_that_are_no_text_are_told_as_far_as_they_can_be(tree):
    (tree / "AGENTS.md").write_bytes(b"caf\xe9\xff")
    assert load(tree).text == "caf\ufffd\ufffd"


def test_links_in_a_circle_are_no_file(tree):
    (tree / "AGENTS.override.md").symlink_to("AGENTS.override.md")
    (tree / "src" / "AGENTS.md").symlink_to("../src/AGENTS.md")
    (tree / "AGENTS.md").write_text("plain")
    guidance = load(tree)
    assert (guidance.text, guidance.warnings) == ("plain", ())


def test_what_is_left_of_the_budget_is_for_folders_below(tree):
    (tree / "AGENTS.md").write_text("x" * 100)
    assert load(tree, limit_bytes=150).left_bytes == 50


def test_a_link_that_stays_inside_the_project_is_followed_relative_or_absolute(tree):
    (tree / "CLAUDE.md").write_text("claude")
    (tree / "AGENTS.md").symlink_to("CLAUDE.md")
    (tree / "src" / "AGENTS.md").symlink_to(tree / "CLAUDE.md")
    guidance = load(tree)
    assert (guidance.text, guidance.warnings) == ("claude\n\nclaude", ())


def test_a_link_out_of_the_project_is_left_out_and_that_is_said(tree):
    (tree.parent / "secret.md").write_text("secret")
    (tree / "AGENTS.md").symlink_to("../secret.md")
    guidance = load(tree)
    assert guidance.text == ""
    assert guidance.refused == guidance.warnings
    assert f"{tree / 'AGENTS.md'} is left out: it leads out of {tree}" in guidance.warnings[0]


@pytest.mark.parametrize("is_link", [False, True])
def test_what_the_profile_denies_is_not_told_by_its_name_or_by_a_link_to_it(tree, is_link):
    (tree / "private").mkdir()
    (tree / "private" / "x.md").write_text("secret")
    if is_link:
        (tree / "AGENTS.md").symlink_to("private/x.md")
    else:
        (tree / "AGENTS.md").write_text("secret")
    closed = tree / ("private" if is_link else "AGENTS.md")
    rules = make_rules([("/", "read"), (str(tree), "write"), (str(closed), "deny")])
    guidance = load(tree, sandbox=ProfilePolicy(name="p", rules=rules))
    assert guidance.text == ""
    assert "the permission profile denies" in guidance.refused[0]


def test_a_link_that_is_swapped_after_the_decision_is_not_followed(tree, monkeypatch):
    (tree.parent / "secret.md").write_text("secret")
    (tree / "CLAUDE.md").write_text("claude")
    (tree / "AGENTS.md").symlink_to("CLAUDE.md")
    decide = guidance_module._check

    def swap(*given):
        decide(*given)
        (tree / "CLAUDE.md").unlink()
        (tree / "CLAUDE.md").symlink_to("../secret.md")

    monkeypatch.setattr(guidance_module, "_check", swap)
    assert load(tree).text == ""


def test_a_pipe_or_a_device_is_no_file_and_is_not_waited_for(tree):
    os.mkfifo(tree / "AGENTS.override.md")
    (tree / "AGENTS.md").write_text("plain")
    os.mkfifo(tree / "src" / "AGENTS.md")
    (tree / "src" / "deep" / "AGENTS.md").symlink_to("/dev/zero")
    assert load(tree).text == "plain"
