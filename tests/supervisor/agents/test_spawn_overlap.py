"""What a spawn would do twice is said back before it starts; the same call again starts it."""

import msgspec
import pytest

from swarm.mailbox.base.ids import child_path
from swarm.mailbox.protocol.requests import Spawn
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Limits
from swarm.roles.rights.role import Role
from swarm.supervisor.agents.agent_phases import Phase
from swarm.supervisor.agents.agent_record import Agent, AgentPlan
from swarm.supervisor.agents.child_plan import AgentRequestError, plan_child
from swarm.supervisor.agents.spawn_overlap import AGAIN, SpawnOverlapCheck, describe_overlap

ROOT = AgentPlan(path="/root", agent_id="1", role=RoleBrief(), limits=Limits(), cwd="/w")
TASK = "Read the parser and find the leak."


class Team:
    """The directory's members."""

    def __init__(self, *agents: Agent) -> None:
        self.members = {agent.path: agent for agent in agents}


def plan(name: str, message: str = TASK, *claims: str, parent=ROOT, role="default") -> AgentPlan:
    request = Spawn(task_name=name, message=message, claims=claims)
    made = plan_child(parent, request, Role(name=role), agent_id=name)
    assert made.path == child_path(parent.path, name)
    return made


def agent(made: AgentPlan, phase: Phase = Phase.RUNNING) -> Agent:
    return Agent(made, phase=phase)


def overlap(made: AgentPlan, *others: Agent) -> str:
    return describe_overlap(made, (agent(ROOT), *others))


def test_a_task_in_the_same_words_names_who_has_it():
    found = overlap(plan("b", "read the PARSER, and find the leak"), agent(plan("a")))
    assert found == (
        "/root/a (running) was started for the same task. Wait for its answer, or give the child "
        "another part of the work."
    )


@pytest.mark.parametrize(
    "other",
    [
        plan("a", "Read the lexer and find the leak."),
        plan("a", role="explorer"),
        msgspec.structs.replace(plan("a"), model_settings=ModelSettings(model="another")),
        msgspec.structs.replace(plan("a"), model_settings=ModelSettings(provider="another")),
    ],
)
def test_other_words_another_role_or_model_are_another_task(other):
    assert not overlap(plan("b"), agent(other))


def test_nobody_hands_on_its_own_task_word_for_word():
    parent = plan("a")
    found = overlap(plan("x", parent=parent), agent(parent))
    assert found.startswith("this is your own task, word for word")


def test_files_that_meet_are_named_with_whose_they_are():
    other = agent(plan("a", "Mend the lexer at last.", "src/lex", "/etc/x"), Phase.QUEUED)
    found = overlap(plan("b", TASK, "src/lex/core.py", "src/parse.py"), other)
    assert found == (
        "it would write src/lex/core.py, and /root/a (queued) claims src/lex, /etc/x. Give the "
        "child other files, or wait for /root/a."
    )
    assert not overlap(plan("b", TASK, "src/lexer.py", "src/parse.py"), other)


def test_an_agent_may_hand_on_what_it_claims_but_not_what_its_siblings_claim():
    parent = plan("a", "Mend the whole source.", "src")
    sibling = agent(plan("b", "Mend the lexer at last.", "src/lex.py"))
    child = plan("x", TASK, "src/parse.py", parent=parent)
    assert not overlap(child, agent(parent), sibling)
    child = plan("x", TASK, "src/lex.py", parent=parent)
    assert "/root/b" in overlap(child, agent(parent), sibling)


def test_the_same_call_again_starts_the_child_and_another_does_not():
    check = SpawnOverlapCheck(Team(agent(plan("a", TASK, "x"))))
    with pytest.raises(AgentRequestError, match="not started: /root/a") as caught:
        check.check(plan("b"))
    assert str(caught.value).endswith(AGAIN)
    for other in (plan("c"), plan("b", TASK, "x"), plan("b", "Anything else is this.", "x")):
        with pytest.raises(AgentRequestError):
            check.check(other)
    check.check(plan("b"))
    with pytest.raises(AgentRequestError):  # it was meant once
        check.check(plan("b"))


@pytest.mark.parametrize("phase", [Phase.IDLE, Phase.ENDED, Phase.CLOSED])
def test_who_does_not_work_keeps_nobody_from_a_task_or_a_file(phase):
    SpawnOverlapCheck(Team(agent(plan("a", TASK, "x"), phase))).check(plan("b", TASK, "x"))


def test_a_claim_that_is_no_path_is_refused():
    with pytest.raises(AgentRequestError, match="claims: each is the path"):
        plan("a", TASK, " ")
