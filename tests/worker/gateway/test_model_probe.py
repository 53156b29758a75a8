"""A probe: what counts as working, what it advises, and a catalogue that a person changes."""

import json

import msgspec
import pytest

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.items import FunctionCall, text_message
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import ProbeOrder, ProviderSpec
from swarm.worker.gateway.model_catalogue import load_catalogue
from swarm.worker.gateway.model_probe import (
    ProbedModel,
    ProbeResult,
    advise,
    find_answer_fault,
    run_probe,
)

KEY = "sk-sentinel-0123456789abcdef"
MODEL = ModelInfo(slug="m", provider="p", wire="messages", can_call_tools=True)


def call(name="report", arguments='{"word":"ready"}'):
    return FunctionCall(call_id="c", name=name, arguments=arguments)


def says(words):
    return text_message("assistant", words)


@pytest.mark.parametrize(
    ("test", "items", "words"),
    [
        ("text", [says("Ready!")], None),
        ("text", [says("  ")], "nothing"),
        ("text", [], "nothing"),
        ("tool", [says("I call it"), call()], None),
        ("tool", [says("report(ready)")], "no call came; it said 'report(ready)'"),
        ("tool", [call(name="other")], "not offered"),
        ("tool", [call(arguments='{"word":1}')], "do not fit"),
        ("tool", [call(arguments='{"word":')], "do not fit"),
        ("schema", [says('{"word": "ready"}')], None),
        ("schema", [says('```json\n{"word":"x"}\n```')], "does not fit"),
        ("schema", [says('{"word":"x","more":1}')], "does not fit"),
    ],
)
def test_only_what_was_asked_for_counts_as_working(test, items, words):
    fault = find_answer_fault(test, items)
    assert fault is None if words is None else words in fault


def outcomes(**works):
    return {test: ProbeResult(test=test, works=yes, answered=True) for test, yes in works.items()}


def test_advice_is_a_table_that_the_catalogue_can_read(tmp_path):
    model = msgspec.structs.replace(MODEL, known=False, slug='odd "name"')
    chosen = ProbedModel(provider="mine", model=model, why="")
    text = advise(chosen, outcomes(text=True, tool=False, schema=True))
    path = tmp_path / "models.toml"
    path.write_text(text)
    entry = load_catalogue([str(path)]).entries['odd "name"']
    assert (entry.provider, entry.can_call_tools, entry.structured_output) == ("mine", False, True)


def test_nothing_is_advised_where_the_entry_says_it_already():
    model = msgspec.structs.replace(MODEL, structured_output=True)
    chosen = ProbedModel(provider="p", model=model, why="")
    assert advise(chosen, outcomes(text=True, tool=True, schema=True)) == ""
    assert "can_call_tools = false" in advise(chosen, outcomes(text=True, tool=False, schema=True))


async def probe(server, **settings):
    told = {"id": "p", "name": "P", "base_url": server.url, "wire_api": "chat", **settings}
    provider = ProviderSpec(env_key="K", request_max_retries=0, **told)
    order = ProbeOrder(providers=(provider,), provider="p", model="m", keys={"K": KEY}, limit_s=2.0)
    return [one async for one in run_probe(order)]


async def test_three_requests_are_sent_and_what_a_server_refuses_beyond_text_is_an_answer(
    model_server,
):
    model_server.add_chat({"content": "ready"})
    model_server.add_chat(
        {"tool_calls": [{"index": 0, "id": "a", "function": {
            "name": "report", "arguments": '{"word":"ready"}'}}]},
        finish="tool_calls",
    )  # fmt: skip
    model_server.add_error(400, {"message": f"no response_format, {KEY}"})
    chosen, *found = await probe(model_server)
    assert (chosen.provider, chosen.model.slug) == ("p", "m")
    assert [(one.test, one.works, one.answered) for one in found] == [
        ("text", True, True),
        ("tool", True, True),
        ("schema", False, True),
    ]
    assert KEY not in found[2].detail
    sent = [seen.json for seen in model_server.requests]
    assert ["tools" in body for body in sent] == [False, True, False]
    assert ["response_format" in body for body in sent] == [False, False, True]


@pytest.mark.parametrize("fault", ["401", "hang", "garbage"])
async def test_a_server_that_does_not_answer_is_asked_once_only(model_server, fault):
    match fault:
        case "401":
            model_server.add_error(401, {"message": f"bad {KEY}"})
        case "hang":
            model_server.add("hang")
        case _:
            model_server.add(b"\x00\x01 what?")
    _, outcome = await probe(model_server)
    assert not outcome.answered
    assert outcome.detail
    assert KEY not in outcome.detail
    assert len(model_server.requests) == 1


# --- the catalogue ------------------------------------------------------------------------------


def catalogue(folder, *texts):
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"{number}.toml"
        path.write_text(text)
        paths.append(str(path))
    return load_catalogue(paths)


def test_a_persons_file_changes_entries_key_by_key_and_adds_its_own(tmp_path):
    found = catalogue(
        tmp_path,
        '[models."claude-opus-5-5"]\ninput_usd_per_million = 1.0\n[models.mine]\nprovider = "x"\n',
        '[models."claude-opus-5-5"]\noutput_usd_per_million = 2.0\n',
    )
    entry = found.entries["claude-opus-5-5"]
    assert (entry.input_usd_per_million, entry.output_usd_per_million) == (1.0, 2.0)
    assert entry.context_window == 1_000_000
    assert found.sources["claude-opus-5-5"].endswith("1.toml")
    assert found.sources["mine"].endswith("0.toml")
    assert found.sources["gpt-5"] == ""


def test_a_default_of_ones_own_goes_before_the_built_in_one(tmp_path):
    assert load_catalogue().default_of("anthropic") == "claude-opus-5-5"
    found = catalogue(tmp_path, '[models."claude-haiku-5-5"]\ndefault = true\n')
    assert found.default_of("anthropic") == "claude-haiku-5-5"
    assert found.default_of("nobody") is None


def test_a_dated_name_is_described_by_the_entry_without_its_date():
    found = load_catalogue()
    dated = found.describe("claude-haiku-4-5-20251001", provider="anthropic", wire="messages")
    assert (dated.slug, dated.known, dated.max_output_tokens) == (
        "claude-haiku-4-5-20251001", True, 64_000,
    )  # fmt: skip
    assert not found.describe("claude-haiku-4-5-2025", provider="p", wire="chat").known


@pytest.mark.parametrize(
    "text",
    ["context_window = 'big'", "window = 1", "thinking = 'deep'", "[models"],
)
def test_a_broken_catalogue_is_told_with_its_file(tmp_path, text):
    with pytest.raises(UsageError, match=r"0\.toml"):
        catalogue(tmp_path, f"[models.a]\n{text}")


def test_every_entry_that_thinks_on_the_messages_wire_has_a_limit_and_a_price():
    for slug, entry in load_catalogue().entries.items():
        if entry.provider == "anthropic":
            assert entry.thinking, slug
            assert entry.max_output_tokens, slug
            assert entry.input_usd_per_million, slug
            json.dumps(msgspec.to_builtins(entry))
