"""A role has nothing of plugins that it does not choose, but their hooks."""

import msgspec
import pytest

from swarm.mailbox.protocol.settings import SkillChoice
from swarm.roles.config.layers.config_loader import read_layer
from swarm.roles.config.layers.merge import Layer
from swarm.roles.parts.plugins.files.plugin_manifest import PluginManifest
from swarm.roles.parts.plugins.files.plugin_parts import PluginParts
from swarm.roles.parts.skills.skill_file import Skill
from swarm.roles.role_loader import find_role, load_roles

HEAD = "name = 'scout'\ndescription = 'looks'\ndeveloper_instructions = 'Look.'\n"


def plugin_layer(name: str) -> Layer:
    skill = Skill(
        name=f"{name}:notes", description="x", path=f"/{name}", scope="plugin", digest="0"
    )
    parts = PluginParts(
        plugin_id=f"{name}@local", root=f"/{name}", digest="0", skills=(skill,),
        manifest=PluginManifest(name=name, path="plugin.json"),
    )  # fmt: skip
    server = {"mcp_servers": {f"{name}-docs": {"command": "true"}}}
    return Layer(name=f"plugin {name}@local", values=server, plugin=parts)


def loaded(folder, text):
    (folder / "agents").mkdir()
    (folder / "config.toml").write_text("")
    (folder / "agents" / "scout.toml").write_text(HEAD + text)
    layers = [plugin_layer("demo"), plugin_layer("other")]
    return load_roles([*layers, read_layer("user", folder / "config.toml")])


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("", ()),
        ("plugins = ['demo']", ("other",)),
        ("plugins = ['demo@local']", ("other",)),
        ("plugins = []", ("demo", "other")),
        ("[plugins.'other@local']\nenabled = false", ("other",)),
        ("[plugins.demo]\nenabled = true", ()),
    ],
)
def test_skills_and_servers_of_the_others_are_taken_away(tmp_path, text, gone):
    roles = loaded(tmp_path, text)
    role = find_role(roles, "scout")
    assert role.skills == SkillChoice(exclude=tuple(f"{name}:notes" for name in gone))
    assert role.without_servers == tuple(f"{name}-docs" for name in gone)
    assert roles.warnings == ()


def test_a_choice_of_skills_and_one_of_plugins_hold_together(tmp_path):
    role = find_role(loaded(tmp_path, "skills = ['demo:notes']\nplugins = ['other']"), "scout")
    assert not role.skills.allows("demo:notes")
    assert not role.skills.allows("other:notes")


def test_a_name_that_no_plugin_has_is_said(tmp_path):
    (warning,) = loaded(tmp_path, "plugins = ['demo', 'none']").warnings
    assert "none is not a plugin that counts here" in warning


def test_other_roles_are_as_they_were(tmp_path):
    roles = loaded(tmp_path, "plugins = []")
    assert (
        msgspec.structs.replace(find_role(roles, "default"), plugins=None).skills == SkillChoice()
    )
