"""What is said of skills that changed while a run is on."""

import msgspec

from swarm.roles.parts.skills.skill_file import Skill
from swarm.supervisor.parts.skills.skill_watcher import describe_changes


def skill(name: str) -> Skill:
    return Skill(name=name, description="x", path=f"/{name}/SKILL.md", scope="user", digest="0")


def test_new_changed_and_missing_skills_are_named():
    changed = msgspec.structs.replace(skill("b"), description="y")
    before, now = [skill("a"), skill("b"), skill("c")], [skill("a"), changed, skill("d")]
    assert describe_changes(before, now) == "d (new), b (changed), c (gone)"


def test_a_long_list_of_changes_is_cut():
    many = [skill(f"s{number:02}") for number in range(30)]
    assert describe_changes([], many).endswith("s19 (new) and 10 more")
