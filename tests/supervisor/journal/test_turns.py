"""Where turns begin in a history, and what is left when the last of them are taken back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.changes import CompactionInfo
from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnStarted
from swarm.mailbox.protocol.items import FunctionCall, FunctionCallOutput, text_message
from swarm.mailbox.protocol.records import ContextRecorded, ItemRecorded, Record
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.supervisor.journal.replay import fold_agent
from swarm.supervisor.journal.turns import drop_last_turns, find_turn, fold_turns, list_turns

MODEL = ModelInfo(slug="m", provider="p", wire="responses")


def records(*bodies):
    return [
        Record(seq=n, ts=float(n), body=body, agent="/root") for n, body in enumerate(bodies, 1)
    ]


def begin(turn):
    return TurnStarted(turn_id=turn, model=MODEL)


def end(turn, text="x"):
    return TurnCompleted(turn_id=turn, last_message=text)


def item(turn, one):
    return ItemRecorded(turn_id=turn, item=one, item_id=f"{turn}-{id(one)}")


def user(text):
    return text_message("user", text)


def assistant(text):
    return text_message("assistant", text)


def turn(name, calls=0):
    bodies = [begin(name), item(name, user(name))]
    for number in range(calls):
        call = f"{name}-{number}"
        bodies.append(item(name, FunctionCall(call_id=call, name="f", arguments="{}")))
        bodies.append(item(name, FunctionCallOutput(call_id=call, output="o")))
    return [*bodies, item(name, assistant(f"{name} done")), end(name, f"{name} done")]


def replaced(*items, **more):
    return ContextRecorded(turn_id="", items=items, **more)


@given(st.lists(st.integers(0, 3), max_size=6), st.integers(1, 8))
def test_what_is_left_is_a_prefix_in_which_every_call_has_its_output(calls, count):
    bodies = [one for n, many in enumerate(calls) for one in turn(f"t{n}", many)]
    found = fold_turns(records(*bodies))
    left = drop_last_turns(found, count)
    assert left.turns == min(count, len(calls))
    assert left.dropped == tuple(f"t{n}" for n in range(len(calls)))[len(calls) - left.turns :]
    assert list(left.items) == found.items[: len(left.items)]
    made = {one.call_id for one in left.items if isinstance(one, FunctionCall)}
    assert made == {one.call_id for one in left.items if isinstance(one, FunctionCallOutput)}


def test_words_that_steered_a_turn_go_with_it():
    steered = turn("b")
    steered.insert(2, item("b", user("and this")))
    left = drop_last_turns(fold_turns(records(*turn("a"), *steered)), 1)
    assert list(left.items) == [user("a"), assistant("a done")]


def test_a_turn_that_a_crash_cut_in_two_is_one():
    cut = [
        begin("b"),
        item("b", user("b")),
        begin("b2"),
        item("b2", assistant("b done")),
        end("b2"),
    ]
    found = fold_turns(records(*turn("a"), *cut))
    assert [one.turn_id for one in found.turns] == ["a", "b"]
    assert drop_last_turns(found, 1).items == (user("a"), assistant("a done"))


def test_a_second_rollback_goes_on_from_the_first():
    bodies = [*turn("a"), *turn("b"), *turn("c")]
    first = drop_last_turns(fold_turns(records(*bodies)), 1)
    bodies += [replaced(*first.items, rolled_back=1), *turn("d")]
    second = drop_last_turns(fold_turns(records(*bodies)), 2)
    assert second.dropped == ("b", "d")
    assert second.items == (user("a"), assistant("a done"))


def test_a_compacted_history_still_has_the_turns_whose_words_stayed():
    short = CompactionInfo(compaction_id="k", trigger="limit", means="cut", before_tokens=9,
                      after_tokens=1, before_items=4)  # fmt: skip
    bodies = [*turn("a"), *turn("b"), replaced(user("a"), user("b"), shortened=short), *turn("c")]
    found = fold_turns(records(*bodies))
    assert [one.at for one in found.turns] == [0, 1, 2]
    assert drop_last_turns(found, 2).dropped == ("c",)
    assert drop_last_turns(found, 2).items == (user("a"),)


def test_a_resumed_agent_remembers_what_is_left_and_no_open_turn():
    bodies = [*turn("a"), begin("b"), item("b", user("b")), replaced(
        user("a"), assistant("a done"), rolled_back=1)]  # fmt: skip
    memory = fold_agent(records(*bodies))
    assert (memory.open_turn, memory.last_message) == (None, "a done")
    assert memory.items == [user("a"), assistant("a done")]


@pytest.mark.parametrize(
    ("wanted", "number"), [("1", 1), ("-1", 3), ("last", 3), ("2", 2), ("cc-", 3), ("-bb", 2)]
)
def test_a_turn_is_found_by_number_or_id(wanted, number):
    names = ("aa-aa", "bb-bb", "cc-cc")
    turns = list_turns(records(*[one for name in names for one in turn(name)]))
    assert find_turn(turns, wanted).number == number


@pytest.mark.parametrize("wanted", ["0", "4", "-4", "zz", "", "99999999999999999999"])
def test_a_turn_that_is_not_there_is_refused_with_those_there_are(wanted):
    turns = list_turns(records(*turn("aa"), begin("bb"), TurnAborted(turn_id="bb"), begin("cc")))
    with pytest.raises(UsageError, match="turn"):
        find_turn(turns, wanted)
    assert [one.end_seq > 0 for one in turns] == [True, True, False]
