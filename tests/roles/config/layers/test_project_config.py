"""A project's folders are read once, from its root down; what is read is what is hashed."""

import os
from pathlib import Path

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.layers.config_loader import load_config
from swarm.roles.config.layers.project_config import (
    DENIED_INNER_KEYS,
    DENIED_KEYS,
    MAX_FOLDERS,
    project_layers,
    read_project_folders,
)
from swarm.roles.role_loader import UnusableRole, find_role, load_roles

ROLE = "name = 'scout'\ndescription = 'looks'\ndeveloper_instructions = 'Look.'\n"


@pytest.fixture
def repo(tmp_path):
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    return tmp_path / "repo"


def write(folder: Path, **files):
    """`config='…'` is `.swarm/config.toml`; `rules__a='…'` is `.swarm/rules/a.rules`."""
    for name, text in files.items():
        top, _, rest = name.partition("__")
        path = folder / ".swarm" / {
            "config": "config.toml", "hooks": "hooks.json",
            "rules": f"rules/{rest}.rules", "agents": f"agents/{rest}.toml",
        }[top]  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def read(cwd, markers=(".git",), home=Path("/nonexistent")):
    return read_project_folders(cwd, markers, config_folder=home)


def trust_all(folders):
    return ["" for _ in folders]


def layers(cwd, below=None, judge=trust_all, home=Path("/nonexistent")):
    return project_layers(cwd, below or {}, config_folder=home, decide=judge)


def test_folders_count_from_the_projects_root_to_the_cwd_and_not_above_or_beside(repo):
    for place in (repo.parent, repo, repo / "a", repo / "a" / "b", repo / "other"):
        write(place, config="model = 'x'")
    found = read(repo / "a" / "b")
    assert [one.folder for one in found] == [str(repo), str(repo / "a"), str(repo / "a" / "b")]
    assert {one.root for one in found} == {str(repo)}


def test_without_a_marker_only_the_cwd_is_the_project(tmp_path):
    write(tmp_path, config="model = 'above'")
    write(tmp_path / "a", config="model = 'a'")
    assert [one.folder for one in read(tmp_path / "a", ())] == [str(tmp_path / "a")]
    assert [one.folder for one in read(tmp_path / "a", ("none",))] == [str(tmp_path / "a")]


def test_the_root_is_marked_by_what_lower_layers_say_and_never_by_the_project(repo):
    (repo / "a").mkdir()
    (repo / "HERE").touch()
    write(repo, config="model = 'root'\nproject_root_markers = ['x']")
    assert len(layers(repo / "a", {"project_root_markers": ["HERE"]})) == 1
    assert len(layers(repo / "a", {"project_root_markers": []})) == 0
    with pytest.raises(UsageError, match="must be an array of strings"):
        layers(repo / "a", {"project_root_markers": "HERE"})


def test_the_persons_own_folder_is_no_projects(repo):
    write(repo, config="model = 'x'")
    assert read(repo, home=repo / ".swarm") == ()
    (repo.parent / "link").symlink_to(repo / ".swarm")
    assert read(repo, home=repo.parent / "link") == ()


def test_a_folder_with_nothing_that_could_count_is_nothing_to_trust(repo):
    (repo / ".swarm" / "rules").mkdir(parents=True)
    (repo / ".swarm" / "notes.txt").write_text("x")
    assert read(repo) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"config": "model = 'b'"}, {"rules__a": "# other"}, {"rules__b": ""},
        {"agents__scout": ROLE + "model = 'm'"}, {"agents__deep/er": ROLE}, {"hooks": "[]"},
    ],
)  # fmt: skip
def test_every_change_of_what_could_count_is_other_content(repo, change):
    write(repo, config="model = 'a'", rules__a="", agents__scout=ROLE)
    before = read(repo)[0].digest
    assert read(repo)[0].digest == before
    write(repo, **change)
    assert read(repo)[0].digest != before


def test_what_does_not_count_changes_nothing(repo):
    write(repo, config="model = 'a'")
    before = read(repo)[0].digest
    (repo / ".swarm" / "notes.txt").write_text("x")
    (repo / "README.md").write_text("x")
    assert read(repo)[0].digest == before


def test_a_copy_of_the_project_has_the_same_content(repo, tmp_path):
    for place in (repo, tmp_path / "copy"):
        write(place, config="model_instructions_file = '../base.md'", rules__a="# r")
        (place / "base.md").write_text("Be brief.")
    assert read(repo)[0].digest == read(tmp_path / "copy")[0].digest


def test_two_files_cannot_be_moved_into_each_other_unnoticed(repo, tmp_path):
    write(repo, rules__a="one", rules__b="two")
    write(tmp_path / "copy", rules__a="onetwo", rules__b="")
    assert read(repo)[0].digest != read(tmp_path / "copy")[0].digest


