"""A SKILL.md is read as the open format and Codex's loader say; what is wrong is said in words."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.roles.parts.skills.skill_file import (
    SKILL_BYTES,
    format_problems,
    instructions_of,
    parse_skill,
)

PATH = "/p/.agents/skills/notes/SKILL.md"
GOOD = b"---\nname: notes\ndescription: Write notes.\n---\n\n# Notes\n"


def parse(data, sidecar=b""):
    return parse_skill(data, path=PATH, scope="repo", sidecar=sidecar)


def test_a_skill_has_a_name_a_description_and_the_hash_of_its_file():
    skill = parse(GOOD)
    assert (skill.name, skill.description) == ("notes", "Write notes.")
    assert skill.size_bytes == len(GOOD)
    assert skill.is_listed
    assert parse(GOOD + b" ").digest != skill.digest


def test_the_name_is_the_folders_where_none_is_given_and_white_space_is_one_blank():
    skill = parse(b"---\ndescription: |\n  Two\n  lines\nother: 1\n---\n")
    assert (skill.name, skill.description) == ("notes", "Two lines")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "missing YAML front matter delimited by ---"),
        (b"# Notes\n", "missing YAML front matter"),
        (b"---\n---\n", "missing YAML front matter"),
        (b"---\nname: a\n", "missing YAML front matter"),
        (b"---\nname: notes\n---\n", "missing field `description`"),
        (b"---\nname: notes\ndescription: ''\n---\n", "missing field `description`"),
        (b"---\nname: notes\ndescription: {a: b}\n---\n", "missing field `description`"),
        (b"---\n- x\n---\n", "missing field `description`"),
        (b"---\ndescription: \xff\n---\n", "line 2: not UTF-8"),
        (b"---\n" + b"#" * (33 << 10) + b"\n---\n", "front matter larger than 32 KiB"),
        (b"---\ndescription: x\n---\n" + b"x" * SKILL_BYTES, "larger than 256 KiB"),
    ],
)
def test_a_faulty_file_is_named_with_its_fault(data, text):
    with pytest.raises(UsageError, match=re.escape(text)):
        parse(data)


@pytest.mark.parametrize(
    ("front", "name", "description", "note"),
    [
        ("name: Hook Development\ndescription: x", "notes", "x", "invalid name 'Hook Development'"),
        ("name: " + "a" * 65 + "\ndescription: x", "notes", "x", "invalid name 'aaa"),
        ("name: a/../b\ndescription: x", "notes", "x", "it is called notes, as its folder"),
        ("name: {a: b}\ndescription: x", "notes", "x", "invalid name ''"),
        ("name: [My, Notes]\ndescription: x", "notes", "x", "invalid name 'My Notes'"),
        ("name: Notes\ndescription: x\nallowed-tools: Bash\ncolour: red", "Notes", "x", ""),
        ("name: 7\ndescription: x", "7", "x", ""),
        ("description: [Write notes., Read them.]", "notes", "Write notes. Read them.", ""),
        ("description: Use when: asked", "notes", "Use when: asked", "line 2: invalid YAML"),
        ("name:\tnotes\ndescription:\tx", "notes", "x", ""),
        (
            "name: My\ndescription: x\nmore:\n\ta: b",
            "My",
            "x",
            "invalid YAML",
        ),
        ("name: notes", "notes", "Do it now.", "missing field `description`"),
        ("name: notes\ndescription:", "notes", "Do it now.", "missing field `description`"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff", "\n \n"])
def test_what_is_odd_and_does_no_harm_costs_at_most_itself_and_is_said(
    front, name, description, note, end, start
):
    text = f"{start}---\n{front}\n---\n\n# Notes\n\nDo it now.\nThen rest.\n"
    skill = parse(text.replace("\n", end).encode())
    assert (skill.name, skill.description) == (name, description)
    if start.isspace():
        note = note.replace("line 2", "line 4")
    assert len(skill.notes) == bool(note)
    assert note in "".join(skill.notes)


def test_a_description_that_is_too_long_is_cut_and_that_is_said():
    skill = parse(b"---\ndescription: " + b"ab " * 500 + b"\n---\n")
    assert len(skill.description) <= 1024
    assert skill.description.endswith("…")
    assert skill.notes == ("its description has 1,499 characters; the first 1,024 count",)


def test_a_name_that_no_plugin_can_put_its_own_before_is_the_folders():
    skill = parse_skill(GOOD.replace(b": notes", b": " + b"n" * 60), path=PATH, scope="plugin",
                        prefix="tools")  # fmt: skip
    assert skill.name == "tools:notes"
    assert "it is called tools:notes, as its folder" in skill.notes[0]


def test_a_folder_whose_name_is_none_for_a_skill_still_names_one():
    skill = parse_skill(GOOD.replace(b"notes", b"My Notes!", 1), path="/p/My Notes!/SKILL.md",
                        scope="user")  # fmt: skip
    assert skill.name == "My-Notes"


@pytest.mark.parametrize(
    ("sidecar", "is_listed"),
    [
        (b"policy: {allow_implicit_invocation: false}", False),
        (b"policy: {allow_implicit_invocation: true}", True),
        (b"policy: 3", True),
        (b"{", True),
        (b"\xff", True),
    ],
)
def test_the_sidecar_takes_a_skill_off_the_list_and_its_faults_change_nothing(sidecar, is_listed):
    assert parse(GOOD, sidecar).is_listed is is_listed


@pytest.mark.parametrize("word", [b"true", b"'true'", b"yes", b"True", b"true\nodd: a: b"])
def test_a_skill_that_forbids_models_to_choose_it_is_not_listed(word):
    data = b"---\ndescription: x\ndisable-model-invocation: " + word + b"\n---\n"
    assert not parse(data).is_listed


TEXTS = st.text(max_size=300).map(lambda text: f"---\n{text}\n---\n".encode())


@given(st.binary(max_size=300) | TEXTS)
def test_any_bytes_are_a_skill_or_a_fault_in_words(data):
    try:
        parse(data)
    except UsageError as error:
        assert str(error)
    format_problems(data, folder="x")
    instructions_of(data)


@pytest.mark.parametrize(
    ("front", "problems"),
    [
        ("name: notes\ndescription: Write notes.", []),
        ("name: Notes\ndescription: x", ["small letters", "differs from the name"]),
        ("name: -notes\ndescription: x", ["small letters", "differs"]),
        ("name: no--tes\ndescription: x", ["single hyphens", "differs"]),
        ("name: other\ndescription: x", ["differs"]),
        ("description: x", ["missing field `name`"]),
        ("name: notes", ["missing field `description`"]),
        ("name: notes\ndescription: x\ncolour: red", ["unknown field `colour`"]),
        ("name: notes\ndescription: x\nlicense: MIT\ncompatibility: any", []),
        ("name: notes\ndescription: x\nallowed-tools: Bash\nmetadata:\n  a: b", []),
        (f"name: notes\ndescription: {'x' * 1025}", ["maximum length of 1024"]),
        (f"name: notes\ndescription: x\ncompatibility: {'y' * 501}", ["maximum length of 500"]),
    ],
)
def test_departures_from_the_open_format_are_named_as_its_own_validator_does(
    tmp_path: Path, front: str, problems: list[str]
):
    from skills_ref import validate

    data = f"---\n{front}\n---\n\nDo it.\n".encode()
    found = format_problems(data, folder="notes")
    assert len(found) == len(problems), found
    assert all(part in text for part, text in zip(problems, found, strict=True))
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "SKILL.md").write_bytes(data)
    assert bool(validate(folder)) == bool(found)


def test_instructions_are_what_follows_the_front_matter():
    assert instructions_of(GOOD) == "# Notes"
    assert instructions_of(b"no front matter") == "no front matter"
