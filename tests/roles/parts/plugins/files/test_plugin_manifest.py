"""Manifests of plugins: what is read, what is left out, and that a broken one names its line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.roles.parts.plugins.files.plugin_manifest import inner_path, read_manifest
from swarm.roles.parts.plugins.files.plugin_parts import changed_files, is_selected

CLAUDE = ".claude-plugin/plugin.json"
CODEX = ".codex-plugin/plugin.json"


def read(values, path=CLAUDE):
    data = values if isinstance(values, bytes) else json.dumps(values, indent=1).encode()
    return read_manifest(data, path=path, folder_name="folder")


def test_codexs_manifest_is_read():
    found = read(
        {
            "name": "demo",
            "version": "1.2.0",
            "skills": "./more",
            "mcpServers": "./servers.json",
            "interface": {"displayName": "Demo  for\nall"},
        },
        CODEX,
    )
    assert (found.name, found.version, found.form) == ("demo", "1.2.0", "codex")
    assert found.skills == ("skills", "more")
    assert found.server_files == ("servers.json",)
    assert found.display_name == "Demo for all"
    assert found.warnings == ()


def test_claudes_manifest_is_read_with_lists_and_tables():
    found = read(
        {
            "name": "demo",
            "author": {"name": "Team"},
            "commands": ["./extra/one.md", "./extra/two.md"],
            "hooks": {"hooks": {"Stop": []}},
            "mcpServers": {"docs": {"command": "x"}},
        }
    )
    assert found.form == "claude"
    assert found.author == "Team"
    assert found.commands == ("commands", "extra/one.md", "extra/two.md")
    assert found.hooks == {"hooks": {"Stop": []}}
    assert found.hook_files == ()
    assert found.servers == {"docs": {"command": "x"}}


def test_a_manifest_without_a_name_is_called_like_its_folder_and_has_the_default_files():
    found = read({})
    assert (found.name, found.version) == ("folder", "local")
    assert (found.hook_files, found.server_files) == (("hooks/hooks.json",), (".mcp.json",))


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b'{\n "name": "demo",\n}', "line 3"),
        (b'{\n\n "name": "../up"}', "line 3"),
        (b'{\n "name": "demo",\n "version": ".."}', "line 3"),
        (b'{\n "name": 7}', "line 2"),
        (b"[]", "line 1"),
        (b'{"a": "\n\xff"}', "line 2"),
    ],
)
def test_a_broken_manifest_names_file_and_line(data, place):
    with pytest.raises(UsageError, match=f"{CLAUDE}, {place}"):
        read(data)


@pytest.mark.parametrize("path", ["/etc", "../x", "./../x", "./a/../../b", "skills", "~/x", ""])
def test_a_path_that_does_not_lie_inside_is_left_out_by_name(path):
    found = read({"skills": path})
    assert found.skills == ("skills",)
    assert "does not lie inside" in found.warnings[0]


def test_what_has_no_meaning_here_is_named():
    found = read({"lspServers": {}, "madeUp": 1})
    assert [warning.split("'")[1] for warning in found.warnings] == ["lspServers", "madeUp"]


@given(st.text(max_size=60))
def test_no_inner_path_leads_out(text):
    inner = inner_path(text)
    assert inner is None or (not inner.startswith("/") and ".." not in inner.split("/"))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_manifest_or_a_readable_error(data):
    try:
        read(data)
    except UsageError as error:
        assert str(error).startswith(CLAUDE)


@pytest.mark.parametrize(
    ("own", "project", "used"),
    [
        (True, [], True),
        (True, [None], True),
        (True, [False], False),
        (True, [False, True], False),
        (None, [], False),
        (None, [True], True),
        (None, [True, False], False),
        (False, [True], False),
    ],
)
def test_a_project_selects_and_restricts_and_never_overrules_a_no(own, project, used):
    assert is_selected(own, project) is used


def test_a_difference_names_each_file_once():
    old, new = {"a": "1", "b": "2", "c": "3"}, {"b": "2", "c": "4", "d": "5"}
    assert list(changed_files(old, new)) == ["- a", "~ c", "+ d"]


def test_a_description_that_is_no_text_costs_itself():
    found = read({"name": "demo", "description": ["a", "b"]})
    assert (found.name, found.description) == ("demo", "")
    assert "'description' is not text; left out" in found.warnings[0]
