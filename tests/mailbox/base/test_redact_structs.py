"""One door: every text of a struct is cleaned before it is encoded; what is left can be read."""

from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.secret_samples import SAMPLES
from swarm.mailbox.base.redact import REDACTED, Redactor
from swarm.mailbox.base.redact_structs import redact_encoded, redact_json, redact_struct
from swarm.mailbox.protocol.events import CallEnded, Warned
from swarm.mailbox.protocol.items import FunctionCall, Message, OutputText, Reasoning
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    InputPosted,
    ItemRecorded,
    ProcessEnded,
    Record,
    RunStarted,
    decode_record,
    encode_record,
)

KEYS = ("sentinel-7f3a9c-key", 'quo"te\\back/slash', "completed", "rationale")
REDACTOR = Redactor(KEYS)
SECRETS = [*KEYS[:2], *(one.text for one in SAMPLES if one.rule != "private-key")]


def holders(text):
    """Records with a text wherever one can stand."""
    said = Message(role="assistant", content=(OutputText(text=text), OutputText(text="x")))
    call = FunctionCall(
        call_id="c", name="exec_command", arguments=msgspec.json.encode(text).decode()
    )
    return (
        Warned(message=text),
        ItemRecorded(turn_id="t", item=said, item_id="i"),
        ItemRecorded(turn_id="t", item=call, item_id="i"),
        ItemRecorded(turn_id="t", item=Reasoning(summary=("a", text)), item_id="i"),
        CallEnded(turn_id="t", call_id="c", tool="x", status="completed", output=text),
        InputPosted(input_id="i", parts=(TextInput(text="x"),), output_schema=text.encode()),
        ProcessEnded(agent_id="a", epoch=1, pid=2, reason="died", stderr_tail=text),
        AgentEnded(agent_id="a", state="completed", message=text),
        RunStarted(run_id="r", task=text, title=text, cwd="/", version="1"),
    )


def secret_of(text):
    return next((one.secret for one in SAMPLES if one.text == text), text)


pieces = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.sampled_from(SECRETS), pieces, pieces, st.integers(0, 8))
@settings(max_examples=400)
def test_a_secret_in_any_text_of_any_record_is_in_no_journal(secret, before, after, which):
    gap = " " if before[-1:].isalnum() else ""
    body = holders(f"{before}{gap}{secret}\n{after}")[which]
    record = Record(seq=1, ts=1.5, body=body, agent="/root")
    cleaned, line = redact_encoded(REDACTOR, record, encode_record)
    assert line == encode_record(cleaned)
    assert decode_record(line) == cleaned
    assert type(cleaned.body) is type(body)
    shown = str(msgspec.to_builtins(cleaned, builtin_types=(bytes,)))
    assert secret_of(secret) not in shown
    assert secret_of(secret).encode() not in line
    assert REDACTED in shown


@given(pieces, st.integers(0, 8))
def test_a_record_without_a_secret_is_the_very_same_object(text, which):
    record = Record(seq=1, ts=1.5, body=holders(text)[which])
    if Redactor(()).redact(text) != text:
        return
    cleaned, line = redact_encoded(Redactor(()), record, encode_record)
    assert cleaned is record
    assert line == encode_record(record)


@given(st.one_of(st.sampled_from(SECRETS), pieces), pieces)
@settings(max_examples=300)
def test_the_quick_look_at_encoded_text_never_misses_what_the_text_holds(secret, before):
    text = f"{before}{secret}"
    if REDACTOR.redact(text) != text:
        assert REDACTOR.may_hold_secret(msgspec.json.encode({"a": [text]}))
        assert REDACTOR.may_hold_secret(msgspec.json.encode(msgspec.json.encode(text).decode()))


def test_a_key_that_is_a_word_of_the_protocol_does_not_make_a_record_unreadable():
    ended = AgentEnded(agent_id="a", state="completed", message="completed the rationale")
    cleaned, line = redact_encoded(REDACTOR, Record(seq=1, ts=1.0, body=ended), encode_record)
    assert decode_record(line) == cleaned
    assert cleaned.body.state == "completed"
    assert cleaned.body.message == f"{REDACTED} the {REDACTED}"


def test_what_is_long_is_cleaned_as_what_is_short():
    text = "line\n" * 40_000 + "ghp_" + "a1B2" * 9 + "\n" + KEYS[0]
    record = Record(seq=1, ts=1.0, body=Warned(message=text))
    counts = Counter()
    cleaned, line = redact_encoded(REDACTOR, record, encode_record, counts)
    assert cleaned.body.message.endswith(f"line\n{REDACTED}\n{REDACTED}")
    assert counts == {"github": 1, "key-of-this-run": 1}
    assert decode_record(line) == cleaned


class Holder(msgspec.Struct):
    names: dict[str, list[str]] = {}
    data: bytes = b""
    count: int = 0


def test_keys_of_mappings_and_bytes_are_texts_too():
    held = Holder(names={f"x {KEYS[0]}": ["a", KEYS[0]]}, data=b"\xff" + KEYS[0].encode(), count=3)
    cleaned = redact_struct(REDACTOR, held)
    assert cleaned == Holder(
        names={f"x {REDACTED}": ["a", REDACTED]}, data=b"\xff[redacted]", count=3
    )
    assert held.data.endswith(KEYS[0].encode())


@pytest.mark.parametrize(
    ("line", "clean"),
    [
        (b'{"a":["\\nsentinel-7f3a9c-key"],"n":1.5}\n', b'{"a":["\\n[redacted]"],"n":1.5}\n'),
        (b'{"sentinel-7f3a9c-key":null}', b'{"[redacted]":null}'),
        (b'{"a": "\\u0073entinel-7f3a9c-key"}\n', b'{"a":"[redacted]"}\n'),
        (b"no JSON: sentinel-7f3a9c-key\n", b"no JSON: [redacted]\n"),
        (b'{"cut off": "sentinel-7f3a9c-key', b'{"cut off": "[redacted]'),
    ],
)
def test_json_of_any_kind_is_cleaned_by_its_texts(line, clean):
    assert redact_json(REDACTOR, line) == clean


@pytest.mark.parametrize("line", [b'{"a": 1,  "b":"x"}\n', b"", b"\xff\xfe", b"[" * 5_000])
def test_a_line_without_a_secret_is_the_very_same_object(line):
    assert redact_json(REDACTOR, line) is line
