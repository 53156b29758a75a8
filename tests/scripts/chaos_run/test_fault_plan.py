"""Which faults are thrown, and what the model says, follow from the seed alone."""

from collections import Counter
from typing import get_args

from chaos_scenario import (
    MANY_COMMANDS,
    MOST_TRIES,
    Conversation,
    answer_text,
    followup_text,
    gave_up,
    make_scenario,
    next_reply,
    planned_calls,
    task_text,
)
from fault_plan import Kind, plan_faults
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.exec.exec_outcome import MAX_SESSIONS

SEEDS = st.integers(0, 10_000).map(str)


@given(SEEDS, st.floats(0, 60))
def test_a_plan_is_the_same_for_the_same_seed_and_within_its_time(seed, seconds):
    plan = plan_faults(seed, seconds)
    assert plan == plan_faults(seed, seconds)
    assert all(0 <= strike.at_s < seconds for strike in plan)
    assert list(plan) == sorted(plan, key=lambda strike: strike.at_s)


@given(SEEDS)
def test_no_plan_kills_so_often_that_giving_up_would_be_right(seed):
    killed = Counter((s.kind, s.target) for s in plan_faults(seed, 60))
    for victim in ("root", "gateway"):  # given up after the fourth death
        assert killed["kill", victim] + killed["segv", victim] <= 3
    assert killed["lose", ""] <= 3
    assert all(strike.lasts_s <= 15 for strike in plan_faults(seed, 60))


def test_every_kind_of_fault_is_thrown_by_some_seed():
    thrown = {strike.kind for seed in range(40) for strike in plan_faults(str(seed), 20)}
    assert thrown == set(get_args(Kind))
    assert all(
        s.kind != "disk_full" for n in range(40) for s in plan_faults(str(n), 20, disk=False)
    )


@given(SEEDS)
def test_every_planned_of_a_play_has_a_name_of_its_own_and_every_child_a_part(seed):
    play = make_scenario(seed)
    assert play == make_scenario(seed)
    names = Counter(planned.name for part in play.values() for planned in planned_calls(part))
    assert set(names.values()) == {1}
    started = {child for part in play.values() for child in part.children}
    items = {path for path, part in play.items() if part.is_item}
    assert started | items == {*play} - {"/root"}
    assert not started & items


def test_each_attempt_at_an_item_has_calls_of_its_own():
    play = next(p for p in map(make_scenario, map(str, range(50))) if "/root/i" in p)
    calls = [
        next_reply(play, Conversation("/root/i", {}, "", task_text("/root/i"), attempt_id=who))
        .calls[0]
        .call_id
        for who in ("a1", "b2", "a1")
    ]
    assert calls[0] != calls[1]
    assert calls[0] == calls[2]


def perform(play, path, *, cut_off=lambda call: False):
    """Play one part with a world in which all comes true, but for what is cut off."""
    outputs, said, asked, lines = {}, "", task_text(path) + followup_text(path), []
    for _ in range(2_000):
        line = next_reply(play, Conversation(path, outputs, said, asked))
        lines.append(line)
        for call in line.calls:
            assert call.call_id not in outputs
            outputs[call.call_id] = "interrupted" if cut_off(call) else true_output(call)
        if not line.calls:
            said += line.text
            if "as I said" in line.text or path == "/root" or gave_up(line.text):
                return lines
    raise AssertionError("it never ends")


def true_output(call):
    match call.tool:
        case "spawn_agent":
            return '{"task_name": "x"}'
        case "wait_agent":
            (target,) = call.arguments["targets"]
            result = answer_text(target, 0) + answer_text(target, 1)
            return (
                f'{{"finished": [{{"agent_name": "{target}", "end_state": "completed", '
                f'"result": "{result}"}}]}}'
            )
        case _:
            return "did"


@given(SEEDS)
def test_each_part_ends_with_its_answers_and_asks_for_no_command_twice(seed):
    play = make_scenario(seed)
    for path, part in play.items():
        lines = perform(play, path)
        texts = [line.text for line in lines if line.text]
        scenes = range(len(part.turns))
        assert all(answer_text(path, n) in text for n, text in zip(scenes, texts, strict=False))
        assert len(texts) >= len(scenes)
        commands = Counter(c.call_id for x in lines for c in x.calls if c.tool == "exec_command")
        assert set(commands.values()) <= {1}


def test_what_was_cut_off_is_wished_again_unless_it_is_a_command():
    play = make_scenario("3")
    cut = set()

    def once(call):
        first = call.tool not in {name for name, _ in cut}
        cut.add((call.tool, call.call_id))
        return first

    lines = perform(play, "/root", cut_off=once)
    assert answer_text("/root", 0) in lines[-1].text
    ids = [call.call_id for line in lines for call in line.calls]
    assert any(one.endswith("-spawn-1") for one in ids)
    assert any(one.endswith("-wait-1") for one in ids)
    assert not any(one.endswith("-run-1") for one in ids)


def test_a_planned_that_never_comes_true_is_given_up_and_said():
    lines = perform(make_scenario("3"), "/root", cut_off=lambda call: call.tool == "wait_agent")
    assert gave_up(lines[-1].text)
    assert sum(call.tool == "wait_agent" for line in lines for call in line.calls) == MOST_TRIES


def test_some_plays_have_an_agent_that_wants_more_commands_at_once_than_may_run():
    plays = [make_scenario(f"seed {number}") for number in range(60)]
    sizes = [
        max(len(act) for part in play.values() for scene in part.turns for act in scene)
        for play in plays
    ]
    assert {MANY_COMMANDS} < {*sizes}
    assert MANY_COMMANDS > MAX_SESSIONS
    for play in plays:
        names = [planned.name for part in play.values() for planned in planned_calls(part)]
        assert len(names) == len(set(names))
