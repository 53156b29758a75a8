"""Which provider and model a child gets, and which providers nobody gets in the middle of a run."""

import msgspec
import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.model_reference import ModelReference
from swarm.mailbox.protocol.events import ProviderFallback
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Limits
from swarm.roles.rights.role import Role
from swarm.supervisor.agents.agent_fallback import plan_after_fallback
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.agents.run_providers import RunProviders, child_model

PROVIDERS = RunProviders(own="openai", further=("ollama",), known=("openai", "ollama", "mine"))
ROOT = ModelReference(model="gpt-5")
PLAN = AgentPlan(
    path="/root",
    agent_id="1",
    role=RoleBrief(),
    limits=Limits(),
    cwd="/",
    model_settings=ModelSettings(fallback=("ollama:qwen:7b", "mine")),
)


@pytest.mark.parametrize(
    ("role", "wanted", "found"),
    [
        ({}, None, (None, "gpt-5")),
        ({}, "gpt-5-mini", (None, "gpt-5-mini")),
        ({}, "ollama:qwen:7b", ("ollama", "qwen:7b")),
        ({}, "qwen:7b", (None, "qwen:7b")),
        ({"model_provider": "ollama"}, None, ("ollama", None)),
        ({"model_provider": "ollama", "model": "q"}, "other", ("ollama", "q")),
        ({"model_provider": "ollama"}, "ollama:q", ("ollama", "q")),
        ({"model_provider": "openai"}, None, ("openai", "gpt-5")),
        ({"model": "gpt-5-nano"}, "ollama:q", (None, "gpt-5-nano")),
    ],
)
def test_a_child_has_what_its_role_sets_then_what_was_asked_for_then_its_parents(
    role, wanted, found
):
    child = child_model(PROVIDERS, ROOT, Role(name="r", **role), wanted)
    assert (child.provider, child.model) == found


def test_a_child_of_an_agent_on_another_provider_stays_there():
    parent = ModelReference(provider="ollama", model="q")
    assert child_model(PROVIDERS, parent, Role(name="r"), None) == parent
    back = child_model(PROVIDERS, parent, Role(name="r", model_provider="openai"), None)
    assert back == ModelReference(provider="openai")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("mine:m", "not part of this run"),
        ("olama:q", "did you mean `ollama`"),
        ("ollama:", "names no model"),
        ("a\nb", "not a name of a model"),
        ("x" * 300, "not a name of a model"),
    ],
)
def test_a_provider_that_the_run_did_not_name_is_refused_with_what_there_is(wanted, words):
    with pytest.raises(UsageError, match=words):
        child_model(PROVIDERS, ROOT, Role(name="r"), wanted)


def test_a_spawn_cannot_take_a_role_to_another_provider():
    with pytest.raises(UsageError, match="uses provider ollama"):
        child_model(PROVIDERS, ROOT, Role(name="r", model_provider="ollama"), "openai:gpt-5")


def taken(**change):
    fields = {
        "turn_id": "t",
        "failed_provider": "openai",
        "failed_model": "gpt-5",
        "kind": "overloaded",
        "message": "",
        "provider": "ollama",
        "model": "qwen:7b",
        "taken": 1,
    } | change
    return ProviderFallback(**fields)


def reference(plan):
    return plan.model_reference.provider, plan.model_reference.model


def asking(**changes):
    settings = msgspec.structs.replace(PLAN.model_settings, **changes)
    return msgspec.structs.replace(PLAN, model_settings=settings)


def test_a_fallback_is_in_the_plan_of_the_agents_next_process():
    first = plan_after_fallback(PLAN, taken())
    assert first is not None
    assert (*reference(first), first.fallbacks_taken) == ("ollama", "qwen:7b", 1)
    event = taken(failed_provider="ollama", failed_model="qwen:7b", provider="mine", model=None,
                  taken=2)  # fmt: skip
    second = plan_after_fallback(first, event)
    assert second is not None
    assert (*reference(second), second.fallbacks_taken) == ("mine", None, 2)


@pytest.mark.parametrize(
    "change",
    [{"taken": 0}, {"taken": 3}, {"provider": "evil"}, {"model": "other"}, {"taken": 2}],
)
def test_an_agent_cannot_take_what_its_list_does_not_say(change):
    assert plan_after_fallback(PLAN, taken(**change)) is None


def test_a_persons_choice_in_the_meantime_stands():
    chosen = asking(model="other")
    assert plan_after_fallback(chosen, taken()) is None
    chosen = asking(provider="mine")
    assert plan_after_fallback(chosen, taken()) is None
