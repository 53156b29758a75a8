"""Nicknames: none twice before all were used, then with an ordinal."""

import random

import pytest

from swarm.supervisor.agents.nicknames import DEFAULT_NICKNAMES, NicknamePool, with_ordinal


def test_the_pool_has_98_names_and_none_twice():
    assert len(DEFAULT_NICKNAMES) == len(set(DEFAULT_NICKNAMES)) == 98


def test_every_name_is_used_once_before_any_comes_again_with_its_ordinal():
    pool = NicknamePool(random.Random(1))
    assert {pool.take() for _ in DEFAULT_NICKNAMES} == set(DEFAULT_NICKNAMES)
    assert {pool.take() for _ in DEFAULT_NICKNAMES} == {
        f"{name} the 2nd" for name in DEFAULT_NICKNAMES
    }
    assert pool.take().endswith(" the 3rd")


@pytest.mark.parametrize(
    ("resets", "name"),
    [
        (0, "Euler"),
        (1, "Euler the 2nd"),
        (2, "Euler the 3rd"),
        (3, "Euler the 4th"),
        (10, "Euler the 11th"),
        (11, "Euler the 12th"),
        (12, "Euler the 13th"),
        (20, "Euler the 21st"),
        (110, "Euler the 111th"),
    ],
)
def test_ordinals(resets, name):
    assert with_ordinal("Euler", resets) == name


def test_a_roles_own_candidates_are_used_alone():
    pool = NicknamePool(random.Random(1))
    assert [pool.take(["Scout"]) for _ in range(2)] == ["Scout", "Scout the 2nd"]


def test_a_preferred_name_is_kept_even_if_in_use():
    pool = NicknamePool(random.Random(1))
    assert pool.take(["Scout"]) == pool.take(preferred="Scout") == "Scout"


def test_no_candidates_is_an_error():
    with pytest.raises(ValueError, match="no available agent nicknames"):
        NicknamePool().take([])