def test_files_that_the_configuration_names_belong_to_the_content(repo):
    write(
        repo,
        config="model_instructions_file = '../base.md'\n[agents.x]\nconfig_file = '../x.toml'",
    )
    (repo / "base.md").write_text("Be brief.")
    (repo / "x.toml").write_text("model_instructions_file = 'role.md'")
    (repo / "role.md").write_text("Role.")
    before = read(repo)[0].digest
    for name in ("base.md", "x.toml", "role.md"):
        old = (repo / name).read_text()
        (repo / name).write_text(old + "# more")
        assert read(repo)[0].digest not in ("", before), name
        (repo / name).write_text(old)
    assert read(repo)[0].digest == before


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("model_instructions_file = '/etc/hostname'", "outside of the project"),
        ("model_instructions_file = '../../secret'", "outside of the project"),
        ("model_instructions_file = '../link'", "outside of the project"),
        ("[agents.x]\nconfig_file = '../../secret'", "outside of the project"),
        ("model_instructions_file = 'none.md'", "there is no such file"),
        ("model_instructions_file = 'pipe'", "not a regular file"),
    ],
)
def test_a_project_that_names_what_it_may_not_cannot_be_trusted(repo, config, words):
    (repo.parent / "secret").write_text("s")
    (repo / "link").symlink_to(repo.parent / "secret")
    write(repo, config=config)
    os.mkfifo(repo / ".swarm" / "pipe")
    (one,) = read(repo)
    assert words in one.problem
    assert (one.digest, one.files) == ("", {})


def test_a_pipe_in_a_files_place_is_not_waited_for(repo):
    (repo / ".swarm").mkdir()
    os.mkfifo(repo / ".swarm" / "config.toml")
    assert "not a regular file" in read(repo)[0].problem


def test_huge_files_and_endless_folders_cannot_be_trusted(repo):
    write(repo, config="#" * ((1 << 20) + 1))
    assert "over 1024 KiB" in read(repo)[0].problem
    write(repo, config="")
    for number in range(5001):
        write(repo, **{f"agents__{number}": ""}) if number < 1 else (
            repo / ".swarm" / "agents" / f"{number}.txt"
        ).touch()
    assert "more than 5000 entries" in read(repo)[0].problem


def test_a_hundred_folders_deep_is_read_whole_and_far_deeper_is_bounded(repo):
    deep = repo
    for _ in range(MAX_FOLDERS + 20):
        deep = deep / "d"
        write(deep, config="model = 'x'")
    hundredth = repo.joinpath(*["d"] * 100)
    assert len(read(hundredth)) == 100
    assert not any(one.problem for one in read(hundredth))
    found = read(deep)
    assert len(found) == MAX_FOLDERS + 1
    assert f"more than {MAX_FOLDERS}" in found[-1].problem


def test_the_nearest_folder_wins_and_paths_are_relative_to_their_own(repo):
    write(repo, config="model = 'root'\nmodel_reasoning_effort = 'low'\n"
          "[sandbox_workspace_write]\nwritable_roots = ['out']")  # fmt: skip
    write(repo / "sub", config="model = 'sub'")
    loaded = load_config(layers(repo / "sub"))
    assert (loaded.config.model, loaded.config.model_reasoning_effort) == ("sub", "low")
    roots = loaded.config.sandbox_workspace_write.writable_roots
    assert roots == (f"{repo}/.swarm/out",)
    assert loaded.merged.origins["model",].file == f"{repo}/sub/.swarm/config.toml"


def test_what_is_not_trusted_says_nothing_and_that_is_told(repo):
    write(repo, config="sandbox_mode = 'danger-full-access'\nx = [", agents__scout=ROLE)
    refused = layers(repo, judge=lambda folders: ["not trusted" for _ in folders])
    loaded = load_config(refused)
    assert loaded.config.sandbox_mode == "workspace-write"
    assert ["not trusted" in words for words in loaded.warnings] == [True]
    assert "scout" not in load_roles(refused).known


def test_a_trusted_file_that_is_broken_stops_the_run(repo):
    write(repo, config="model = 'a'\nmodel = 'b'")
    with pytest.raises(UsageError, match=r"config\.toml, line 2, column 12: not valid TOML"):
        load_config(layers(repo))


@pytest.mark.parametrize("key", DENIED_KEYS)
def test_a_project_cannot_set_what_is_the_persons_own(repo, key):
    write(repo, config=f"model = 'm'\n{key} = 'evil'")
    (layer,) = layers(repo)
    assert layer.values == {"model": "m"}
    assert f"line 2: a project may not set {key}: ignored" in layer.warnings[0]


@pytest.mark.parametrize(("table", "inner"), DENIED_INNER_KEYS)
def test_a_project_cannot_set_a_part_of_a_table_that_is_the_persons_own(repo, table, inner):
    write(repo, config=f"[{table}]\n{inner} = {{}}\nother = 1")
    (layer,) = layers(repo)
    assert layer.values == {table: {"other": 1}}
    assert f"a project may not set {table}.{inner}: ignored" in layer.warnings[0]


def test_a_role_of_a_trusted_project_counts_as_it_was_read(repo):
    write(repo, agents__scout=ROLE)
    trusted = layers(repo)
    write(repo, agents__scout=ROLE.replace("Look.", "Something else."))
    scout = find_role(load_roles(trusted), "scout")
    assert scout.developer_instructions == "Look."
    assert scout.source == f"{repo}/.swarm/agents/scout.toml"


def test_a_role_file_that_appears_later_is_no_part_of_what_was_trusted(repo):
    write(repo, config="model = 'm'")
    trusted = layers(repo)
    write(repo, agents__scout=ROLE)
    assert "scout" not in load_roles(trusted).known


def test_a_projects_role_chooses_no_provider(repo):
    write(repo, agents__scout=ROLE + "model_provider = 'evil'")
    with pytest.raises(UnusableRole, match="may not set model_provider"):
        find_role(load_roles(layers(repo)), "scout")
