"""How much of a model's window is left, as people are told."""

import pytest

from swarm.supervisor.base.number_format import BASELINE_TOKENS, context_left


@pytest.mark.parametrize(
    ("used", "window", "left"),
    [
        (0, 0, None),
        (0, 112_000, 100),
        (BASELINE_TOKENS, 112_000, 100),  # what every conversation begins with
        (62_000, 112_000, 50),
        (112_000, 112_000, 0),
        (500_000, 112_000, 0),
        (5, BASELINE_TOKENS, 0),
        (5, 1, 0),
    ],
)
def test_the_beginning_counts_for_nothing_and_the_rest_is_shared(used, window, left):
    assert context_left(used, window) == left
