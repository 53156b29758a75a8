"""Which sandbox a run gets: mode or profile, and never one that the requirements forbid."""

import json

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import may_write
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    ProfilePolicy,
    ReadOnly,
    WorkspaceWrite,
)
from swarm.roles.config.layers.config_loader import load_config, read_requirements
from swarm.roles.config.layers.merge import Layer
from swarm.supervisor.clients.cli.main import run_cli
from swarm.supervisor.clients.cli.run_setup.sandbox_choice import resolve_run_sandbox

PROFILES = {
    "ours": {"filesystem": {":minimal": "read", ":project_roots": "write"}},
    "look": {"filesystem": {":root": "read", "/etc/shadow": "deny"}},
}


@pytest.fixture
def sandbox(tmp_path):
    def make(*tables, requirements="", profile=None):
        (tmp_path / "requirements.toml").write_text(requirements)
        held = read_requirements([tmp_path])
        assert not held.broken, held.broken
        layers = [Layer(name="user", values={"permissions": PROFILES})]
        layers += [Layer(name=str(number), values=table) for number, table in enumerate(tables)]
        loaded = load_config(layers, requirements=held)
        return resolve_run_sandbox(loaded, cwd="/srv", add_dirs=("/opt",), profile=profile).policy

    return make


def test_the_highest_layer_decides_between_mode_and_profile(sandbox):
    profile, mode = {"default_permissions": "ours"}, {"sandbox_mode": "workspace-write"}
    assert isinstance(sandbox(mode, profile), ProfilePolicy)
    assert sandbox(profile, mode) == WorkspaceWrite(writable_roots=("/opt",))
    assert sandbox(mode, {"default_permissions": ":danger-full-access"}) == DangerFullAccess()
    assert sandbox(mode, profile=":workspace") == WorkspaceWrite(writable_roots=("/opt",))
    with pytest.raises(UsageError, match="does not set `default_permissions`"):
        sandbox()


def test_each_added_folder_is_a_root_of_the_project(sandbox):
    policy = sandbox({"default_permissions": "ours"})
    assert may_write(policy, "/opt/x")
    assert may_write(policy, "/srv/x")
    assert not may_write(policy, "/var/x")


@pytest.mark.parametrize(
    ("requirements", "tables", "profile", "words"),
    [
        ("allowed_permission_profiles = ['look']", {"default_permissions": "ours"}, None,
         'default_permissions = "ours" is not allowed'),
        ("allowed_permission_profiles = ['look']", {"sandbox_mode": "read-only"}, "ours",
         "permission profile ours is not allowed"),
        ("allowed_sandbox_modes = ['read-only', 'workspace-write']",
         {"default_permissions": ":danger-full-access"}, None, "is not allowed"),
    ],
)  # fmt: skip
def test_requirements_bind_profiles_too(sandbox, requirements, tables, profile, words):
    with pytest.raises(UsageError) as caught:
        sandbox(tables, requirements=requirements, profile=profile)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["ours", "look", ":workspace"])
def test_a_profile_is_no_way_around_a_required_mode(sandbox, name):
    demand = "allowed_sandbox_modes = ['read-only']"
    with pytest.raises(UsageError, match="is not allowed"):
        sandbox({"default_permissions": name}, requirements=demand)
    policy = sandbox({}, requirements=demand, profile=name)  # chosen past the layers
    writes = getattr(policy, "rules", ())
    assert policy == ReadOnly() or not any(rule.access == "write" for rule in writes)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SWARM_HOME", str(tmp_path))
    monkeypatch.chdir("/usr")
    (tmp_path / "config.toml").write_text(
        "sandbox_mode = 'read-only'\n[permissions.ours.filesystem]\n':minimal' = 'read'\n"
        "[permissions.loop]\nextends = 'loop'\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["sandbox", "-P", "none", "--", "true"], 125, "undefined profile `none`"),
        (["sandbox", "-P", "loop", "--", "true"], 125, "extends itself"),
        (["sandbox", "-P", ":none", "--", "true"], 125, "unknown built-in profile `:none`"),
        (["sandbox", "-s", "read-only", "-P", "ours", "--", "true"], 2, "not both"),
        (["explain", "-P", "none", "--", "true"], 2, "undefined profile `none`"),
        (["explain", "-s", "read-only", "-P", "ours", "--", "true"], 2, "not both"),
        (["run", "-p", "x", "-c", "default_permissions=none"], 2, "undefined profile `none`"),
        (["config", "set", "permissions.ours.filesystem.x", "all"], 2, "is not known; there are"),
        (["config", "set", "permissions.ours.file.x", "read"], 2, "no such key"),
    ],
)
def test_a_mistake_is_told_before_anything_starts(home, capfd, words, code, said):
    assert run_cli(words) == code
    assert said in capfd.readouterr().err


def test_a_role_is_explained_under_the_profile(home, capfd):
    assert run_cli(["config", "set", "default_permissions", "ours"]) == 0
    assert run_cli(["roles", "explain", "explorer", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["limits"]["sandbox"]["name"] == "ours"
