"""AGENTS.md: from the project's root down to the working directory, within a budget."""

import os

import msgspec
import pytest

from swarm.mailbox.base.path_rules import make_rules
from swarm.mailbox.protocol.values.limits import ProfilePolicy
from swarm.roles.base import guidance as guidance_module
from swarm.roles.base.guidance import Guidance, GuidanceRules, find_project_root, load_guidance


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


def test_the_file_of_the_working_folder_is_the_last_to_be_cut(tree):
    (tree / "AGENTS.md").write_text("x" * 100)
    (tree / "src" / "AGENTS.md").write_text("one\ntwo\nthree\n")
    (tree / "src" / "deep" / "AGENTS.md").write_text("near " * 10)
    guidance = load(tree, limit_bytes=60)
    above, between, near = guidance.text.split("\n\n")
    assert near == "near " * 10
    assert between.startswith("one\ntwo\n[Left out from line 3 on here: 6 bytes of ")
    assert f"{tree / 'src' / 'AGENTS.md'}, for project_doc_max_bytes is 60." in between
    assert f"{tree / 'AGENTS.md'} (100 bytes)" in above
    assert [one.name for one in guidance.files] == [
        str(tree / "src" / "AGENTS.md"), str(tree / "src" / "deep" / "AGENTS.md"),
    ]  # fmt: skip
    assert "AGENTS.md is left out: project_doc_max_bytes is 60" in guidance.warnings[0]
    assert "cut after 8 of 14 bytes: project_doc_max_bytes is 60" in guidance.warnings[1]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_file_is_cut_where_a_line_ends_and_the_text_says_how_much_is_missing(tree, end):
    text = end.join(f"rule {number} of this house" for number in range(200))
    (tree / "src" / "deep" / "AGENTS.md").write_bytes(text.encode())
    guidance = load(tree, limit_bytes=1_000)
    kept, _, mark = guidance.text.rpartition("\n[Left out ")
    assert text.startswith(f"{kept}{end}")
    assert len(kept) <= 1_000
    lines = len(kept.splitlines())
    assert mark.startswith(f"from line {lines + 1} on here: {len(text) - len(kept + end):,} bytes")
    assert f"{tree / 'src' / 'deep' / 'AGENTS.md'}" in mark
    assert guidance.left_bytes == 0


def test_a_line_that_is_longer_than_the_budget_is_cut_between_two_characters(tree):
    (tree / "AGENTS.md").write_text("é" * 100)
    guidance = load(tree, where=".", limit_bytes=61)
    assert guidance.text.startswith("é" * 30 + "\n[Left out from line 1 on here: ")


def test_of_many_files_without_a_place_ten_are_named(tree):
    deep = tree
    for number in range(15):
        deep /= f"f{number}"
        deep.mkdir()
        (deep / "AGENTS.md").write_text("x" * 50)
    guidance = load(tree, where=deep, limit_bytes=50)
    assert guidance.text.endswith("\n\n" + "x" * 50)
    assert guidance.text.count("AGENTS.md (50 bytes)") == 10
    assert "and 4 more in folders above" in guidance.text


def test_a_persons_own_file_of_more_than_256_kib_says_what_is_missing(tree):
    (tree.parent / "home" / "AGENTS.md").write_text("a rule\n" * 40_000)
    guidance = load(tree)
    assert "your own file may have 256 KiB" in guidance.text
    assert "is cut after" in guidance.warnings[0]


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
    assert guidance.text.startswith("x" * 1_000 + "\n[Left out ")
    assert "9,999,000 bytes of" in guidance.text
    assert len(guidance.text) < 1_500
    assert "cut after 1,000 of 10,000,000 bytes" in guidance.warnings[0]
    assert guidance.left_bytes == 0


@pytest.mark.parametrize("whose", ["project", "person"])
def test_bytes_that_are_no_text_are_told_as_far_as_they_can_be_and_the_person_is_warned(
    tree, whose
):
    file = tree / "AGENTS.md" if whose == "project" else tree.parent / "home" / "AGENTS.md"
    file.write_bytes(b"one\ncaf\xe9\xff")
    guidance = load(tree)
    assert guidance.text == "one\ncaf\ufffd\ufffd"
    assert guidance.warnings == (
        f"{file}, line 2: not UTF-8 at byte 7: agents read U+FFFD there; save the file as UTF-8",
    )


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("whose", ["project", "person"])
def test_a_marked_encoding_is_read_and_its_mark_never_reaches_a_model(tree, codec, whose):
    file = tree / "AGENTS.md" if whose == "project" else tree.parent / "home" / "AGENTS.md"
    mark = {"utf-16-be": b"\xfe\xff", "utf-32-be": b"\0\0\xfe\xff"}.get(codec, b"")
    file.write_bytes(mark + "Grüße\n".encode(codec))
    guidance = load(tree)
    assert (guidance.text.strip(), guidance.warnings) == ("Grüße", ())


def test_text_of_two_bytes_a_character_is_cut_by_its_characters(tree):
    (tree / "AGENTS.md").write_bytes(("a rule\n" * 100).encode("utf-16"))
    guidance = load(tree, limit_bytes=70)
    assert guidance.text.startswith("a rule\n" * 9 + "a rule\n[Left out from line 11 on here: ")


def test_a_name_that_is_no_text_is_told_as_text(tree):
    folder = os.fsencode(tree) + b"/caf\xe9"
    os.mkdir(folder)
    with open(folder + b"/AGENTS.md", "w") as file:
        file.write("x" * 100)
    guidance = load_guidance(
        tree.__class__(os.fsdecode(folder)),
        config_folder=tree.parent / "home",
        rules=GuidanceRules(limit_bytes=50),
    )
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(guidance)), Guidance) == guidance


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
