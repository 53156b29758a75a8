"""How responses are sampled is sent where the wire has the field, and nowhere else."""

import json

import msgspec
import pytest

from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.settings import SamplingSettings
from swarm.worker.gateway import chat_request, messages_head, responses_request
from swarm.worker.gateway.request_encoding import HeadKey

WANTED = SamplingSettings(
    temperature=0.5, top_p=0.25, top_k=20, min_p=0.125, presence_penalty=1.0,
    frequency_penalty=-1.0, repeat_penalty=1.5, seed=7,
)  # fmt: skip
MODEL = ModelInfo(slug="m", provider="p", wire="chat", max_output_tokens=1_000)
FIELDS = SamplingSettings.__struct_fields__


def sent(encode, model, sampling=WANTED, **more):
    key = HeadKey(model=model, instructions="", sampling=sampling, **more)
    head = encode(key).before.decode()
    for closing in ("]}", "}", ""):
        try:
            found = json.loads(head + closing)
        except ValueError:
            continue
        return {name: found[name] for name in FIELDS if name in found}
    raise AssertionError(head)


def test_the_chat_wire_has_every_field():
    assert sent(chat_request.encode_head, MODEL) == msgspec.structs.asdict(WANTED)


def test_the_responses_wire_has_two():
    assert sent(responses_request.encode_head, MODEL) == {"temperature": 0.5, "top_p": 0.25}


def test_a_compaction_of_the_provider_takes_none():
    assert sent(responses_request.encode_head, MODEL, compacts=True) == {}


@pytest.mark.parametrize(
    ("effort", "fields"),
    [("none", {"temperature": 0.5, "top_p": 0.25, "top_k": 20}), ("high", {})],
)
def test_the_messages_wire_has_three_while_the_model_does_not_think(effort, fields):
    thinker = msgspec.structs.replace(MODEL, reasoning=True, thinking="adaptive")
    assert sent(messages_head.encode_head, thinker, effort=effort) == fields


@pytest.mark.parametrize(
    "encode", [chat_request.encode_head, responses_request.encode_head, messages_head.encode_head]
)
def test_nothing_is_sent_that_nobody_asked_for(encode):
    assert sent(encode, MODEL, SamplingSettings()) == {}


def test_the_embedded_model_gives_the_same_answer_unless_something_else_is_wanted():
    embedded = msgspec.structs.replace(MODEL, wire="local")
    assert sent(chat_request.encode_head, embedded, SamplingSettings()) == {
        "temperature": 0.1, "seed": 1,
    }  # fmt: skip
    warm = SamplingSettings(temperature=0.0)
    assert sent(chat_request.encode_head, embedded, warm) == {"temperature": 0.0, "seed": 1}
