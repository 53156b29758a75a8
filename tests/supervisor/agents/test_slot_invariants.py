"""Any tree, whoever is killed when: all work is done, and no slot is ever lost."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from support.team_in_memory import WORK, Reply, TeamInMemory, calls, open_team, says, spawn, wait
from swarm.mailbox.protocol.items import AnyItem, FunctionCallOutput
from swarm.mailbox.protocol.records import AgentSpawned, MailPosted, ProcessEnded

Shape = dict[str, "Shape"]
NAMES = st.sampled_from(["a", "b", "c"])
LEAF: st.SearchStrategy[Shape] = st.just({})
SHAPES = st.recursive(
    LEAF, lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3), max_leaves=6
)
KILLS = st.lists(st.tuples(st.integers(0, 20), st.floats(0.01, 40)), max_size=3)


def paths_of(shape: Shape, path: str = "/root") -> dict[str, Shape]:
    found = {path: shape}
    for name, inner in shape.items():
        found |= paths_of(inner, f"{path}/{name}")
    return found


def decider(shapes: dict[str, Shape]):
    """What an agent does next is read from its history, so that no death loses a step of it."""

    def decide(path: str, items: Sequence[AnyItem]) -> Reply:
        told = [str(one.output) for one in items if isinstance(one, FunctionCallOutput)]
        children = tuple(shapes[path])
        if not children:
            return says(f"{path} is done") if told else calls(WORK)
        for name in children:  # a spawn that was refused or cut off is wanted again
            there = (f'"task_name":"{path}/{name}"', f"agent path `{path}/{name}` already exists")
            if not any(mark in output for output in told for mark in there):
                return calls(spawn(name))
        has_waited = any("Wait completed" in output for output in told)
        return says(f"{path} is done") if has_waited else calls(wait(*children))

    return decide


async def strike(team: TeamInMemory, paths: list[str], which: int, after_s: float) -> None:
    """Kill whoever lives at that path then; the root too."""
    await trio.sleep(after_s)
    lives = team.children.get(paths[which % len(paths)], [])
    if lives and lives[-1].is_alive:
        lives[-1].kill_group()


async def watch_slots(team: TeamInMemory) -> None:
    """At every quiet moment no process lives without a slot, and at most so many live."""
    while True:
        await trio.sleep(0.5)
        await wait_all_tasks_blocked()
        assert len(team.alive) <= team.slots <= team.running.agents.registry.max_agents


async def play(shape: Shape, slots: int, kills: list[tuple[int, float]]) -> None:
    shapes = paths_of(shape)
    with tempfile.TemporaryDirectory() as folder:
        async with open_team(Path(folder), {}, max_agents=slots) as team:
            team.decide = decider(shapes)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch_slots, team)
                for which, after_s in kills:
                    nursery.start_soon(strike, team, list(shapes), which, after_s)
                await team.begin()
                with trio.fail_after(3600):
                    outcome = await team.service.wait_done()
                nursery.cancel_scope.cancel()
            await wait_all_tasks_blocked()
            check(team, shapes, outcome.state)


def check(team: TeamInMemory, shapes: dict[str, Shape], state: str) -> None:
    assert state == "completed"
    assert {path: states[-1] for path, states in team.ends().items()} == dict.fromkeys(
        shapes, "completed"
    )
    assert team.slots == len(team.alive) == len(team.control.agents)
    assert team.alive <= {"/root"}
    started = [(one.agent_id, one.epoch) for one in team.bodies(AgentSpawned)]
    gone = {(one.agent_id, one.epoch) for one in team.bodies(ProcessEnded)}
    assert len(started) == len(set(started))
    assert len(set(started) - gone) == len(team.alive)
    mails = [one.mail.mail_id for one in team.bodies(MailPosted)]
    assert len(mails) == len(set(mails))


@given(SHAPES, st.integers(1, 3), KILLS)
@settings(max_examples=25, deadline=None)
def test_all_work_is_done_and_every_slot_is_a_process(shape, spare, kills):
    """With a slot for each parent and one more, every spawn is granted at last."""
    slots = max(2, sum(bool(inner) for inner in paths_of(shape).values()) + spare)
    trio.run(play, shape, slots, kills, clock=MockClock(autojump_threshold=0))
