"""Names of things: ids sort by time, paths cannot be forged."""

import uuid

import hypothesis.strategies as st
import pytest
from hypothesis import given

from swarm.mailbox.base.ids import (
    ROOT_PATH,
    AgentPath,
    check_segment,
    child_path,
    is_within,
    new_uuid7,
    parent_path,
    short_id,
)

MOMENTS = st.integers(0, 2**48 - 1)
ENTROPY = st.binary(min_size=10, max_size=10)


@given(MOMENTS, ENTROPY)
def test_an_id_is_a_uuid_of_version_7_that_holds_its_moment(moment, entropy):
    value = uuid.UUID(new_uuid7(unix_ms=moment, entropy=entropy))
    assert (value.version, value.variant) == (7, uuid.RFC_4122)
    assert value.int >> 80 == moment


@given(MOMENTS, MOMENTS, ENTROPY, ENTROPY)
def test_ids_sort_by_time(one, two, some, other):
    if one < two:
        assert new_uuid7(unix_ms=one, entropy=some) < new_uuid7(unix_ms=two, entropy=other)


@given(MOMENTS, ENTROPY)
def test_a_replay_can_repeat_its_ids(moment, entropy):
    first = new_uuid7(unix_ms=moment, entropy=entropy)
    assert first == new_uuid7(unix_ms=moment, entropy=entropy)
    assert short_id(first) == first[-8:]


def test_ids_made_at_once_differ():
    assert len({new_uuid7() for _ in range(1000)}) == 1000


@pytest.mark.parametrize("name", ["scout", "a", "x_1", "0", "a" * 64])
def test_a_plain_name_may_be_a_step_of_a_path(name):
    assert child_path(ROOT_PATH, name) == f"/root/{name}"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("", "must not be empty"),
        ("root", "reserved"),
        (".", "reserved"),
        ("..", "reserved"),
        ("a/b", "must not contain"),
        ("Scout", "lowercase"),
        ("a b", "lowercase"),
        ("a\n", "lowercase"),
        ("é", "lowercase"),
        ("a" * 65, "lowercase"),
    ],
)
def test_any_other_name_is_refused_with_the_rule(name, rule):
    with pytest.raises(ValueError, match=rule):
        check_segment(name)


def test_a_path_knows_its_parent_and_what_is_within_it():
    deep = AgentPath("/root/scout/deep")
    assert parent_path(deep) == "/root/scout"
    assert parent_path(ROOT_PATH) is None
    assert is_within(deep, AgentPath("/root/scout"))
    assert is_within(deep, deep)
    assert not is_within(AgentPath("/root/scouts"), AgentPath("/root/scout"))
    assert not is_within(ROOT_PATH, deep)
