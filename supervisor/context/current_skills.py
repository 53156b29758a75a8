"""The skills of a run as of now: those of its start, until files change (`skill_watch/`)."""

from collections.abc import Sequence

from swarm.mailbox.protocol.settings import SkillChoice
from swarm.roles.parts.skills.skill_file import Skill
from swarm.roles.parts.skills.skill_list import skill_lines

from ..agents.agent_record import AgentPlan
from ..request.run_request import RunRequest


class CurrentSkills:
    """Changed by the watcher alone, in one step."""

    def __init__(self, request: RunRequest) -> None:
        self.skills: tuple[Skill, ...] = request.skill_set.skills
        self.lines: tuple[str, ...] = request.skill_set.lines  # what models are told of them
        self._budget_bytes = request.skill_set.sources.budget_bytes
        self.used: set[str] = set()  # paths of those that commands have opened
        self.version = 0  # counts the changes

    def replace(self, skills: Sequence[Skill], lines: Sequence[str]) -> None:
        """These count from now on."""
        self.skills, self.lines = tuple(skills), tuple(lines)
        self.version += 1

    def note_command(self, script: str) -> None:
        """A command that opens a skill's file, or runs a script of it by its path, uses it."""
        self.used |= {
            skill.path
            for skill in self.skills
            if skill.path in script or f"{skill.folder}/scripts/" in script
        }

    def lines_for(self, plan: AgentPlan) -> tuple[str, ...]:
        """What an agent is told: skills that its role allows; a reviewer knows none."""
        choice = plan.role.skills
        if plan.slotless or not self.lines:
            return ()
        if choice == SkillChoice():
            return self.lines
        allowed = [skill for skill in self.skills if choice.allows(skill.name)]
        return skill_lines(allowed, limit_bytes=self._budget_bytes).told
