"""Passing words: one stream each, ended by the record that carries the whole."""

import hashlib
from types import SimpleNamespace

import msgspec
import pytest

from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.protocol.control import Recorded, TransientEvent
from swarm.mailbox.protocol.events import (
    CallEnded,
    OutputArrived,
    ReasoningArrived,
    TextArrived,
    TurnAborted,
    Waiting,
)
from swarm.mailbox.protocol.items import Message, OutputText
from swarm.mailbox.protocol.records import ItemRecorded, Record
from swarm.mailbox.protocol.requests import BlobStored, RequestRefused, StoreBlob
from swarm.supervisor.base.delta_redaction import DeltaRedactor
from swarm.supervisor.context.event_broadcast import EventBroadcast
from swarm.supervisor.runs.image_blobs import store_blob
from swarm.supervisor.views.run_state import RunState

KEY = "secret-of-the-run"


def text(delta, item="i", agent="/root"):
    return TransientEvent(agent=agent, event=TextArrived(turn_id="t", item_id=item, delta=delta))


def output(delta, call="c"):
    return TransientEvent(
        agent="/root", event=OutputArrived(turn_id="t", call_id=call, delta=delta)
    )


def written(body, agent="/root"):
    return Record(seq=1, ts=0.0, body=body, agent=agent)


def item(name="i"):
    said = Message(role="assistant", content=(OutputText(text="x"),))
    return written(ItemRecorded(turn_id="t", item=said, item_id=name, source="model"))


def call_end(name="c"):
    return written(CallEnded(turn_id="t", call_id=name, tool="exec_command", status="completed"))


@pytest.mark.parametrize(
    "events",
    [
        [text("say secret-of-"), text("the-run!")],
        [output("say secret-of-"), output("the-run!")],
        [
            TransientEvent(
                agent="/root", event=ReasoningArrived(turn_id="t", item_id="i", delta=piece)
            )
            for piece in ("say secret-of-", "the-run!")
        ],
    ],
)
def test_a_key_in_two_pieces_is_hidden(events):
    words = DeltaRedactor(Redactor([KEY]))
    said = [words.redact(event) for event in events]
    assert [one.event.delta for one in said] == ["say ", "[redacted]!"]


def test_streams_of_others_are_apart():
    words = DeltaRedactor(Redactor([KEY]))
    assert words.redact(text("secret-of-")) is None
    assert words.redact(text("the-run.", agent="/root/b")).event.delta == "the-run."
    assert words.redact(text("the-run.", item="j")).event.delta == "the-run."
    assert words.redact(output("the-run.")).event.delta == "the-run."


@pytest.mark.parametrize(
    ("passed", "end", "rest"),
    [
        (text("a s"), item(), "s"),
        (output("a s"), call_end(), "s"),
        (text("a secret-of"), item(), "[redacted]"),
        (text("a s"), written(TurnAborted(turn_id="t")), "s"),
        (text("a s"), item("other"), None),
        (text("a s"), call_end("i"), None),
    ],
)
def test_the_end_of_a_stream_shows_its_last_letters_once(passed, end, rest):
    words = DeltaRedactor(Redactor([KEY]))
    assert words.redact(passed).event.delta == "a "
    assert [one.event.delta for one in words.end_streams(end)] == ([] if rest is None else [rest])
    assert list(words.end_streams(written(TurnAborted(turn_id="t")))) == (
        [] if rest else [text("s")]
    )


def test_more_streams_than_a_turn_can_need_are_not_shown():
    words = DeltaRedactor(Redactor([KEY]))
    shown = [words.redact(text("x ", item=str(number))) is not None for number in range(70)]
    assert shown == [True] * 64 + [False] * 6


def test_the_reason_of_a_wait_holds_no_key():
    passed = TransientEvent(agent="/root", event=Waiting(reason=f"limit of {KEY}"))
    assert DeltaRedactor(Redactor([KEY])).redact(passed).event.reason == "limit of [redacted]"


def test_view_state_and_feed_are_shown_the_same_clean_words():
    seen, sent = [], []
    feed = SimpleNamespace(
        watchers=1, publish=lambda body: sent.append(msgspec.msgpack.decode(body))
    )
    showing = EventBroadcast(
        RunState(), SimpleNamespace(on_feed=seen.append), feed, redactor=Redactor([KEY])
    )
    showing.publish_transient(text("a secret-of-the-run and s"))
    showing.publish_record(item())
    assert seen == [text("a [redacted] and "), text("s"), Recorded(record=item())]
    assert [one["type"] for one in sent] == ["passed", "passed", "recorded"]
    assert KEY not in str(sent)


PNG = b"\x89PNG\r\n\x1a\n"


def blob(data, digest=None):
    return StoreBlob(sha256=digest or hashlib.sha256(data).hexdigest(), data=data)


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (blob(b"plain words"), "no PNG"),
        (blob(b""), "no PNG"),
        (blob(PNG + b"x", digest="0" * 64), "do not fit"),
        (blob(PNG + b"Comment\0" + KEY.encode()), "a key of this run"),
    ],
)
def test_only_pictures_without_a_key_become_blobs(tmp_path, stored, why):
    reply = store_blob(tmp_path, stored, Redactor([KEY]))
    assert isinstance(reply, RequestRefused)
    assert why in reply.message
    assert list(tmp_path.iterdir()) == []


def test_a_picture_is_stored_under_its_address(tmp_path):
    request = blob(PNG + b"pixels")
    assert store_blob(tmp_path, request, Redactor([KEY])) == BlobStored(
        path=str(tmp_path / request.sha256)
    )
    assert (tmp_path / request.sha256).read_bytes() == request.data
