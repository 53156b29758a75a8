"""Which skills an agent is told of now, and which its commands use."""

import msgspec
import pytest

from swarm.mailbox.protocol.settings import SkillChoice
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Limits
from swarm.roles.parts.skills.skill_file import Skill
from swarm.roles.parts.skills.skill_list import skill_line
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.context.current_skills import CurrentSkills
from swarm.supervisor.request.run_request import RunRequest, SkillSet

ALL = SkillChoice()


def skill(name: str) -> Skill:
    return Skill(name=name, description="x", path=f"/s/{name}/SKILL.md", scope="user", digest="0")


def current(*names: str) -> CurrentSkills:
    skills = tuple(map(skill, names))
    lines = tuple(map(skill_line, skills))
    return CurrentSkills(RunRequest(cwd="/", skill_set=SkillSet(skills=skills, lines=lines)))


def plan(choice: SkillChoice = ALL, **more: object) -> AgentPlan:
    blank = AgentPlan(
        agent_id="1", path="/root", role=RoleBrief(skills=choice), limits=Limits(), cwd="/"
    )
    return msgspec.structs.replace(blank, **more)


def test_an_agent_is_told_of_what_its_role_leaves_and_a_reviewer_of_none():
    skills = current("a", "b")
    assert skills.lines_for(plan()) == (skill_line(skill("a")), skill_line(skill("b")))
    assert skills.lines_for(plan(SkillChoice(only=("b",)))) == (skill_line(skill("b")),)
    assert skills.lines_for(plan(slotless=True)) == ()


def test_a_new_list_holds_for_all_from_then_on():
    skills = current("a")
    skills.replace((skill("b"),), (skill_line(skill("b")),))
    assert (skills.version, skills.lines_for(plan())) == (1, (skill_line(skill("b")),))


@pytest.mark.parametrize(
    ("script", "used"),
    [
        ("cat /s/a/SKILL.md", {"/s/a/SKILL.md"}),
        ("sh /s/b/scripts/go.sh && cat /s/a/SKILL.md", {"/s/a/SKILL.md", "/s/b/SKILL.md"}),
        ("ls /s/a", set()),
    ],
)
def test_a_command_uses_the_skills_that_it_opens(script: str, used: set[str]):
    skills = current("a", "b")
    skills.note_command(script)
    assert skills.used == used
