"""How many agents the file descriptors of one process are enough for."""

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.supervisor.agents import descriptor_limit
from swarm.supervisor.agents.descriptor_limit import (
    DESCRIPTORS_PER_AGENT,
    limit_by_descriptors,
    max_agents_for,
)
from swarm.supervisor.agents.slots import AgentLimitReached, AgentRegistry


@pytest.mark.parametrize(("limit", "agents"), [(256, 37), (330, 60), (1024, 277), (4096, 1237)])
def test_the_numbers_that_the_documentation_states(limit, agents):
    assert max_agents_for(limit) == agents


@given(st.integers(64, 1 << 20))
def test_more_descriptors_never_mean_fewer_agents(limit):
    assert 1 <= max_agents_for(limit) <= max_agents_for(limit + DESCRIPTORS_PER_AGENT)


@pytest.mark.parametrize("limit", [4096, resource.RLIM_INFINITY])
def test_where_they_are_enough_nothing_is_said(monkeypatch, limit):
    monkeypatch.setattr(descriptor_limit.resource, "getrlimit", lambda _: (limit, limit))
    assert limit_by_descriptors(1000) == (1000, "")


def test_where_they_are_not_the_refusal_says_the_number_and_what_to_raise(monkeypatch):
    monkeypatch.setattr(descriptor_limit.resource, "getrlimit", lambda _: (256, 256))
    most, bound = limit_by_descriptors(200)
    registry = AgentRegistry(most, bound=bound)
    for number in range(most):
        with registry.reserve(f"/root/a{number}") as slot:
            slot.commit(number + 1)
    with (
        pytest.raises(AgentLimitReached, match=r"all 37 agent slots .* `ulimit -Hn`"),
        registry.reserve("/root/one_more"),
    ):
        raise AssertionError
