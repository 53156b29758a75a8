"""Which skills count, which lines fit, and which ones a text names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.roles.parts.skills.skill_file import Skill
from swarm.roles.parts.skills.skill_list import (
    SkillRule,
    enabled_skills,
    mentioned_skills,
    shared_names,
    skill_lines,
)


def skill(name, *, place="/s", description="x", is_listed=True):
    path = f"{place}/{name}/SKILL.md"
    return Skill(
        name=name, description=description, path=path, scope="user", digest="0", is_listed=is_listed
    )


A, B, TWIN = skill("a"), skill("b-2"), skill("a", place="/t")


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        ((), ["a", "b-2", "a"]),
        ((SkillRule(name="a", enabled=False),), ["b-2"]),
        ((SkillRule(name="b-*", enabled=False),), ["a", "a"]),
        ((SkillRule(name="*", enabled=False), SkillRule(name="?-2")), ["b-2"]),
        ((SkillRule(path="/t/a/SKILL.md", enabled=False),), ["a", "b-2"]),
        ((SkillRule(name="a", enabled=False), SkillRule(path="/t/a/SKILL.md")), ["b-2", "a"]),
    ],
)
def test_a_later_rule_overrides_an_earlier_one(rules, names):
    assert [one.name for one in enabled_skills((A, B, TWIN), rules)] == names


def test_a_line_that_does_not_fit_is_left_out_whole_and_a_smaller_one_follows():
    long = skill("long", description="y" * 200)
    found = skill_lines((long, A, skill("quiet", is_listed=False)), limit_bytes=60)
    assert found.lines == ("- a: x (file: /s/a/SKILL.md)",)
    assert found.left_out == 1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("use $a, then $b-2.", ["a", "b-2"]),
        ("/b-2 now", ["b-2"]),
        (" /a", ["a"]),
        ("see /a", []),
        ("$a$a and $a", ["a"]),
        ("$HOME/a and $path", []),
        ("price$a", []),
        ("[$b-2](/s/b-2/SKILL.md)", ["b-2"]),
        ("[$b-2](skill:///s/b-2/SKILL.md)", ["b-2"]),
        ("[$b-2](/elsewhere/SKILL.md)", []),
        ("$unknown", []),
        ("$b-2: do it", ["b-2"]),
    ],
)
def test_a_text_names_skills(text, names):
    known = (A, B, skill("path"), skill("home"))
    assert [one.name for one in mentioned_skills(text, known)] == names


def test_a_name_that_two_skills_have_names_none_but_a_link_does():
    assert mentioned_skills("$a", (A, TWIN)) == ()
    assert shared_names("/a and $a: $b", (A, TWIN, B)) == {"a": (A.path, TWIN.path)}
    assert shared_names("$a $b", (A, B)) == {}
    assert mentioned_skills("[$a](/t/a/SKILL.md)", (A, TWIN)) == (TWIN,)


@given(st.text(alphabet="$[]()/ab-2: \n", max_size=40))
def test_any_text_names_each_skill_at_most_once(text):
    found = mentioned_skills(text, (A, B))
    assert len({one.path for one in found}) == len(found)
