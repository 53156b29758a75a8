"""Code that ran is copied to lie together: what it does, who is in it and who knows it stays."""

import sys
import weakref
from types import FunctionType

import pytest

from swarm.worker.process.page_locality import colocate_code, trace_executed_code


def runs(number: int) -> list[int]:
    return [sorted([one, number], key=lambda each: -each)[0] for one in range(3)]


def never_runs() -> None:
    pass


def is_known() -> str:
    return "by its code"


def has_state(start: int = 5, *, step: int = 2):
    def count() -> int:
        nonlocal start
        start += step
        return start

    return count


def is_named() -> int:
    return 1


COUNT = has_state()
FUNCTIONS = (runs, never_runs, is_known, has_state, COUNT, is_named)


@pytest.fixture
def _as_it_was():
    """The code of this file's functions is put back: other tests look for nothing new in it."""
    codes = [function.__code__ for function in FUNCTIONS]
    yield
    for function, code in zip(FUNCTIONS, codes, strict=True):
        function.__code__ = code


def life() -> None:
    runs(1)
    is_known()
    COUNT()


def code_in(function: FunctionType) -> list[object]:
    return [one for one in function.__code__.co_consts if hasattr(one, "co_code")]


@pytest.mark.usefixtures("_as_it_was")
def test_what_ran_has_new_code_that_does_the_same_and_what_did_not_keeps_its_own():
    old, inner, other = runs.__code__, code_in(runs), never_runs.__code__
    assert colocate_code(trace_executed_code(life)) > 2
    assert runs.__code__ is not old
    assert runs.__code__ == old
    assert not {id(one) for one in code_in(runs)} & {id(one) for one in inner}
    assert never_runs.__code__ is other
    assert runs(1) == [1, 1, 2]


@pytest.mark.usefixtures("_as_it_was")
def test_a_function_made_long_ago_keeps_its_cells_and_defaults():
    before = COUNT()
    old = COUNT.__code__
    colocate_code(trace_executed_code(COUNT))
    assert COUNT.__code__ is not old
    assert COUNT() == before + 4
    assert has_state(1, step=1)() == 2


@pytest.mark.usefixtures("_as_it_was")
def test_code_that_somebody_knows_by_its_identity_stays_as_trio_marks_it():
    old = is_known.__code__
    marks = weakref.WeakValueDictionary({1: old})
    colocate_code(trace_executed_code(life))
    assert is_known.__code__ is old
    del marks
    colocate_code(trace_executed_code(life))
    assert is_known.__code__ is not old


@pytest.mark.usefixtures("_as_it_was")
def test_all_functions_of_a_named_module_count_as_run():
    old = is_named.__code__
    colocate_code({}, also={__name__})
    assert is_named.__code__ is not old


@pytest.mark.usefixtures("_as_it_was")
def test_whoever_profiled_before_profiles_after_it_also_when_the_life_fails():
    before = sys.getprofile()

    def fails() -> None:
        raise RuntimeError("a life that fails")

    with pytest.raises(RuntimeError):
        trace_executed_code(fails)
    assert sys.getprofile() is before
