"""A slot is a process: no path through the registry leaks one or counts one twice."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from swarm.supervisor.agents.slots import AgentLimitReached, AgentRegistry, PathTaken


def occupy(registry: AgentRegistry, path: str, pid: int, *, agent_id: str = "") -> None:
    with registry.reserve(path, agent_id=agent_id) as slot:
        slot.commit(pid)


def test_a_reservation_without_commit_frees_slot_and_path():
    registry = AgentRegistry(2)
    with pytest.raises(RuntimeError), registry.reserve("/root"):
        assert (registry.used, registry.free) == (1, 1)
        raise RuntimeError("the process did not start")
    assert registry.used == 0
    assert not registry.is_known("/root")


def test_a_committed_slot_is_freed_by_its_own_process_only_and_once():
    registry = AgentRegistry(2)
    occupy(registry, "/root", 10)
    assert not registry.release("/root", 11)
    assert registry.used == 1
    assert registry.release("/root", 10)
    assert not registry.release("/root", 10)
    assert registry.used == 0


def test_the_root_counts_and_a_starting_agent_counts():
    registry = AgentRegistry(2)
    occupy(registry, "/root", 10)
    with registry.reserve("/root/a"), pytest.raises(AgentLimitReached) as refusal:
        occupy(registry, "/root/b", 12)
    assert refusal.value.limit == 2
    assert "2 agent slots" in str(refusal.value)


def test_a_path_stays_its_agents_own_after_the_end():
    registry = AgentRegistry(2)
    occupy(registry, "/root/a", 10, agent_id="one")
    registry.release("/root/a", 10)
    with pytest.raises(PathTaken, match="agent path `/root/a` already exists"):
        occupy(registry, "/root/a", 11, agent_id="two")
    occupy(registry, "/root/a", 12, agent_id="one")
    assert registry.pid_of("/root/a") == 12


def test_an_agent_has_one_life_at_a_time():
    registry = AgentRegistry(3)
    occupy(registry, "/root/a", 10, agent_id="one")
    with pytest.raises(PathTaken):
        occupy(registry, "/root/a", 11, agent_id="one")


def test_a_resumed_run_knows_its_paths_before_any_process_lives():
    registry = AgentRegistry(1)
    registry.restore_path("/root/a", agent_id="one")
    assert registry.is_known("/root/a")
    assert registry.used == 0
    with pytest.raises(PathTaken):
        registry.restore_path("/root/a", agent_id="two")


def test_a_slot_cannot_be_committed_twice_or_after_its_block():
    registry = AgentRegistry(1)
    with registry.reserve("/root") as slot:
        slot.commit(10)
        with pytest.raises(ValueError, match="is over"):
            slot.commit(11)
    registry.release("/root", 10)
    with pytest.raises(ValueError, match="is over"):
        slot.commit(12)
    assert registry.used == 0


def test_its_repr_says_what_a_person_debugging_wants():
    registry = AgentRegistry(3)
    occupy(registry, "/root", 10)
    with registry.reserve("/root/a"):
        assert repr(registry) == "<2/3 slots, 1 starting, 1 paths>"


class Lives(RuleBasedStateMachine):
    """Any order of starts, failures, ends and repeated ends keeps the books right."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = AgentRegistry(3)
        self.alive: dict[str, int] = {}
        self.next_pid = 1

    @rule(path=st.sampled_from("abcde"), fails=st.booleans())
    def start(self, path: str, fails: bool) -> None:
        try:
            with self.registry.reserve(path) as slot:
                if not fails:
                    slot.commit(self.next_pid)
                    self.alive[path] = self.next_pid
                    self.next_pid += 1
        except AgentLimitReached:
            assert len(self.alive) == 3
        except PathTaken:
            assert path in self.alive

    @rule(path=st.sampled_from("abcde"), pid=st.integers(-1, 20))
    def end(self, path: str, pid: int) -> None:
        freed = self.registry.release(path, pid)
        assert freed == (self.alive.get(path) == pid)
        if freed:
            del self.alive[path]

    @invariant()
    def counts_the_living(self) -> None:
        self.registry.check()
        assert self.registry.used == len(self.alive)
        assert self.registry.free == 3 - len(self.alive)


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
