"""A run says so when its model is tiny, small or unknown, and of no other."""

import msgspec
import pytest

from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.supervisor.processes.answer_caution import answer_caution
from swarm.worker.gateway.model_catalogue import load_catalogue

KNOWN = ModelInfo(slug="m", provider="p", wire="chat")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"wire": "local", "can_call_tools": False}, "do not trust"),
        ({"wire": "local", "constrained_calls": True}, "often wrong"),
        ({"small": True}, "often wrong"),
        ({"context_window": 8192}, "often wrong"),
        ({"known": False}, "swarm models probe m"),
        ({"known": False, "wire": "messages"}, "not in the catalogue"),
    ],
)
def test_a_weak_or_unknown_model_gets_a_caution(change, words):
    assert words in answer_caution(msgspec.structs.replace(KNOWN, **change))


def test_a_known_capable_model_and_a_script_get_none():
    assert answer_caution(KNOWN) == ""
    assert answer_caution(msgspec.structs.replace(KNOWN, wire="scripted", known=False)) == ""


def test_every_embedded_model_and_no_other_of_the_catalogue_gets_one():
    catalogue = load_catalogue()
    told = {
        slug
        for slug, entry in catalogue.entries.items()
        if answer_caution(catalogue.describe(slug, provider=entry.provider or "p", wire="chat"))
    }
    assert told == {"smollm2", "qwen2.5-coder-1.5b"}
