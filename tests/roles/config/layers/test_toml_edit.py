"""Editing the user's file: comments stay, nothing half is written, nobody overwrites another."""

import fcntl
import os
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.dotted_key import format_key, parse_key
from swarm.roles.config.key_path import check_key
from swarm.roles.config.layers.config_writer import ConfigNotWritten, VersionConflict, write_edit
from swarm.roles.config.layers.toml_edit import (
    ConfigEdit,
    UneditableConfig,
    apply_edit,
    content_version,
    edit_text,
    parse_value,
)

FILE = """# mine
model = "a"  # why

[agents]   # team
max_depth = 2

# about the limits
[limits]
command_memory = "1GiB" # small
"""


@pytest.mark.parametrize(
    ("text", "key", "value", "after"),
    [
        ("model = 'x' # c\n", "model", "y", 'model = "y" # c\n'),
        ("", "model", "y", 'model = "y"\n'),
        ("a.b = 1 # x\nq = 2\n", "a.c", 3, "a.b = 1 # x\na.c = 3\nq = 2\n"),
        ("a = {b = 1}\n", "a.c", 3, "a = {b = 1,c = 3}\n"),
        ("[a.c]\nz = 1\n[b]\ny = 1\n", "a.y", 3, "[a]\ny = 3\n\n[a.c]\nz = 1\n[b]\ny = 1\n"),
        ("", 'projects."/a.b".trust_level', "trusted",
         '[projects."/a.b"]\ntrust_level = "trusted"\n'),
        ("a = 1\n", "a.b", 2, "\n[a]\nb = 2\n"),
    ],
)  # fmt: skip
def test_only_what_is_meant_changes(text, key, value, after):
    assert edit_text(text, ConfigEdit(steps=parse_key(key), value=value)) == after


def test_comments_order_and_blank_lines_stay():
    text = edit_text(FILE, ConfigEdit(steps=("limits", "command_memory"), value="2GiB"))
    assert text == FILE.replace("1GiB", "2GiB")
    text = edit_text(FILE, ConfigEdit(steps=("agents", "max_total"), value=5))
    assert text == FILE.replace("max_depth = 2\n", "max_depth = 2\nmax_total = 5\n")
    text = edit_text(FILE, ConfigEdit(steps=("agents", "max_depth")))
    assert text == FILE.replace("max_depth = 2\n", "")


def test_merging_adds_keys_and_replacing_takes_the_others_away():
    text = "[t]\na = 1 # one\n"
    merged = edit_text(text, ConfigEdit(steps=("t",), value={"b": 2}, merge=True))
    assert merged == "[t]\na = 1 # one\nb = 2\n"
    assert tomllib.loads(edit_text(text, ConfigEdit(steps=("t",), value={"b": 2}))) == {
        "t": {"b": 2}
    }


def test_what_is_not_there_is_not_removed():
    for key in ("zzz", "agents.zzz", "zzz.deep", "model.deep"):
        assert edit_text(FILE, ConfigEdit(steps=parse_key(key))) == FILE


KEYS = st.sampled_from(["a", "b", "c", "model", "a b", 'q"q', "é"])
VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.text(max_size=4) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=4,
)
TEXTS = st.sampled_from(
    [
        FILE, "", "a.b.c = 1\n", "[a.b]\nc = 1\n[c]\n[a.c]\nx = 1\n", "a = {b = {c = 1}}\n",
        "[[a]]\nb = 1\n", "a = [\n 1, # one\n]\n", "model = '''x\n'''\n[a]\n\tb = 1\n",
    ]
)  # fmt: skip


@given(TEXTS, st.lists(KEYS, min_size=1, max_size=3), VALUES | st.none(), st.booleans())
def test_what_is_written_reads_back_as_meant_or_nothing_is(text, steps, value, merge):
    edit = ConfigEdit(steps=tuple(steps), value=value, merge=merge)
    try:
        after = edit_text(text, edit)
    except UneditableConfig:
        return
    assert tomllib.loads(after) == apply_edit(tomllib.loads(text), edit)


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4))
def test_a_key_reads_back_as_it_was_written(steps):
    assert parse_key(format_key(steps)) == tuple(steps)


