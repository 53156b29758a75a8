"""A run that goes on with another model says so."""

import pytest

from swarm.mailbox.protocol.records import ProviderChosen
from swarm.supervisor.gateway.gateway_manager import describe_new_model
from swarm.supervisor.run import run_title

SMALL = ProviderChosen(provider="local", model="smollm2", why="the only one")
LARGE = ProviderChosen(provider="local", model="qwen", why="its file is here")
SAME = ProviderChosen(provider="local", model="smollm2", why="it was asked for")


@pytest.mark.parametrize(
    ("former", "chosen", "said"), [(None, SMALL, False), (SMALL, SAME, False), (SMALL, LARGE, True)]
)
def test_another_model_than_before_is_named_with_the_way_back(former, chosen, said):
    text = describe_new_model(former, chosen)
    assert bool(text) is said
    if said:
        assert "local:smollm2" in text
        assert "local:qwen (its file is here)" in text
        assert "resume -m local:smollm2" in text


@pytest.mark.parametrize(
    ("task", "prompt", "title"),
    [
        ("prompt", "\n# Mend it\nnow", "Mend it"),
        ("-", "Mend it", "Mend it"),
        ("examples/tour.md", "Explain.", "tour.md: Explain."),
    ],
)
def test_runs_of_different_files_have_different_titles(task, prompt, title):
    assert run_title(task, prompt) == title
