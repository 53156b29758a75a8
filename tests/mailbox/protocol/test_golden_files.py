"""Every message of every closed union has a golden file: the bytes that were are those that are."""

import importlib.util
import json
from functools import reduce
from operator import or_
from pathlib import Path

import msgspec
import pytest

from swarm.mailbox.protocol.records import Record, decode_record, encode_record
from swarm.mailbox.protocol.values.base import Tagged

_spec = importlib.util.spec_from_file_location(
    "golden_regenerate", Path(__file__).parents[2] / "golden" / "regenerate.py"
)
golden = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(golden)

UNIONS = golden.find_unions()
CASES = [
    pytest.param(union, member, id=f"{union}/{golden.tag_of(member)}")
    for union, members in UNIONS.items()
    for member in members
]


def load(union, member):
    content = json.loads(golden.golden_path(union, member).read_text(encoding="utf-8"))
    return content["message"], bytes.fromhex(content["msgpack"])


def decoder(union):
    return msgspec.msgpack.Decoder(reduce(or_, UNIONS[union]))


def fields_at_default(value, where=""):
    """Paths of all fields, at any depth, that hold their default."""
    if isinstance(value, tuple | list):
        for index, inner in enumerate(value):
            yield from fields_at_default(inner, f"{where}[{index}]")
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            inner, path = getattr(value, field.name), f"{where}.{field.name}"
            if field.default is not msgspec.NODEFAULT and inner == field.default:
                yield path
            yield from fields_at_default(inner, path)


def subclasses(cls):
    for one in cls.__subclasses__():
        if one.__module__.startswith("swarm.mailbox.protocol."):
            yield one
        yield from subclasses(one)


def test_every_message_belongs_to_a_closed_union():
    in_unions = {member for members in UNIONS.values() for member in members}
    assert set(subclasses(Tagged)) - in_unions == set()


def test_there_is_no_golden_file_without_a_message():
    files = set(golden.HERE.glob("*/*.json"))
    assert files == {golden.golden_path(*case.values) for case in CASES}


@pytest.mark.parametrize(("union", "member"), CASES)
def test_a_message_reads_and_writes_as_its_golden_file_says(union, member):
    message, wire = load(union, member)
    decoded = decoder(union).decode(wire)
    assert type(decoded) is member
    assert msgspec.msgpack.encode(decoded) == wire
    assert golden.readable(wire) == message
    assert list(fields_at_default(decoded)) == []


@pytest.mark.parametrize(("union", "member"), CASES)
def test_a_field_from_a_newer_peer_is_ignored(union, member):
    _, wire = load(union, member)
    newer = msgspec.msgpack.decode(wire) | {"from_the_future": {"deep": [1, "two"]}}
    decode = decoder(union).decode
    assert decode(msgspec.msgpack.encode(newer)) == decode(wire)


@pytest.mark.parametrize("member", UNIONS["record_body"])
def test_a_record_survives_the_journal(member):
    _, wire = load("record_body", member)
    record = Record(seq=3, ts=1.5, agent="/root", body=msgspec.msgpack.decode(wire, type=member))
    line = encode_record(record)
    assert b"\n" not in line
    assert decode_record(line) == record


def test_a_journal_from_before_is_read_past_the_fields_that_have_gone_since():
    posted = next(member for member in UNIONS["record_body"] if member.__name__ == "MailPosted")
    _, wire = load("record_body", posted)
    record = Record(seq=3, ts=1.5, agent="/root", body=decoder("record_body").decode(wire))
    line = encode_record(record).replace(
        b'"kind":"final_answer"', b'"kind":"final_answer","sent_at":2.5'
    )
    assert b"sent_at" in line
    assert decode_record(line) == record