@pytest.mark.parametrize(
    "text", ["", " ", "a.", ".a", "a..b", "a b", 'a."', "a[0]", "a=b", '"\\x"']
)
def test_what_is_no_key_is_refused(text):
    with pytest.raises(UsageError):
        parse_key(text)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("modl", "did you mean model"),
        ("sandbox_workspace_write.writable_rots", "sandbox_workspace_write.writable_roots"),
        ("agents.scout.descriptio", "did you mean agents.scout.description"),
        ("model_providers.x.base_ur", "did you mean model_providers.x.base_url"),
        ("approval_policy.granular.rule", "did you mean approval_policy.granular.rules"),
        ("model.name", "model is not a table"),
        ("zzzzzzzz", "swarm config list"),
    ],
)
def test_an_unknown_key_names_the_nearest(key, words):
    with pytest.raises(UsageError, match=words):
        check_key(parse_key(key))


@pytest.mark.parametrize(
    "key",
    [
        "model", "agents", "agents.max_depth", "agents.anyone", "agents.anyone.config_file",
        "model_providers.x.http_headers.X-A", "shell_environment_policy.set.PATH",
        'network.domains."*.example.org"', "tui.theme", "approval_policy.granular",
        "agents.interrupt_message", "budget.tokens",
    ],
)  # fmt: skip
def test_known_keys_pass(key):
    check_key(parse_key(key))


def test_a_value_is_toml_or_else_text():
    assert [parse_value(v) for v in ("3", "true", '["a"]', "gpt-5", '"3"', "{a = 1}", "a = b")] == [
        3, True, ["a"], "gpt-5", "3", {"a": 1}, "a = b",
    ]  # fmt: skip


def test_the_version_is_that_of_the_sorted_table():
    empty = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert content_version({}) == empty
    assert content_version({"a": 1, "b": {"c": 1, "d": 2}}) == content_version(
        {"b": {"d": 2, "c": 1}, "a": 1}
    )
    assert content_version({"a": 10**30, "b": tomllib.loads("d = 2020-01-01")["d"]}) != empty


def accept(_values):
    """A check that lets everything pass."""


def write(path, value, *, if_version=None, check=accept):
    edit = ConfigEdit(steps=("model",), value=value)
    return write_edit(path, edit, if_version=if_version, check=check)


def test_a_link_stays_a_link_and_its_target_is_private(tmp_path):
    target = tmp_path / "dotfiles" / "swarm.toml"
    target.parent.mkdir()
    target.write_text(FILE)
    target.chmod(0o644)
    link = tmp_path / "config.toml"
    link.symlink_to("dotfiles/swarm.toml")
    version = write(link, "b")
    assert link.is_symlink()
    assert target.read_text() == FILE.replace('"a"', '"b"')
    assert target.stat().st_mode & 0o777 == 0o600
    assert version == content_version(tomllib.loads(target.read_text()))
    assert sorted(os.listdir(target.parent)) == ["swarm.toml"]


def test_a_missing_file_is_made_with_its_folder(tmp_path):
    path = tmp_path / "new" / "config.toml"
    write(path, "b")
    assert path.read_text() == 'model = "b"\n'
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_who_has_read_another_version_writes_nothing(tmp_path):
    path = tmp_path / "config.toml"
    first = write(path, "a")
    second = write(path, "b", if_version=first)
    with pytest.raises(VersionConflict, match="modified since it was read"):
        write(path, "c", if_version=first)
    assert path.read_text() == 'model = "b"\n'
    write(path, "c", if_version=second)


def test_a_result_that_is_refused_is_not_written(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(FILE)

    def refuse(values):
        raise UsageError(f"not with {values['model']}")

    with pytest.raises(UsageError, match="not with b"):
        write(path, "b", check=refuse)
    assert path.read_text() == FILE


def test_who_finds_the_folder_locked_gives_up_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("swarm.roles.config.atomic_replace._LOCK_TRIES", 2)
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(ConfigNotWritten, match="locked"):
        write(tmp_path / "config.toml", "b")
    os.close(handle)
    write(tmp_path / "config.toml", "b")


@pytest.mark.parametrize("text", ["model = ", "[a", "a = 1\na = 2"])
def test_a_broken_file_is_not_touched(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match="not valid TOML"):
        write(path, "b")
    assert path.read_text() == text


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigNotWritten, match="was not changed"):
        write(tmp_path / "file" / "config.toml", "b")


def test_what_is_no_regular_file_is_refused_and_never_waited_for(tmp_path):
    path = tmp_path / "config.toml"
    os.mkfifo(path)
    with pytest.raises(UsageError, match="not a regular file"):
        write(path, "b")
