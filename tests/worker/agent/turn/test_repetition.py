"""When a streak of the same calls is told of, and when it ends the turn: a table of stories."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.agent.turn.repetition import (
    NEW_RESULT_WEIGHT,
    STOP_WEIGHT,
    CallRecord,
    RepetitionDetector,
    RepetitionVerdict,
)


def did(arguments="{}", *, name="look", status="completed", end="same", seconds=0.1):
    return CallRecord(name=name, arguments=arguments, status=status, end=end, seconds=seconds)


def first_at(responses, wanted):
    """The number (from 1) of the response at which the verdict comes; None if it never does."""
    streak = RepetitionDetector()
    for number, calls in enumerate(responses, start=1):
        if streak.add(calls) is wanted:
            return number
    return None


@pytest.mark.parametrize(
    ("story", "told_at", "ended_at"),
    [
        ([[did()]] * 200, 7, 13),  # the first is news
        ([[did("a")], [did("b")]] * 100, 8, 14),  # in turns is no better
        ([[did(end=f"{n}")] for n in range(200)], 16, 31),  # same call, other ends
        ([[did(seconds=30)]] * 200, 31, 61),  # it takes its time: perhaps it waits for something
        ([[did(end=f"{n}", seconds=30)] for n in range(200)], None, None),
        ([[did(f"{n}")] for n in range(200)], None, None),
        ([[did(name="wait_agent")]] * 700, 61, 601),
        ([[did(name="write_stdin", seconds=300)]] * 700, 61, 601),
        ([[did("a", name="write_stdin"), did(name="wait_agent")]] * 700, 61, 601),
        ([[did("a", name="write_stdin")], [did("b", name="write_stdin")]] * 400, 62, 602),
        ([[did(name="write_stdin", end=f"{n}")] for n in range(700)], None, None),
        (([[did(name="wait_agent")]] * 59 + [[did(name="wait_agent", end="b")]]) * 3, 120, None),
        (([[did(name="wait_agent")]] * 50 + [[did("look")]]) * 3, 112, None),  # a known look
        ([one for n in range(9) for one in [[did(name="wait_agent")]] * 50 + [[did(end=f"{n}")]]],
         None, None),
        ([[did(name="write_stdin", status="failed")]] * 200, 7, 13),
        ([[did(), did()]] * 200, 7, 13),
        ([[], []] * 100, None, None),
        (([[did()]] * 6 + [[did("other")]]) * 30, 13, 19),  # what was done before is no news
    ],
)  # fmt: skip
def test_a_streak_without_news_is_told_of_and_then_ended(story, told_at, ended_at):
    assert first_at(story, RepetitionVerdict.WARN) == told_at
    assert first_at(story, RepetitionVerdict.STOP) == ended_at


def test_something_new_begins_the_count_again():
    streak = RepetitionDetector()
    fresh = [[did(f"{n}")] for n in range(40)]
    for new in fresh:
        verdicts = [streak.add(calls) for calls in ([did()], [did()], new)]
        assert verdicts == [RepetitionVerdict.FINE] * 3


CYCLES = st.lists(
    st.lists(st.builds(did, st.sampled_from("abc"), end=st.sampled_from("xy")), min_size=1),
    min_size=1,
    max_size=6,
)


@given(CYCLES)
def test_whatever_goes_round_for_ever_is_stopped_soon(cycle):
    stopped = first_at(cycle * 40, RepetitionVerdict.STOP)
    assert stopped is not None
    assert stopped <= len(cycle) + STOP_WEIGHT / NEW_RESULT_WEIGHT + 1
