"""Which skills a role is told of, and that no child is told of more."""

import pytest

from swarm.mailbox.protocol.settings import SkillChoice
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.roles.config.layers.config_loader import read_layer
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import UnusableRole, find_role, load_roles
from swarm.supervisor.agents.child_plan import child_brief

HEAD = "name = 'scout'\ndescription = 'looks'\ndeveloper_instructions = 'Look.'\n"


def role_of(folder, text):
    (folder / "agents").mkdir()
    (folder / "config.toml").write_text("")
    (folder / "agents" / "scout.toml").write_text(HEAD + text)
    return find_role(load_roles([read_layer("user", folder / "config.toml")]), "scout")


@pytest.mark.parametrize(
    ("text", "skills"),
    [
        ("", SkillChoice()),
        ("skills = ['notes']", SkillChoice(only=("notes",))),
        ("skills = []", SkillChoice(only=())),
        ("skills.exclude = ['notes']", SkillChoice(exclude=("notes",))),
    ],
)
def test_skills_are_a_list_or_a_table_of_what_is_excluded(tmp_path, text, skills):
    role = role_of(tmp_path, text)
    assert (role.skills, role.warnings) == (skills, ())
    assert role.brief().skills == skills


@pytest.mark.parametrize("text", ["skills = 'notes'", "[skills]\nexclud = []"])
def test_a_wrong_choice_names_file_and_line(tmp_path, text):
    with pytest.raises(UnusableRole, match=r"scout\.toml, line 4, skills"):
        role_of(tmp_path, text)


@pytest.mark.parametrize(
    ("parent", "own", "both"),
    [
        (SkillChoice(), SkillChoice(only=("a",)), SkillChoice(only=("a",))),
        (SkillChoice(only=("a", "b")), SkillChoice(), SkillChoice(only=("a", "b"))),
        (SkillChoice(only=("a",)), SkillChoice(only=("b", "a")), SkillChoice(only=("a",))),
        (SkillChoice(only=("a",)), SkillChoice(only=("b",)), SkillChoice(only=())),
        (SkillChoice(exclude=("a",)), SkillChoice(exclude=("b",)),
         SkillChoice(exclude=("a", "b"))),
    ],
)  # fmt: skip
def test_a_child_is_told_of_what_its_parent_and_its_role_leave(parent, own, both):
    assert child_brief(RoleBrief(skills=parent), Role(name="r", skills=own)).skills == both
    assert all(parent.allows(n) and own.allows(n) for n in ("a", "b") if both.allows(n))
