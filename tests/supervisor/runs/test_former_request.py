"""A run that was made before its request's fields were nested is read as it was meant."""

from operator import attrgetter
from pathlib import Path

import msgspec
import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.supervisor.request.run_request import FanOut, ItemAgents, RunRequest
from swarm.supervisor.request.saved_request import load_request, save_request
from swarm.supervisor.runs.former_request import MOVED, from_former
from swarm.supervisor.runs.paths import RunPaths

# Written by the last version with flat fields; none of its 95 fields has its default.
FORMER = Path(__file__).parent / "former" / "request_of_flat_fields.json"


@pytest.fixture
def former():
    return msgspec.json.decode(FORMER.read_bytes(), type=dict)


def at(value, place):
    for name in place:
        value = value[name]
    return value


def without(value, key):
    return {k: v for k, v in value.items() if k != key} if isinstance(value, dict) else value


def loaded(tmp_path, data):
    (tmp_path / "request.json").write_bytes(data)
    return load_request(RunPaths(folder=tmp_path, sockets=tmp_path))


def test_every_field_of_a_former_request_is_at_its_present_place(former):
    assert set(MOVED) <= {(name,) for name in former} | {("mcp", "items")}
    request = msgspec.convert(from_former(former), RunRequest)
    now = msgspec.json.decode(msgspec.json.encode(request))
    for was, place in MOVED.items():
        value = attrgetter(".".join(place))(request)
        assert msgspec.json.decode(msgspec.json.encode(value)) == at(former, was), was
    for name in former.keys() - {was for (was, *_) in MOVED}:
        assert without(now[name], "agents") == former[name], name
    assert without(now["mcp"], "items") == without(former["mcp"], "items")


def test_a_former_request_can_be_read_for_a_resume(tmp_path):
    request = loaded(tmp_path, FORMER.read_bytes())
    assert request.inherited.user_instructions.startswith("user_instructions")
    assert request.fan_out.agents.mcp[0].server.startswith("server")
    save_request(RunPaths(folder=tmp_path, sockets=tmp_path), request)
    again = load_request(RunPaths(folder=tmp_path, sockets=tmp_path))
    assert again.inherited == request.inherited
    assert again.fan_out == request.fan_out


@pytest.mark.parametrize(
    ("former", "items"),
    [
        ({"model": "m", "effort": "low"}, ModelSettings(model="m", effort="low")),
        ({"model": "m", "fan_model": "n"}, ModelSettings(model="n")),
        ({"model": "m", "fan_provider": "p"}, ModelSettings(provider="p")),
        ({"fallback": ["a:b"]}, ModelSettings()),
    ],
)
def test_items_that_said_nothing_of_their_own_had_the_runs_model(tmp_path, former, items):
    saved = {"cwd": "/", "fan_out": {"items": ["a"], "prompt": "p"}} | former
    request = loaded(tmp_path, msgspec.json.encode(saved))
    assert request.fan_out.agents.model_settings == items


def test_what_was_kept_for_items_of_no_fan_out_is_left_out(tmp_path):
    request = loaded(tmp_path, b'{"cwd":"/","fan_isolation":"copy","isolation":"copy"}')
    assert (request.fan_out, request.copies.isolation) == (None, "copy")


def test_a_request_of_today_is_read_as_it_is():
    agents = ItemAgents(host="lab")
    request = RunRequest(cwd="/", fan_out=FanOut(items=("a",), prompt="p", agents=agents))
    saved = msgspec.to_builtins(request)
    assert from_former(saved) is saved


def test_a_request_that_is_none_says_so(tmp_path):
    with pytest.raises(UsageError, match="cannot be resumed"):
        loaded(tmp_path, b'{"cwd":"/","max_agents":"many"}')
